"""The gate's book: every task's life, moved by ledger lines alone.

The same `apply` takes the lines that the gate has just put on disk and those that a restart reads back, so what a
crash leaves behind is by construction what was known before it.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from preempt_exporter.decide.restart_cost import output_at_checkpoint
from preempt_exporter.gate.lane_rates import LaneRates
from preempt_exporter.gate.life import FormKey, Life, TaskKey
from preempt_exporter.ledger.records import (
    Admit,
    Checkpoint,
    Complete,
    Drain,
    Enqueue,
    Heartbeat,
    Preempt,
    Record,
    Reject,
    RunClose,
    TaskEvent,
)

MAX_ENDED_LIVES = 1_000_000
"""How many ended lives are remembered, so that no retry loop can start one again; the oldest ends make room."""


def owner_of(line_id: str | None) -> str:
    """Who wrote a line, by its id: the word before the first `-`; empty where it has none."""
    return line_id.partition("-")[0] if line_id and "-" in line_id else ""


class TaskBook:
    """Lives by task, and the rates of their lanes."""

    def __init__(
        self,
        *,
        lane_default: str,
        rates: LaneRates,
        lives: Iterable[Life] = (),
        keep: Callable[[TaskKey], bool] | None = None,
        max_ended_lives: int = MAX_ENDED_LIVES,
    ) -> None:
        """Start with `lives`, in the order of their ends. `keep`: only these tasks are kept (None: all)."""
        self._lane_default = lane_default
        self.rates = rates
        self._keep = keep
        self._max_ended_lives = max_ended_lives
        self._live: dict[TaskKey, Life] = {}
        self._ended: OrderedDict[TaskKey, Life] = OrderedDict()
        for life in lives:
            self._place(life)

    def __iter__(self) -> Iterator[Life]:
        """Ended lives in the order of their ends, then live ones."""
        yield from self._ended.values()
        yield from self._live.values()

    def __len__(self) -> int:
        """How many lives are kept."""
        return len(self._ended) + len(self._live)

    def live(self) -> Iterable[Life]:
        """Lives that have not ended."""
        return self._live.values()

    def get(self, key: TaskKey) -> Life | None:
        """The task's newest life."""
        return self._live.get(key) or self._ended.get(key)

    def apply(self, record: Record, rotated: FormKey | None = None) -> None:
        """Let one ledger line move its task. Lines about anything else are passed by.

        `rotated`: the rotated form in which it stands; None: it was written just now, or stands in the live one.
        """
        if isinstance(record, RunClose):
            self._forget_ended_of(record.run)
        elif isinstance(record, TaskEvent):
            key = (record.run, record.task_id)
            if self._keep is None or self._keep(key):
                self._apply_to(key, record, rotated)

    def _apply_to(self, key: TaskKey, event: TaskEvent, rotated: FormKey | None) -> None:
        life = self.get(key)
        if life is None:
            life = self._begin(event)
        elif not life.live:
            begins = isinstance(event, Enqueue | Admit)
            if begins and not _copied_from_before_the_end(life, event, rotated):
                if life.state == "rejected" and _enqueue_moment(event) <= (life.ended_ms or 0):
                    life.ended_ms = None
                else:
                    life = self._begin(event)
            elif not (life.state == "rejected" and isinstance(event, Reject | Drain | Complete)):
                return
        self._move(life, event)
        if not life.live:
            life.ended_in = rotated
        life.last_ms = max(life.last_ms, event.ts_ms)
        self._place(life)

    def _begin(self, event: TaskEvent) -> Life:
        return Life(
            task_id=event.task_id,
            run=event.run,
            lane=event.lane or self._lane_default,
            state="running",
            owner=owner_of(event.id),
            enqueued_ms=_enqueue_moment(event),
            last_ms=event.ts_ms,
        )

    def _place(self, life: Life) -> None:
        key = life.key
        self._ended.pop(key, None)
        if life.live:
            self._live[key] = life
            return
        self._live.pop(key, None)
        self._ended[key] = life
        while len(self._ended) > self._max_ended_lives:
            self._ended.popitem(last=False)

    def _forget_ended_of(self, run: str) -> None:
        for key in [key for key in self._ended if key[0] == run]:
            del self._ended[key]

    def _move(self, life: Life, event: TaskEvent) -> None:
        life.lane = event.lane or life.lane
        life.host = event.host or life.host
        match event:
            case Enqueue():
                life.state = "queued"
                life.next_within_ms = life.step_ms = None
                _learn(life, event)
            case Admit():
                _learn(life, event)
                if not life.admitted:
                    self.rates.record_wait(life.lane, event.ts_ms - life.enqueued_ms)
                self._run(life, event.ts_ms)
                life.preempts = max(life.preempts, event.preempts)
                life.next_within_ms = None
                life.step_ms = event.ts_ms
            case Heartbeat():
                if life.state == "queued" and not life.admitted:
                    self.rates.record_wait(life.lane, event.ts_ms - life.enqueued_ms)
                self._run(life, event.ts_ms)
                _hear(life, event.output_tokens, event.next_within_ms)
            case Checkpoint():
                self._run(life, event.ts_ms)
                if life.step_ms is not None:
                    gained = event.checkpoint_tokens - life.checkpoint_tokens
                    self.rates.record_step(life.lane, gained, event.ts_ms - life.step_ms)
                life.step_ms = event.ts_ms
                life.output_tokens = output_at_checkpoint(
                    life.output_tokens, life.checkpoint_tokens, event.checkpoint_tokens
                )
                life.checkpoint_tokens = event.checkpoint_tokens
                life.input_digest = event.input_digest or life.input_digest
                _hear(life, event.output_tokens, event.next_within_ms)
            case Preempt():
                life.state = "preempted"
                life.admitted = True
                life.preempts = max(life.preempts, event.preempts)
                life.restart_tokens = max(life.restart_tokens, event.restart_tokens)
                life.output_tokens = life.checkpoint_tokens
                life.next_within_ms = life.step_ms = None
            case Reject():
                life.preempts = max(life.preempts, event.preempts or 0)
                life.restart_tokens = max(life.restart_tokens, event.restart_tokens or 0)
                life.reject_reason = event.reason
                _end(life, "rejected", event.ts_ms)
            case Drain():
                _end(life, "drained", event.ts_ms)
            case Complete():
                life.output_tokens = event.output_tokens
                life.restart_tokens = max(life.restart_tokens, event.restart_tokens)
                _end(life, "complete", event.ts_ms)

    def _run(self, life: Life, moment_ms: int) -> None:
        if life.state != "running":
            life.step_ms = moment_ms
        life.state = "running"
        life.admitted = True


