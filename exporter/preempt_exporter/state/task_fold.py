"""Admission events: how each one moves a life (ledger.md 1)."""

from collections.abc import Callable

from preempt_exporter.decide.restart_cost import output_at_checkpoint
from preempt_exporter.ledger.records import (
    EVENT_NAMES,
    EVENT_TYPES,
    REJECT_REASONS,
    Admit,
    Checkpoint,
    Complete,
    Drain,
    Enqueue,
    Heartbeat,
    Preempt,
    Reject,
    TaskEvent,
)
from preempt_exporter.settings import TaskDefaults
from preempt_exporter.state.figures import Figures
from preempt_exporter.state.lane import OTHER, Lane, remember_loss
from preempt_exporter.state.life import COMPLETE, DRAINED, PREEMPTED, QUEUED, REJECTED, RUNNING, Life
from preempt_exporter.state.run import Run
from preempt_exporter.state.totals import total

MAX_REASON_CHARACTERS = 256


class TaskFold:
    """Applies admission events to the lives in `figures`."""

    def __init__(self, figures: Figures, defaults: TaskDefaults) -> None:
        """`defaults` fill limits that no line of a life gives."""
        self._figures = figures
        self._defaults = defaults
        self.appliers: dict[type, tuple[str, Callable[..., None]]] = {
            Heartbeat: ("heartbeat", self._heartbeat),
            Checkpoint: ("checkpoint", self._checkpoint),
            Enqueue: ("enqueue", self._enqueue),
            Admit: ("admit", self._admit),
            Preempt: ("preempt", self._preempt),
            Reject: ("reject", self._reject),
            Drain: ("drain", self._drain),
            Complete: ("complete", self._complete),
        }
        """By type of event: its name, and what it does to a live life (life, event, moment, lane, run)."""

    def begin(self, event: TaskEvent, moment_ms: int, ledger: int, run: Run, lane_name: str) -> Life:
        """A life that `event` is the first line of; `event` itself is still to be applied."""
        lane = self._figures.lanes.get(event.lane or lane_name)
        life = Life(
            task_id=event.task_id,
            run=run.name,
            lane=event.lane or lane_name if lane is None else lane.name,  # one string for all lives of a lane
            state=QUEUED if type(event) is Enqueue else RUNNING,
            ledger=ledger,
            last_ms=moment_ms,
            enqueued_ms=moment_ms,
            deadline_ms=self._defaults.deadline_ms,
            task_budget=self._defaults.task_budget,
        )
        if life.task_id not in run.lives:
            self._figures.lives_kept += 1
        run.lives[life.task_id] = life
        return life

    def continues_rejected(self, life: Life, event: TaskEvent, moment_ms: int) -> bool:
        """Whether an `enqueue` or `admit` after a rejection tells of the same enqueue: admitted after all."""
        return (
            life.state == REJECTED and life.ended_ms is not None and _enqueue_moment(event, moment_ms) <= life.ended_ms
        )

    def revive(self, life: Life, run: Run) -> None:
        """Undo a rejection: the life goes on, as queued until a line says otherwise."""
        run.ended[life.state] -= 1
        life.state = QUEUED
        life.ended_ms = None

    def fill_late(self, life: Life, event: TaskEvent, moment_ms: int) -> None:
        """An older line of another ledger: the two maxima, and what is missing; older than the enqueue, nothing."""
        if moment_ms < life.enqueued_ms:
            return
        _raise_totals(life, event)
        if isinstance(event, Enqueue | Admit):
            _learn_given(life, event, overwrite=False)
        if isinstance(event, Admit | Reject):
            _derive(life, event, moment_ms)
        if isinstance(event, Reject):
            _learn_budget(life, event, overwrite=False)

    def count(self, event: TaskEvent, moment_ms: int, lane: Lane) -> None:
        """What an event counts whatever it does to a life."""
        if type(event) is Preempt:
            lane.restart_tokens = total(lane.restart_tokens, event.wasted_tokens)
            if event.host:
                remember_loss(lane.host_losses(event.host).events_ms, moment_ms)
        elif type(event) is Reject:
            lane.rejects[event.reason if event.reason in REJECT_REASONS else OTHER] += 1
        elif type(event) is Complete:
            lane.output_tokens = total(lane.output_tokens, event.output_tokens)

    def _heartbeat(self, life: Life, event: Heartbeat, moment_ms: int, lane: Lane, run: Run) -> None:
        life.state = RUNNING
        if event.output_tokens is not None:
            life.output_tokens = event.output_tokens
        if event.next_within_ms is not None:
            life.next_within_ms = event.next_within_ms

    def _checkpoint(self, life: Life, event: Checkpoint, moment_ms: int, lane: Lane, run: Run) -> None:
        life.state = RUNNING
        tokens = event.checkpoint_tokens
        if life.step_ms is not None:
            gained, elapsed_ms = tokens - life.checkpoint_tokens, moment_ms - life.step_ms
            if gained > 0 and elapsed_ms > 0:
                lane.record_step(gained, elapsed_ms)
        life.step_ms = moment_ms
        if event.output_tokens is not None:
            life.output_tokens = event.output_tokens
        else:
            life.output_tokens = output_at_checkpoint(life.output_tokens, life.checkpoint_tokens, tokens)
        life.checkpoint_tokens = tokens
        if event.next_within_ms is not None:
            life.next_within_ms = event.next_within_ms

    def _enqueue(self, life: Life, event: Enqueue, moment_ms: int, lane: Lane, run: Run) -> None:
        # No arrow leads back to queued: a life that is running or preempted only learns from a second enqueue.
        life.refused = False
        _learn_given(life, event)

    def _admit(self, life: Life, event: Admit, moment_ms: int, lane: Lane, run: Run) -> None:
        life.state = RUNNING
        life.refused = False
        life.next_within_ms = None
        life.step_ms = moment_ms
        if event.preempts > life.preempts:
            life.preempts = event.preempts
        _learn_given(life, event)
        _derive(life, event, moment_ms)
        if not life.admitted:
            life.admitted = True
            lane.record_wait(max(0, moment_ms - life.enqueued_ms))

    def _preempt(self, life: Life, event: Preempt, moment_ms: int, lane: Lane, run: Run) -> None:
        self.count(event, moment_ms, lane)
        life.state = PREEMPTED
        life.next_within_ms = life.step_ms = None
        life.output_tokens = life.checkpoint_tokens
        _raise_totals(life, event)

    def _reject(self, life: Life, event: Reject, moment_ms: int, lane: Lane, run: Run) -> None:
        self.count(event, moment_ms, lane)
        _raise_totals(life, event)
        _derive(life, event, moment_ms)
        _learn_budget(life, event)
        life.reject_reason = event.reason[:MAX_REASON_CHARACTERS]
        life.refused = True
        self._end(life, REJECTED, moment_ms, lane, run)

    def _drain(self, life: Life, event: Drain, moment_ms: int, lane: Lane, run: Run) -> None:
        life.refused = True
        self._end(life, DRAINED, moment_ms, lane, run)

    def _complete(self, life: Life, event: Complete, moment_ms: int, lane: Lane, run: Run) -> None:
        self.count(event, moment_ms, lane)
        if event.restart_tokens > life.restart_tokens:
            life.restart_tokens = event.restart_tokens
        life.output_tokens = event.output_tokens
        life.refused = False
        self._end(life, COMPLETE, moment_ms, lane, run)
        run.record_completion(moment_ms)

    def _end(self, life: Life, state: str, moment_ms: int, lane: Lane, run: Run) -> None:
        if life.ended_ms is not None:
            run.ended[life.state] -= 1
        run.ended[state] += 1
        life.state = state
        life.ended_ms = moment_ms
        life.next_within_ms = life.step_ms = None
        self._figures.ends.append((run.name, life.task_id, moment_ms))
        if not life.missed and life.deadline_ms is not None and moment_ms - life.enqueued_ms > life.deadline_ms:
            life.missed = True
            lane.deadlines_missed += 1


