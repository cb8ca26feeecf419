"""A life: one passage of a task from enqueue to its end."""

from msgspec import Struct

QUEUED = "queued"
RUNNING = "running"
PREEMPTED = "preempted"
REJECTED = "rejected"
DRAINED = "drained"
COMPLETE = "complete"
ABANDONED = "abandoned"

LIVE_STATES = (QUEUED, RUNNING, PREEMPTED)
ENDED_STATES = (REJECTED, DRAINED, COMPLETE)

MINUTE_MS = 60_000
ABANDON_AT_LEAST_MS = 10 * MINUTE_MS
ABANDON_WITHOUT_DEADLINE_MS = 24 * 60 * MINUTE_MS


def surely_live_for_ms(abandon_after_ms: int | None) -> int:
    """How long after its last line no life that has not ended counts as abandoned, whatever its deadline."""
    return ABANDON_AT_LEAST_MS if abandon_after_ms is None else abandon_after_ms


class Life(Struct, gc=False, eq=False, kw_only=True):
    """What the lines of one life say so far. Times are Unix milliseconds, durations milliseconds.

    Two lives are never equal: one is itself, whatever changes about it.
    """

    # What nearly every line touches stands first, so that it shares cache lines.
    ended_ms: int | None = None
    ledger: int
    """Index of the ledger that the life's last line came from."""
    last_ms: int
    """`ts_ms` of the life's newest line, as far as it is not in the future of its reading."""
    lane: str
    """The last lane that a line of the life named, or the default lane."""
    state: str
    output_tokens: int = 0
    """Output of the current attempt, at least what its checkpoint holds."""
    next_within_ms: int | None = None
    """The running attempt's promise of its next sign of life."""
    checkpoint_tokens: int = 0
    step_ms: int | None = None
    """When the current checkpoint step began, at `checkpoint_tokens`: the last checkpoint, or the admission."""
    task_id: str
    run: str | None
    enqueued_ms: int
    """Moment of enqueue: given, else derived from a queue age, else that of the first line."""
    enqueued_given: bool = False
    enqueued_derived: bool = False
    deadline_ms: int | None = None
    """Duration from enqueue: given, else derived from age and slack, else the default, else unknown."""
    deadline_given: bool = False
    deadline_derived: bool = False
    task_budget: int | None = None
    budget_given: bool = False
    prompt_tokens: int | None = None
    target_tokens: int | None = None
    restart_tokens: int = 0
    preempts: int = 0
    admitted: bool = False
    reject_reason: str | None = None
    refused: bool = False
    """The life's last decision was `reject` or `drain`."""
    missed: bool = False

    def age_ms(self, now_ms: int) -> int:
        """Queue age in milliseconds, never below 0."""
        return max(0, now_ms - self.enqueued_ms)

    def slack_ms(self, now_ms: int) -> int | None:
        """Deadline slack in milliseconds, negative once missed; None without a deadline."""
        return None if self.deadline_ms is None else self.deadline_ms - self.age_ms(now_ms)

    def abandoned_at_ms(self, abandon_after_ms: int | None) -> int:
        """The moment after which an unended life counts as abandoned unless another line comes.

        `abandon_after_ms` is the setting; None means the deadline again, at least 10 minutes, and 24 h for a life
        without a deadline.
        """
        if self.deadline_ms is None:
            return self.last_ms + (ABANDON_WITHOUT_DEADLINE_MS if abandon_after_ms is None else abandon_after_ms)
        patience = max(self.deadline_ms, ABANDON_AT_LEAST_MS) if abandon_after_ms is None else abandon_after_ms
        return max(self.enqueued_ms + self.deadline_ms, self.last_ms) + patience

    def is_live(self, now_ms: int, abandon_after_ms: int | None) -> bool:
        """Whether the life still waits or runs: not ended and not abandoned."""
        return self.ended_ms is None and now_ms <= self.abandoned_at_ms(abandon_after_ms)

    def silent(self, now_ms: int, silent_after_ms: int | None) -> bool:
        """Whether a running life is past its own promise, or past `silent_after_ms` where it made none."""
        patience = silent_after_ms if self.next_within_ms is None else self.next_within_ms
        return self.state == RUNNING and patience is not None and now_ms - self.last_ms > patience
