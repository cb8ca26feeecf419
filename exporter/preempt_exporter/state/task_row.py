"""A task as `status --json` and the page's API show it."""

from msgspec import Struct

from preempt_exporter.decide.admission import AdmissionMode, TaskEvidence, fits_one_more_preemption
from preempt_exporter.decide.lane_action import forbids_start
from preempt_exporter.decide.next_action import next_action_of_ended_task, next_action_of_live_task
from preempt_exporter.decide.restart_cost import lost_tokens
from preempt_exporter.settings import TaskSettings, Thresholds
from preempt_exporter.state.figures import Figures
from preempt_exporter.state.life import ABANDONED, COMPLETE, Life
from preempt_exporter.state.rates import LaneMeasurements, LaneRates
from preempt_exporter.state.survey import NO_RATES, restart_cost_of


class TaskRow(Struct, kw_only=True):
    """One task's newest life at one moment; field names are the contract's."""

    task_id: str
    run: str | None
    lane: str
    action: str
    """`reject` if the life's last decision is `reject` or `drain`, else `hold`."""
    next_action: str
    """An action of the rules pack, or `none`."""
    reason: str | None
    """Of the last reject."""
    state: str
    queue_age_ms: int | None
    """None once ended: it no longer waits."""
    deadline_slack_ms: int | None
    restart_cost_ms: int | None
    fits_one_more_preemption: bool | None
    restart_tokens: int
    preempts: int
    checkpoint_tokens: int
    task_budget: int | None
    deadline_ms: int | None


def task_rows(
    figures: Figures, tasks: TaskSettings, thresholds: Thresholds, measurements: LaneMeasurements, now_ms: int
) -> list[TaskRow]:
    """A row for every life kept, least slack first; those without slack (ended, no deadline) last, by run and id."""
    rates = measurements.all_rates(figures, now_ms)
    rows = [
        _row(life, figures, tasks, thresholds, rates.get(life.lane, NO_RATES), now_ms)
        for run in figures.runs.values()
        for life in run.lives.values()
    ]
    rows.sort(key=_urgency)
    return rows


def evidence_of(life: Life, figures: Figures, rates: LaneRates, now_ms: int) -> TaskEvidence:
    """What the admission policy would be told of a life at `now_ms`."""
    lane = figures.lanes.get(life.lane)
    mode: AdmissionMode = "reject_preempt_budget" if figures.mode == "reject_preempt_budget" else "normal"
    return TaskEvidence(
        queue_age_ms=life.age_ms(now_ms),
        deadline_ms=life.deadline_ms,
        restart_tokens=life.restart_tokens,
        preempts=life.preempts,
        task_budget=life.task_budget,
        restart_cost_ms=restart_cost_of(rates)(life.prompt_tokens, life.target_tokens, life.checkpoint_tokens),
        lane_draining=lane is not None and forbids_start(lane.action, admitted_before=life.admitted),
        mode=mode,
    )


def _row(
    life: Life, figures: Figures, tasks: TaskSettings, thresholds: Thresholds, rates: LaneRates, now_ms: int
) -> TaskRow:
    evidence = evidence_of(life, figures, rates, now_ms)
    abandoned = life.ended_ms is None and not life.is_live(now_ms, tasks.abandon_after_ms)
    ended = life.ended_ms is not None or abandoned
    lost = lost_tokens(life.prompt_tokens, life.output_tokens, life.checkpoint_tokens)
    if ended:
        next_action = next_action_of_ended_task(evidence, thresholds, completed=life.state == COMPLETE)
    else:
        silent = life.silent(now_ms, tasks.silent_after_ms)
        next_action = next_action_of_live_task(evidence, thresholds, silent=silent)
    return TaskRow(
        task_id=life.task_id,
        run=life.run,
        lane=life.lane,
        action="reject" if life.refused else "hold",
        next_action=next_action,
        reason=life.reject_reason,
        state=ABANDONED if abandoned else life.state,
        queue_age_ms=None if ended else evidence.queue_age_ms,
        deadline_slack_ms=None if ended else evidence.deadline_slack_ms,
        restart_cost_ms=None if ended else evidence.restart_cost_ms,
        fits_one_more_preemption=None if ended else fits_one_more_preemption(evidence, thresholds, lost_tokens=lost),
        restart_tokens=life.restart_tokens,
        preempts=life.preempts,
        checkpoint_tokens=life.checkpoint_tokens,
        task_budget=life.task_budget,
        deadline_ms=life.deadline_ms,
    )


def _urgency(row: TaskRow) -> tuple[bool, int, str, str]:
    slack_ms = row.deadline_slack_ms
    return (slack_ms is None, slack_ms or 0, row.run or "", row.task_id)
