"""What the gate keeps of a task: one life, as its lines tell it."""

from typing import Literal

from msgspec import Struct

LifeState = Literal["queued", "running", "preempted", "rejected", "drained", "complete"]

LIVE_STATES: frozenset[str] = frozenset({"queued", "running", "preempted"})
FINAL_STATES: frozenset[str] = frozenset({"drained", "complete"})

TaskKey = tuple[str | None, str]
"""(`run`, `task_id`)."""

FormKey = tuple[int, int]
"""One file of a ledger: device and inode."""


class Life(Struct, kw_only=True, gc=False):
    """One passage of a task from enqueue to its end. Moments are Unix milliseconds."""

    task_id: str
    run: str | None
    lane: str
    state: LifeState
    owner: str
    """Who began it: the word before the first `-` of the id of its first line; empty where that had none."""
    enqueued_ms: int
    last_ms: int
    """Moment of the newest line."""
    deadline_ms: int | None = None
    """Duration from enqueue; None: unknown."""
    task_budget: int | None = None
    prompt_tokens: int | None = None
    target_tokens: int | None = None
    output_tokens: int = 0
    """Progress, never behind the checkpoint; falls back to it with a preemption."""
    checkpoint_tokens: int = 0
    input_digest: str | None = None
    """Of the input that the checkpoint was made from."""
    restart_tokens: int = 0
    preempts: int = 0
    admitted: bool = False
    """Whether it ever ran."""
    next_within_ms: int | None = None
    """The worker's promise of its next sign of life; None: it made none."""
    step_ms: int | None = None
    """Where the current step began: the last checkpoint, or the admission."""
    host: str | None = None
    """Where it last ran."""
    reject_reason: str | None = None
    ended_ms: int | None = None
    ended_in: FormKey | None = None
    """The rotated form in which its end stands; None: the live one."""

    @property
    def key(self) -> TaskKey:
        """The task's name."""
        return (self.run, self.task_id)

    @property
    def live(self) -> bool:
        """Not ended."""
        return self.state in LIVE_STATES

    def queue_age_ms(self, now_ms: int) -> int:
        """Now less enqueue, never below 0."""
        return max(0, now_ms - self.enqueued_ms)

    def deadline_slack_ms(self, now_ms: int) -> int | None:
        """Deadline less queue age; None while the deadline is unknown."""
        return None if self.deadline_ms is None else self.deadline_ms - self.queue_age_ms(now_ms)

    def silent(self, now_ms: int, silent_after_ms: int | None) -> bool:
        """Whether it runs and said nothing for longer than it promised, or than `silent_after_ms` without a promise."""
        patience = silent_after_ms if self.next_within_ms is None else self.next_within_ms
        return self.state == "running" and patience is not None and now_ms - self.last_ms > patience
