"""What an operator can set, as plain records; `config` reads them from flags, environment and YAML."""

from msgspec import Struct, field

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS


class Thresholds(Struct, frozen=True, kw_only=True):
    """Where the policy and the alerts draw the line. Fractions and counts of 0 and above, more than 1 too."""

    queue_age_frac: float = 0.5
    """A task older than this fraction of its deadline is not admitted."""
    restart_frac: float = 0.2
    """A task whose restart tokens exceed this fraction of its budget is not admitted."""
    max_preempts: int = 2
    """A task preempted this often is not admitted."""
    restart_must_fit: bool = False
    """Whether a task whose restart cannot finish inside its slack, at the measured rates, is not admitted."""
    rework_max: float = 1.5
    """Attempts per completed job above which a lane is not worth its price."""
    interventions_per_100_max: float = 5.0
    """Interventions per 100 completed jobs above which a lane is not worth its price."""
    margin_s: float = 300.0
    """Seconds that required slack keeps in hand."""


class RoutingThresholds(Struct, frozen=True, kw_only=True):
    """Where the router's decision table draws the line, beside `Thresholds`."""

    paid_below_deadline_s: float = 60.0
    """A deadline shorter than this leaves no room for any wait."""
    checkpoint_below_deadline_s: float = 1800.0
    """A deadline shorter than this can only bear a preemption with a checkpoint."""
    prompt_to_output_max: float = 4.0
    """Prompt tokens per remaining output token above which a replay without a checkpoint is mostly prompt."""
    host_preempts_max: int = 2
    """A host that preempted this often is avoided."""
    completed_jobs_min: int = 20
    """Completed jobs below which a lane's figures are too few to decide upon."""


class TaskDefaults(Struct, frozen=True, kw_only=True):
    """What fills in for limits that no line of a life gives; None: unknown stays unknown."""

    deadline_ms: int | None = None
    task_budget: int | None = None


class TaskSettings(Struct, frozen=True, kw_only=True):
    """How lives are kept and which of them get series."""

    series_of_worst: int | None = 1000
    """How many tasks get series, the worst first; None: all."""
    linger_ms: int = 5 * MINUTE_MS
    """How long after its end a rejected, drained or abandoned life keeps its totals in the scrape."""
    limit: int = 100_000
    """How many lives are kept at most."""
    abandon_after_ms: int | None = None
    """Silence after the deadline that makes a life abandoned; None: the deadline again, 10 minutes at least."""
    silent_after_ms: int | None = None
    """Silence that makes a running life silent where it declared no `next_within_ms`; None: never."""
    defaults: TaskDefaults = TaskDefaults()


class LaneSettings(Struct, frozen=True, kw_only=True):
    """How lanes are named and measured."""

    default: str = "default"
    """The lane of lines that name none."""
    names: tuple[str, ...] = ()
    """Lanes that exist from the first scrape on, in the router's order."""
    window_ms: int = 24 * HOUR_MS
    """How old an attempt may be to count in the window gauges."""
    prefill_tokens_per_s: dict[str, float] = field(default_factory=dict)
    """Measured prefill rate by lane; a lane without one uses its decode rate."""


class ValueSource(Struct, frozen=True, kw_only=True):
    """Where one of our values comes from on somebody else's line. Values of ours are kept as JSON text."""

    path: tuple[str | int, ...] | None = None
    """The keys and indexes that lead to the value, outermost first; None: `constant` it is."""
    constant: str = "null"
    words: dict[str, str] = field(default_factory=dict)
    """What becomes of certain values: theirs as a word (`200`, `true`, `null`, `done`), ours as JSON text."""
    otherwise: str | None = None
    """What becomes of every value that `words` does not name; None: it stays what it is."""
    missing: str | None = None
    """What stands in for a value that is not there or null; None: nothing does."""
    unit: str | None = None
    """How their moment or duration is written: `h`, `min`, `s`, `ms`, `us`, `ns` or `rfc3339`; None: as ours."""
    zone_offset_s: int | None = None
    """How far east of UTC an `rfc3339` moment was written that names no zone; None: such a one is bad."""
    quoted: bool = False
    """Whether numbers may be written in quotes."""
    plus: tuple["ValueSource", ...] = ()
    """What is added, or joined on where our field is a name; where one is not there, the whole is not there."""
    minus: tuple["ValueSource", ...] = ()


class MappingRule(Struct, frozen=True, kw_only=True):
    """How lines that nobody wrote for us are read: one entry of `mappings` in the configuration file."""

    place: str
    """Where the rule stands, as `file:line`."""
    files: tuple[str, ...]
    """Absolute globs of ledgers, or of bare names, which match in any folder."""
    when: tuple[tuple[tuple[str | int, ...], frozenset[str]], ...] = ()
    """Conditions that must all hold: a path and the words that its value may be."""
    event: ValueSource
    """The line's kind: a constant, or a value of theirs through `words`; without words it is one of our own names."""
    fields: dict[str, tuple[ValueSource, ...]]
    """By field of ours the places to look at; the first that holds something counts."""
    refuse_other: bool = False
    """Whether a line that no rule speaks of is bad rather than ignored."""
