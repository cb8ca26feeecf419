"""One look over all lives at one moment: what ages, per lane and per run, and which lives may be shown."""

from msgspec import Struct, field

from preempt_exporter.decide.admission import exact_ratio
from preempt_exporter.decide.next_action import OVER_THRESHOLDS
from preempt_exporter.decide.restart_cost import RestartCost, restart_cost_in_lane
from preempt_exporter.settings import TaskSettings, Thresholds
from preempt_exporter.state.figures import Figures
from preempt_exporter.state.lane import OTHER
from preempt_exporter.state.life import ABANDONED, COMPLETE, LIVE_STATES, RUNNING, Life, surely_live_for_ms
from preempt_exporter.state.rates import LaneMeasurements, LaneRates

RUN_STATES = (*LIVE_STATES, "rejected", "drained", "complete", ABANDONED)

NO_RATES = LaneRates(None, None, None)


class LaneSurvey(Struct):
    """The live lives of one lane in sum."""

    states: dict[str, int] = field(default_factory=lambda: dict.fromkeys(LIVE_STATES, 0))
    over: dict[str, int] = field(default_factory=lambda: {str(name): 0 for name in OVER_THRESHOLDS})
    age_ratio_max: float | None = None
    restart_ratio_max: float | None = None
    slack_ms_min: int | None = None
    silent: int = 0
    without_deadline: int = 0
    without_budget: int = 0


class LiveTask(Struct, gc=False):
    """A live life with what ages about it."""

    life: Life
    age_ms: int
    slack_ms: int | None
    restart_cost_ms: int | None
    past: bool
    """Past any of `OVER_THRESHOLDS`."""


class Survey(Struct):
    """What was seen at `now_ms`."""

    now_ms: int
    lanes: dict[str, LaneSurvey]
    runs: dict[str | None, dict[str, int]]
    """By run, lives by state: live ones and abandoned ones as kept, ended ones as counted."""
    live: list[LiveTask]
    lingering: list[Life]
    """Rejected, drained and abandoned lives whose totals are still shown."""


def survey(
    figures: Figures, tasks: TaskSettings, thresholds: Thresholds, measurements: LaneMeasurements, now_ms: int
) -> Survey:
    """Look at every life once. Linear in the number of lives kept; comparisons with fractions are exact."""
    age_over, age_under = exact_ratio(thresholds.queue_age_frac)
    restart_over, restart_under = exact_ratio(thresholds.restart_frac)
    max_preempts = thresholds.max_preempts
    linger_ms, abandon_after_ms, silent_after_ms = tasks.linger_ms, tasks.abandon_after_ms, tasks.silent_after_ms
    surely_live_since_ms = now_ms - surely_live_for_ms(abandon_after_ms)
    costs = {name: restart_cost_of(rates) for name, rates in measurements.all_rates(figures, now_ms).items()}
    lanes = {name: LaneSurvey() for name in figures.lanes}
    runs: dict[str | None, dict[str, int]] = {}
    live: list[LiveTask] = []
    lingering: list[Life] = []
    for run in figures.runs.values():
        states = runs[run.name] = dict.fromkeys(RUN_STATES, 0) | run.ended
        for life in run.lives.values():
            if life.ended_ms is not None:
                if life.state != COMPLETE and now_ms <= life.ended_ms + linger_ms:
                    lingering.append(life)
                continue
            if life.last_ms < surely_live_since_ms:
                abandoned_at_ms = life.abandoned_at_ms(abandon_after_ms)
                if now_ms > abandoned_at_ms:
                    states[ABANDONED] += 1
                    if now_ms <= abandoned_at_ms + linger_ms:
                        lingering.append(life)
                    continue
            state = life.state
            states[state] += 1
            label = life.lane if life.lane in lanes else OTHER
            lane = lanes[label]
            lane.states[state] += 1
            age_ms = now_ms - life.enqueued_ms
            if age_ms < 0:
                age_ms = 0
            past = False
            slack_ms = cost_ms = None
            deadline_ms = life.deadline_ms
            if deadline_ms is None:
                lane.without_deadline += 1
            else:
                slack_ms = deadline_ms - age_ms
                ratio = age_ms / deadline_ms if deadline_ms else _ratio_of_nothing(age_ms)
                if lane.age_ratio_max is None or ratio > lane.age_ratio_max:
                    lane.age_ratio_max = ratio
                if lane.slack_ms_min is None or slack_ms < lane.slack_ms_min:
                    lane.slack_ms_min = slack_ms
                if age_ms * age_under > age_over * deadline_ms:
                    lane.over["queue_age_frac"] += 1
                    past = True
                if slack_ms <= 0:
                    lane.over["slack_zero"] += 1
                    past = True
            budget = life.task_budget
            if budget is None:
                lane.without_budget += 1
            else:
                restart_tokens = life.restart_tokens
                ratio = restart_tokens / budget if budget else _ratio_of_nothing(restart_tokens)
                if lane.restart_ratio_max is None or ratio > lane.restart_ratio_max:
                    lane.restart_ratio_max = ratio
                if restart_tokens and restart_tokens * restart_under > restart_over * budget:
                    lane.over["restart_frac"] += 1
                    past = True
            if life.preempts >= max_preempts:
                lane.over["max_preempts"] += 1
                past = True
            if life.prompt_tokens is not None:
                cost_ms = costs[label](life.prompt_tokens, life.target_tokens, life.checkpoint_tokens)
                if cost_ms is not None and slack_ms is not None and cost_ms > slack_ms:
                    lane.over["restart_cannot_finish"] += 1
                    past = True
            if state == RUNNING:
                patience_ms = silent_after_ms if life.next_within_ms is None else life.next_within_ms
                if patience_ms is not None and now_ms - life.last_ms > patience_ms:
                    lane.silent += 1
            live.append(LiveTask(life, age_ms, slack_ms, cost_ms, past))
    return Survey(now_ms, lanes, runs, live, lingering)


def restart_cost_of(rates: LaneRates) -> RestartCost:
    """What a restart costs the tasks of a lane with these rates, in milliseconds; None while unknown."""
    return restart_cost_in_lane(rates.wait_p95_s, rates.decode_tokens_per_s, rates.prefill_tokens_per_s)


def _ratio_of_nothing(part: int) -> float:
    """`part` / 0: 0 for no part and infinite for any."""
    return float("inf") if part else 0.0