def _learn_given(life: Life, event: Enqueue | Admit, *, overwrite: bool = True) -> None:
    """Take from the line the enqueue, limits and sizes that it gives; without `overwrite`, only what is missing."""
    if event.enqueued_ms is not None and (overwrite or not life.enqueued_given):
        earlier = min(event.enqueued_ms, life.enqueued_ms) if life.enqueued_given else event.enqueued_ms
        life.enqueued_ms, life.enqueued_given = earlier, True
    if event.deadline_ms is not None and (overwrite or not life.deadline_given):
        life.deadline_ms, life.deadline_given = event.deadline_ms, True
    if event.prompt_tokens is not None and (overwrite or life.prompt_tokens is None):
        life.prompt_tokens = event.prompt_tokens
    if event.target_tokens is not None and (overwrite or life.target_tokens is None):
        life.target_tokens = event.target_tokens
    _learn_budget(life, event, overwrite=overwrite)


def _derive(life: Life, event: Admit | Reject, moment_ms: int) -> None:
    """Take enqueue and deadline from the age and slack that the line gives, where no line has given them."""
    age_ms, slack_ms = event.queue_age_ms, event.deadline_slack_ms
    if age_ms is None:
        return
    if not (life.enqueued_given or life.enqueued_derived):
        life.enqueued_ms, life.enqueued_derived = moment_ms - age_ms, True
    if slack_ms is not None and not (life.deadline_given or life.deadline_derived):
        life.deadline_ms, life.deadline_derived = max(0, age_ms + slack_ms), True


def _learn_budget(life: Life, event: Enqueue | Admit | Reject, *, overwrite: bool = True) -> None:
    if event.task_budget is not None and (overwrite or not life.budget_given):
        life.task_budget, life.budget_given = event.task_budget, True


def _enqueue_moment(event: TaskEvent, moment_ms: int) -> int:
    if isinstance(event, Enqueue | Admit) and event.enqueued_ms is not None:
        return event.enqueued_ms
    return moment_ms - event.queue_age_ms if isinstance(event, Admit) else moment_ms


def _raise_totals(life: Life, event: TaskEvent) -> None:
    """The life's totals take the maximum of what its lines say."""
    preempts = getattr(event, "preempts", None)
    if preempts is not None and preempts > life.preempts:
        life.preempts = preempts
    restart_tokens = getattr(event, "restart_tokens", None)
    if restart_tokens is not None and restart_tokens > life.restart_tokens:
        life.restart_tokens = restart_tokens


EVENT_NAME_OF_TYPE: dict[type, str] = dict(zip(EVENT_TYPES, EVENT_NAMES, strict=True))
"""The word in an event line's `event` field, by the type it decodes to."""
