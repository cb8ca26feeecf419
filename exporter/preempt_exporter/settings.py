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
