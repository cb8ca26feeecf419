"""Lives, told slowly: a life keeps every line it heard, and each figure is found by reading them all again."""

from dataclasses import dataclass, field
from typing import Any

from preempt_exporter.settings import HOUR_MS, MINUTE_MS, TaskSettings
from tests.state.reference_reading import TASK_FIELDS, Line

LIVE_STATES = ("queued", "running", "preempted")
ENDED_STATES = ("rejected", "drained", "complete")
STATE_OF_EVENT = {
    "enqueue": "queued",
    "admit": "running",
    "heartbeat": "running",
    "checkpoint": "running",
    "preempt": "preempted",
    "reject": "rejected",
    "drain": "drained",
    "complete": "complete",
}

TaskKey = tuple[str | None, str]
"""(`run`, `task_id`)."""


@dataclass(frozen=True)
class Heard:
    """A line of a life, and whether it came out of order from another ledger."""

    line: Line
    late: bool


@dataclass
class Life:
    """One passage of a task from enqueue to its end."""

    key: TaskKey
    heard: list[Heard] = field(default_factory=list)

    def in_order(self) -> list[Line]:
        """The lines that may move the life, in reading order."""
        return [one.line for one in self.heard if not one.late]

    def last(self) -> Line:
        """The life's last line."""
        return self.in_order()[-1]

    def state(self) -> str:
        """Where the lines leave the life; `abandoned` needs a clock and is told by `state_at`."""
        state = ""
        for line in self.in_order():
            state = state_after(state, line.event)
        return state

    def named_lane(self) -> str | None:
        """The last lane that a line of the life named."""
        named = [line.lane for line in self.in_order() if line.lane is not None]
        return named[-1] if named else None

    def newest(self, name: str) -> Any:
        """The newest value of a field; a late line fills it only where it is missing."""
        on_time = [line.get(name) for line in self.in_order() if line.has(name)]
        return on_time[-1] if on_time else None

    def newest_or_filled(self, name: str) -> Any:
        """The newest value, else what the first late line filled in."""
        filled = [one.line.get(name) for one in self.heard if one.late and one.line.has(name)]
        newest = self.newest(name)
        return newest if newest is not None else next(iter(filled), None)

    def enqueue_ms(self) -> int:
        """Given (the earliest), else told by the first line that knows its queue age, else the first line's moment."""
        given: int | None = None
        for one in self.heard:
            if one.line.has("enqueued_ms"):
                enqueued_ms = one.line.get("enqueued_ms")
                if given is None:
                    given = enqueued_ms
                elif not one.late:
                    given = min(given, enqueued_ms)
        if given is not None:
            return given
        for one in self.heard:
            if one.line.has("queue_age_ms"):
                return int(one.line.moment_ms - one.line.get("queue_age_ms"))
        return self.heard[0].line.moment_ms

    def deadline_ms(self, default: int | None) -> int | None:
        """Given, else age + slack of the first line that has both, else the default."""
        given: int | None = self.newest_or_filled("deadline_ms")
        if given is not None:
            return given
        for one in self.heard:
            if one.line.has("queue_age_ms", "deadline_slack_ms"):
                return int(one.line.get("queue_age_ms") + one.line.get("deadline_slack_ms"))
        return default

    def task_budget(self, default: int | None) -> int | None:
        """Given, else the default."""
        given: int | None = self.newest_or_filled("task_budget")
        return given if given is not None else default

    def largest(self, name: str) -> int:
        """`restart_tokens` or `preempts`: the maximum within the life, whoever told it."""
        return max((one.line.get(name) for one in self.heard if one.line.has(name)), default=0)

    def checkpoint_tokens(self) -> int:
        """The newest checkpoint's tokens, 0 before the first."""
        return self.newest("checkpoint_tokens") or 0

    def next_within_ms(self, default: int | None) -> int | None:
        """The newest promise since the last enqueue, admit or preempt, else the default."""
        promised = default
        for line in self.in_order():
            if line.event in ("enqueue", "admit", "preempt"):
                promised = default
            elif line.has("next_within_ms"):
                promised = line.get("next_within_ms")
        return promised

    def abandoned_ms(self, task: TaskSettings) -> int:
        """The moment after which silence means that nobody will come back."""
        deadline_ms = self.deadline_ms(task.defaults.deadline_ms)
        if deadline_ms is None:
            patience_ms = 24 * HOUR_MS if task.abandon_after_ms is None else task.abandon_after_ms
            return self.last().moment_ms + patience_ms
        patience_ms = max(deadline_ms, 10 * MINUTE_MS) if task.abandon_after_ms is None else task.abandon_after_ms
        return max(self.enqueue_ms() + deadline_ms, self.last().moment_ms) + patience_ms

    def state_at(self, now_ms: int, task: TaskSettings) -> str:
        """The state by the clock: a live life that was silent for too long is abandoned."""
        state = self.state()
        if state in LIVE_STATES and now_ms > self.abandoned_ms(task):
            return "abandoned"
        return state

    def age_ms(self, now_ms: int) -> int:
        """Queue age; never below 0."""
        return max(0, now_ms - self.enqueue_ms())