def _hear(life: Life, output_tokens: int | None, next_within_ms: int | None) -> None:
    if output_tokens is not None:
        life.output_tokens = max(output_tokens, life.checkpoint_tokens)
    if next_within_ms is not None:
        life.next_within_ms = next_within_ms


def _end(life: Life, state: Literal["rejected", "drained", "complete"], moment_ms: int) -> None:
    life.state = state
    life.ended_ms = moment_ms
    life.next_within_ms = life.step_ms = None


def _copied_from_before_the_end(life: Life, event: TaskEvent, rotated: FormKey | None) -> bool:
    """A line from before the end, in another rotated form than the end, is no new life: it was copied.

    Within one file its order decides, and the live one is the newest: there a line that is older by `ts_ms` comes from
    a clock that was set back.
    """
    if rotated is None or rotated == life.ended_in:
        return False
    return life.ended_ms is not None and event.ts_ms < life.ended_ms


def _enqueue_moment(event: TaskEvent) -> int:
    if isinstance(event, Enqueue | Admit) and event.enqueued_ms is not None:
        return event.enqueued_ms
    age_ms = getattr(event, "queue_age_ms", None)
    return event.ts_ms if age_ms is None else max(0, event.ts_ms - age_ms)


def _learn(life: Life, event: Enqueue | Admit) -> None:
    if event.enqueued_ms is not None:
        life.enqueued_ms = min(life.enqueued_ms, event.enqueued_ms)
    if event.deadline_ms is not None:
        life.deadline_ms = event.deadline_ms
    elif isinstance(event, Admit) and life.deadline_ms is None:
        life.deadline_ms = max(0, event.queue_age_ms + event.deadline_slack_ms)
    if event.task_budget is not None:
        life.task_budget = event.task_budget
    if event.prompt_tokens is not None:
        life.prompt_tokens = event.prompt_tokens
    if event.target_tokens is not None:
        life.target_tokens = event.target_tokens
