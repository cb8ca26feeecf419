"""Every kind of ledger line as a small typed record, and the words that the ledger's closed sets know.

A record is decoded from one line of UTF-8 JSON. Unknown fields are ignored; GPU utilization in any spelling is
among them on purpose. Units stand in the names: `_ms` milliseconds, `_s` seconds, `_tokens` tokens. A field that is
`None` was not on the line (or was null).

Small structs in a tagged union decode twice as fast as one wide struct with every field; attempt lines carry no tag
and are therefore a type of their own.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

MAX_EXACT_INTEGER = 2**53
"""Integers past this lose their value in a float64, which is what every reader downstream holds: refused."""

MAX_ID_BYTES = 256
MAX_LANE_BYTES = 64
MAX_LINE_BYTES = 1 << 20

Count = Annotated[int, Meta(ge=0, le=MAX_EXACT_INTEGER)]
SignedMs = Annotated[int, Meta(ge=-MAX_EXACT_INTEGER, le=MAX_EXACT_INTEGER)]
Seconds = Annotated[float, Meta(gt=-MAX_EXACT_INTEGER, lt=MAX_EXACT_INTEGER)]
"""Strictly inside: 2^53 + 1 becomes 2^53 when it is read as a float, and must not pass."""
Id = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_ID_BYTES,
        description="A name of at most 256 bytes; an integer is read as its decimal string.",
    ),
]
LineId = Annotated[str, Meta(min_length=1, max_length=MAX_ID_BYTES, description="Names the line, for repeats.")]
Host = Annotated[str, Meta(min_length=1, max_length=MAX_ID_BYTES)]
Lane = Annotated[str, Meta(min_length=1, max_length=MAX_LANE_BYTES)]
"""Where it is optional the empty string means absent, as an empty Prometheus label does; so with run, host and id."""

RejectReason = Literal[
    "slack_zero", "queue_age", "preempt_budget", "restart_tokens", "restart_cannot_finish", "drain_mode"
]
REJECT_REASONS: tuple[str, ...] = (
    "slack_zero",
    "queue_age",
    "preempt_budget",
    "restart_tokens",
    "restart_cannot_finish",
    "drain_mode",
)
REFUSAL_OPS: tuple[str, ...] = (
    "grant",
    "reserve",
    "renew",
    "checkpoint",
    "resume",
    "commit",
    "release",
    "compensate",
)
REFUSAL_REASONS: tuple[str, ...] = (
    "ALREADY_COMMITTED",
    "STALE_EPOCH",
    "UNRESERVED_SPEND",
    "LEASE_EXPIRED",
    "OVER_BUDGET",
    "ALREADY_RESERVED",
    "SHARD_ACCEPTED",
    "DIGEST_MISMATCH",
    "ARTIFACT_MISSING",
    "RUN_STOPPED",
)


class _Event(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag_field="event"):
    """What every line with an `event` field may carry."""

    lane: Lane | None = None
    run: Id | None = None
    host: Host | None = None
    id: LineId | None = None


class _TaskEvent(_Event, frozen=True, gc=False, kw_only=True):
    """An admission event: about one task at one moment."""

    ts_ms: Count
    task_id: Id


class Enqueue(_TaskEvent, frozen=True, gc=False, kw_only=True, tag="enqueue"):
    """A task joined the queue. `deadline_ms` is a duration from enqueue."""

    enqueued_ms: Count | None = None
    deadline_ms: Count | None = None
    task_budget: Count | None = None
    prompt_tokens: Count | None = None
    target_tokens: Count | None = None


class Admit(_TaskEvent, frozen=True, gc=False, kw_only=True, tag="admit"):
    """A task was let in, for the first time or again after a preemption."""

    queue_age_ms: Count
    deadline_slack_ms: SignedMs
    preempts: Count
    enqueued_ms: Count | None = None
    deadline_ms: Count | None = None
    task_budget: Count | None = None
    prompt_tokens: Count | None = None
    target_tokens: Count | None = None


class Reject(_TaskEvent, frozen=True, gc=False, kw_only=True, tag="reject"):
    """A task was refused. `reason` is one of `REJECT_REASONS`; any other counts as `other`."""

    reason: str
    queue_age_ms: Count | None = None
    deadline_slack_ms: SignedMs | None = None
    preempts: Count | None = None
    restart_tokens: Count | None = None
    task_budget: Count | None = None


class Heartbeat(_TaskEvent, frozen=True, gc=False, kw_only=True, tag="heartbeat"):
    """A worker still holds its slot. Silence longer than `next_within_ms` means lost."""

    output_tokens: Count | None = None
    next_within_ms: Count | None = None


class Preempt(_TaskEvent, frozen=True, gc=False, kw_only=True, tag="preempt"):
    """The slot was taken back. `wasted_tokens` is this preemption's; the two totals are the life's so far."""

    wasted_tokens: Count
    restart_tokens: Count
    preempts: Count
    deadline_slack_ms: SignedMs | None = None
    inferred: bool | None = None


class Checkpoint(_TaskEvent, frozen=True, gc=False, kw_only=True, tag="checkpoint"):
    """Progress that a restart will not have to repeat."""

    checkpoint_tokens: Count
    output_tokens: Count | None = None
    input_digest: str | None = None
    next_within_ms: Count | None = None


class Drain(_TaskEvent, frozen=True, gc=False, kw_only=True, tag="drain"):
    """A task was failed rather than replayed (`action` is `fail_task_not_replay`)."""

    action: str


class Complete(_TaskEvent, frozen=True, gc=False, kw_only=True, tag="complete"):
    """A task finished."""

    output_tokens: Count
    restart_tokens: Count


TaskEvent = Enqueue | Admit | Reject | Heartbeat | Preempt | Checkpoint | Drain | Complete


class _Switch(_Event, frozen=True, gc=False, kw_only=True):
    """A change of run, lane or mode: who did it and why."""

    ts_ms: Count | None = None
    by: str | None = None
    reason: str | None = None


class _RunEvent(_Switch, frozen=True, gc=False, kw_only=True):
    """A change of one run."""

    run: Id


class RunOpen(_RunEvent, frozen=True, gc=False, kw_only=True, tag="run_open"):
    """A run opened, or was changed: a later one changes only what it names; `deadline_ms` counts from the first."""

    budget_tokens: Count | None = None
    deadline_ms: Count | None = None
    tasks: Count | None = None
    cases_per_shard: Count | None = None


class RunClose(_RunEvent, frozen=True, gc=False, kw_only=True, tag="run_close"):
    """A run handed over."""


class RunStop(_RunEvent, frozen=True, gc=False, kw_only=True, tag="run_stop"):
    """A run grants nothing more until it is resumed."""


class RunResume(_RunEvent, frozen=True, gc=False, kw_only=True, tag="run_resume"):
    """A stopped run grants again."""


class LaneDrain(_Switch, frozen=True, gc=False, kw_only=True, tag="lane_drain"):
    """A lane was put under an action of the rules pack."""

    lane: Lane
    action: str


class LaneResume(_Switch, frozen=True, gc=False, kw_only=True, tag="lane_resume"):
    """A lane is open again."""

    lane: Lane


class Mode(_Switch, frozen=True, gc=False, kw_only=True, tag="mode"):
    """The admission mode changed."""

    mode: Literal["normal", "reject_preempt_budget"]


SwitchEvent = RunOpen | RunClose | RunStop | RunResume | LaneDrain | LaneResume | Mode


class _SpendEvent(_Event, frozen=True, gc=False, kw_only=True):
    """What happened to one shard of one run in the spend store."""

    run: Id
    shard: Id
    ts_ms: Count


class _EpochEvent(_SpendEvent, frozen=True, gc=False, kw_only=True):
    """What happened to one epoch of it."""

    epoch: Count


class Reserve(_EpochEvent, frozen=True, gc=False, kw_only=True, tag="reserve"):
    """Tokens were set aside under a lease."""

    tokens: Count
    lease_expires_ms: Count
    input_digest: str


class Renew(_EpochEvent, frozen=True, gc=False, kw_only=True, tag="renew"):
    """A lease was extended."""

    lease_expires_ms: Count


class ShardCheckpoint(_EpochEvent, frozen=True, gc=False, kw_only=True, tag="shard_checkpoint"):
    """Progress inside a shard up to case `index`, having used `tokens`."""

    index: Count
    tokens: Count
    input_digest: str


class Resume(_EpochEvent, frozen=True, gc=False, kw_only=True, tag="resume"):
    """A new epoch goes on at case `index`; 0 when it starts over."""

    index: Count


class Commit(_EpochEvent, frozen=True, gc=False, kw_only=True, tag="commit"):
    """The epoch's artifact was accepted and its tokens billed."""

    tokens: Count
    artifact_digest: str