def state_after(state: str, event: str) -> str:
    """The arrows of the contract. Nothing leads back to `queued` but a rejection that was taken back."""
    if event == "enqueue" and state in ("running", "preempted"):
        return state
    return STATE_OF_EVENT[event]


@dataclass(frozen=True)
class TaskLine:
    """What one admission event did when it was read."""

    line: Line
    life: Life
    lane: str
    began_ms: int | None
    """The enqueue moment, when this line began the life."""
    ended: bool
    completed: bool
    missed_deadline: bool
    first_wait_ms: int | None
    """Enqueue to first admit, when this line is that admit."""
    step: tuple[int, int] | None
    """Tokens and milliseconds since the previous checkpoint or admit of the same running stretch."""


def tell_lives(lines: list[Line], task: TaskSettings, default_lane: str) -> tuple[dict[TaskKey, Life], list[TaskLine]]:
    """The current life of every task, and what every admission event did."""
    lives: dict[TaskKey, Life] = {}
    told: list[TaskLine] = []
    missed: list[Life] = []
    for line in lines:
        if line.event not in TASK_FIELDS:
            continue
        key = (line.run, line.get("task_id"))
        life = lives.get(key)
        fate = "new life" if life is None else fate_of(line, life)
        if life is None or fate == "new life":
            life = lives[key] = Life(key)
        step = step_ending_with(line, life) if fate in ("in order", "new life") else None
        if fate != "counters only":
            life.heard.append(Heard(line, late=fate == "late"))
        moved = fate in ("in order", "new life")
        ended = moved and line.event in ("reject", "drain", "complete")
        deadline_ms = life.deadline_ms(task.defaults.deadline_ms)
        too_late = (
            ended
            and deadline_ms is not None
            and line.moment_ms - life.enqueue_ms() > deadline_ms
            and not any(life is one for one in missed)
        )
        if too_late:
            missed.append(life)
        admits = [one for one in life.in_order() if one.event == "admit"]
        told.append(
            TaskLine(
                line=line,
                life=life,
                lane=line.lane or life.named_lane() or default_lane,
                began_ms=life.enqueue_ms() if fate == "new life" else None,
                ended=ended,
                completed=ended and line.event == "complete",
                missed_deadline=too_late,
                first_wait_ms=max(0, line.moment_ms - life.enqueue_ms()) if moved and admits == [line] else None,
                step=step,
            )
        )
    return lives, told


def fate_of(line: Line, life: Life) -> str:
    """What a line may do to an existing life: `in order`, `late`, `counters only`, or begin a `new life`."""
    if line.ledger != life.last().ledger and line.moment_ms < life.last().moment_ms:
        return "late" if line.moment_ms >= life.enqueue_ms() else "counters only"
    state = life.state()
    if state in LIVE_STATES:
        return "in order"
    if line.event in ("enqueue", "admit"):
        if state == "rejected" and enqueue_moment_of(line) <= life.last().moment_ms:
            return "in order"
        return "new life"
    if state == "rejected" and line.event in ("reject", "drain", "complete"):
        return "in order"
    return "counters only"


def enqueue_moment_of(line: Line) -> int:
    """When the task of this line was enqueued, by this line alone."""
    if line.has("enqueued_ms"):
        return int(line.get("enqueued_ms"))
    return int(line.moment_ms - (line.get("queue_age_ms") or 0))


def step_ending_with(line: Line, life: Life) -> tuple[int, int] | None:
    """The decode step that ends with this checkpoint: tokens gained and time since the stretch's previous mark."""
    if line.event != "checkpoint":
        return None
    mark: tuple[int, int] | None = None
    tokens_so_far = 0
    for earlier in life.in_order():
        if earlier.event == "checkpoint":
            tokens_so_far = earlier.get("checkpoint_tokens")
            mark = (tokens_so_far, earlier.moment_ms)
        elif earlier.event == "admit":
            mark = (tokens_so_far, earlier.moment_ms)
        elif earlier.event in ("preempt", "reject", "drain", "complete"):
            mark = None
    if mark is None:
        return None
    tokens, ms = line.get("checkpoint_tokens") - mark[0], line.moment_ms - mark[1]
    return (tokens, ms) if tokens > 0 and ms > 0 else None
