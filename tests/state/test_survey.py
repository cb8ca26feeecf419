"""The survey inlines the policy's comparisons, for speed: here they are held against the policy itself."""

from hypothesis import example, given
from hypothesis import strategies as st

from preempt_exporter.decide import admission
from preempt_exporter.decide.next_action import OVER_THRESHOLDS
from preempt_exporter.settings import LaneSettings, TaskSettings, Thresholds
from preempt_exporter.state.figures import Figures
from preempt_exporter.state.life import RUNNING, Life
from preempt_exporter.state.rates import LaneMeasurements
from preempt_exporter.state.survey import survey
from preempt_exporter.state.task_row import evidence_of

NOW_MS = 1_800_000_000_000
WAIT_MS = 7
SMALL = st.integers(0, 40)
UNKNOWN_OR_SMALL = st.none() | SMALL


@given(
    age_ms=SMALL,
    deadline_ms=UNKNOWN_OR_SMALL,
    restart_tokens=SMALL,
    task_budget=UNKNOWN_OR_SMALL,
    preempts=st.integers(0, 4),
    prompt_tokens=UNKNOWN_OR_SMALL,
    target_tokens=UNKNOWN_OR_SMALL,
    thresholds=st.builds(
        Thresholds,
        queue_age_frac=st.sampled_from((0.0, 0.1, 0.5, 1.5)),
        restart_frac=st.sampled_from((0.0, 0.2, 0.3)),
        max_preempts=st.integers(0, 3),
    ),
)
@example(20, 40, 8, 40, 1, 3, 10, Thresholds())
@example(21, 40, 9, 40, 2, 3, 10, Thresholds())
@example(20, 40, 0, None, 0, 3, 11, Thresholds())
def test_a_task_is_past_what_the_policy_says_it_is_past(
    age_ms: int,
    deadline_ms: int | None,
    restart_tokens: int,
    task_budget: int | None,
    preempts: int,
    prompt_tokens: int | None,
    target_tokens: int | None,
    thresholds: Thresholds,
) -> None:
    """On both sides of every boundary, with any part unknown, in a lane that is measured."""
    figures = Figures(ledgers=[])
    lane = figures.lane("free")
    lane.record_wait(WAIT_MS)
    lane.record_step(1, 1)
    life = figures.run(None, NOW_MS).lives["t"] = Life(
        ledger=0,
        last_ms=NOW_MS,
        lane="free",
        state=RUNNING,
        task_id="t",
        run=None,
        enqueued_ms=NOW_MS - age_ms,
        deadline_ms=deadline_ms,
        task_budget=task_budget,
        prompt_tokens=prompt_tokens,
        target_tokens=target_tokens,
        restart_tokens=restart_tokens,
        preempts=preempts,
    )
    measurements = LaneMeasurements(LaneSettings(), thresholds)
    seen = survey(figures, TaskSettings(), thresholds, measurements, NOW_MS)
    evidence = evidence_of(life, figures, measurements.rates(lane, NOW_MS), NOW_MS)
    past = {
        "queue_age_frac": admission.queue_age_is_over(evidence, thresholds),
        "restart_frac": admission.restart_tokens_are_over(evidence, thresholds),
        "max_preempts": admission.preempts_are_used_up(evidence, thresholds),
        "slack_zero": admission.slack_is_gone(evidence),
        "restart_cannot_finish": admission.restart_cannot_finish(evidence),
    }
    assert tuple(past) == OVER_THRESHOLDS
    assert seen.lanes["free"].over == past
    assert [task.past for task in seen.live] == [any(past.values())]
    assert (evidence.restart_cost_ms is None) is (prompt_tokens is None or target_tokens is None)