class Release(_EpochEvent, frozen=True, gc=False, kw_only=True, tag="release"):
    """A reservation went back to the budget (`reason`: `lease_expired`, `cancelled`, `superseded`)."""

    tokens: Count
    reason: str
    burned_tokens: Count | None = None


class Refuse(_SpendEvent, frozen=True, gc=False, kw_only=True, tag="refuse"):
    """The store said no to `op`; a refused grant has no epoch. `tokens` and `host` say to what and to whom."""

    op: str
    reason: str
    epoch: Count | None = None
    tokens: Count | None = None


class Compensate(_EpochEvent, frozen=True, gc=False, kw_only=True, tag="compensate"):
    """An accepted artifact was taken back; its tokens stay committed and the shard can be granted again."""

    artifact_digest: str
    reason: str


SpendEvent = Reserve | Renew | ShardCheckpoint | Resume | Commit | Release | Refuse | Compensate

Event = TaskEvent | SwitchEvent | SpendEvent


class Attempt(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One dispatch of a job, written when it ended. Seconds are on any one clock.

    `outcome` `ok` is the only success, `preempted` is a preemption, any other string is another failure. Token
    counts may be null: unknown, never 0. The attempt's name is (`run`, `lane`, `job_id`, `attempt`).
    """

    job_id: Id
    lane: Lane
    attempt: Annotated[int, Meta(ge=1, le=MAX_EXACT_INTEGER)]
    enqueue_s: Seconds
    start_s: Seconds
    end_s: Seconds
    outcome: str
    tokens_in: Count | None
    tokens_out: Count | None
    interventions: Count
    ts_ms: Count | None = None
    run: Id | None = None
    host: Host | None = None
    id: LineId | None = None
    idempotent: bool | None = None
    checkpointed: bool | None = None


Record = Event | Attempt

TASK_EVENT_TYPES: tuple[type[TaskEvent], ...] = (
    Enqueue,
    Admit,
    Reject,
    Heartbeat,
    Preempt,
    Checkpoint,
    Drain,
    Complete,
)
SWITCH_EVENT_TYPES: tuple[type[SwitchEvent], ...] = (
    RunOpen,
    RunClose,
    RunStop,
    RunResume,
    LaneDrain,
    LaneResume,
    Mode,
)
SPEND_EVENT_TYPES: tuple[type[SpendEvent], ...] = (
    Reserve,
    Renew,
    ShardCheckpoint,
    Resume,
    Commit,
    Release,
    Refuse,
    Compensate,
)
EVENT_TYPES: tuple[type[Event], ...] = TASK_EVENT_TYPES + SWITCH_EVENT_TYPES + SPEND_EVENT_TYPES
EVENT_NAMES: tuple[str, ...] = tuple(str(kind.__struct_config__.tag) for kind in EVENT_TYPES)
