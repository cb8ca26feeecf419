"""The admission policy: order, exact boundaries, unknown limits."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preempt_exporter.decide.admission import (
    ADMIT,
    TaskEvidence,
    Verdict,
    admission_verdict,
    exceeds_fraction,
    fits_one_more_preemption,
    restart_cannot_finish,
)
from preempt_exporter.settings import Thresholds

DEFAULTS = Thresholds()
STRICT = Thresholds(restart_must_fit=True)

WORST = {
    "mode": "reject_preempt_budget",
    "lane_draining": True,
    "queue_age_ms": 2000,
    "deadline_ms": 1000,
    "preempts": 9,
    "restart_tokens": 999,
    "task_budget": 1000,
    "restart_cost_ms": 999_999,
}
"""Evidence against which every check holds; the order test heals one after the other."""


def test_the_first_check_that_holds_decides_in_the_fixed_order() -> None:
    """Forced mode, drain, slack, queue age, preemptions, restart tokens, restart cost, admit: in that order."""
    heal: list[tuple[dict[str, object], str]] = [
        ({}, "reject_preempt_budget"),
        ({"mode": "normal"}, "reject_drain_mode"),
        ({"lane_draining": False}, "reject_slack_zero"),
        ({"queue_age_ms": 900}, "reject_queue_age"),
        ({"queue_age_ms": 500}, "reject_preempt_budget"),
        ({"preempts": 0}, "reject_restart_tokens"),
        ({"restart_tokens": 0}, "reject_restart_cannot_finish"),
        ({"restart_cost_ms": 1}, "admit"),
    ]
    evidence: dict[str, object] = dict(WORST)
    for change, expected in heal:
        evidence |= change
        assert admission_verdict(TaskEvidence(**evidence), STRICT).verdict == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        (TaskEvidence(queue_age_ms=999, deadline_ms=1000), "reject_queue_age"),
        (TaskEvidence(queue_age_ms=1000, deadline_ms=1000), "reject_slack_zero"),
        (TaskEvidence(queue_age_ms=500, deadline_ms=1000), "admit"),
        (TaskEvidence(queue_age_ms=501, deadline_ms=1000), "reject_queue_age"),
        (TaskEvidence(queue_age_ms=0, deadline_ms=0), "reject_slack_zero"),
        (TaskEvidence(queue_age_ms=0, preempts=1), "admit"),
        (TaskEvidence(queue_age_ms=0, preempts=2), "reject_preempt_budget"),
        (TaskEvidence(queue_age_ms=0, restart_tokens=200, task_budget=1000), "admit"),
        (TaskEvidence(queue_age_ms=0, restart_tokens=201, task_budget=1000), "reject_restart_tokens"),
        (TaskEvidence(queue_age_ms=0, restart_tokens=840, task_budget=1000, preempts=1), "reject_restart_tokens"),
        (TaskEvidence(queue_age_ms=400, deadline_ms=1000, restart_cost_ms=600), "admit"),
        (TaskEvidence(queue_age_ms=400, deadline_ms=1000, restart_cost_ms=601), "reject_restart_cannot_finish"),
    ],
)
def test_each_boundary_is_exact_on_both_sides(evidence: TaskEvidence, expected: str) -> None:
    """At the threshold itself slack and preemptions reject, the fractions and the restart cost do not."""
    assert admission_verdict(evidence, STRICT).verdict == expected


def test_a_restart_that_cannot_finish_is_admitted_unless_configured() -> None:
    """The restart-cost check is the operator's choice and off by default; the predicate itself is not."""
    doomed = TaskEvidence(queue_age_ms=400, deadline_ms=1000, restart_cost_ms=601)
    assert restart_cannot_finish(doomed)
    assert admission_verdict(doomed, DEFAULTS) is ADMIT


def test_unknown_limits_skip_their_checks() -> None:
    """Without deadline, budget and restart cost only mode, drain and preemptions can reject."""
    unlimited = TaskEvidence(queue_age_ms=10**12, restart_tokens=10**12, preempts=1)
    assert admission_verdict(unlimited, STRICT) is ADMIT


def test_every_rejection_carries_the_ledgers_word() -> None:
    """The reason of a verdict is the verdict without `reject_`, and `admit` has none."""
    verdicts = [
        admission_verdict(evidence, STRICT)
        for evidence in (
            TaskEvidence(queue_age_ms=0, mode="reject_preempt_budget"),
            TaskEvidence(queue_age_ms=0, lane_draining=True),
            TaskEvidence(queue_age_ms=1, deadline_ms=1),
            TaskEvidence(queue_age_ms=2, deadline_ms=3),
            TaskEvidence(queue_age_ms=0, preempts=2),
            TaskEvidence(queue_age_ms=0, restart_tokens=1, task_budget=1),
            TaskEvidence(queue_age_ms=1, deadline_ms=9, restart_cost_ms=9),
        )
    ]
    assert [v.verdict.removeprefix("reject_") for v in verdicts] == [v.reason for v in verdicts]
    assert Verdict("admit", None).admitted
    assert not any(v.admitted for v in verdicts)


def test_with_the_default_limit_a_third_start_never_begins() -> None:
    """A life that is preempted at every start is admitted exactly `max_preempts` times, whatever the limit."""
    for limit in range(5):
        starts = 0
        while admission_verdict(TaskEvidence(queue_age_ms=0, preempts=starts), Thresholds(max_preempts=limit)).admitted:
            starts += 1
        assert starts == limit


@given(
    value=st.integers(0, 10**12),
    whole=st.integers(0, 10**12),
    fraction=st.decimals(0, 5, places=3, allow_nan=False),
)
def test_a_fraction_means_its_decimal_text(value: int, whole: int, fraction: Decimal) -> None:
    """Comparing against a float setting agrees with decimal arithmetic on the text an operator wrote."""
    assert exceeds_fraction(value, float(fraction), whole) == (Decimal(value) > fraction * Decimal(whole))


def test_fractions_that_binary_numbers_miss_are_exact() -> None:
    """0.29 x 100 is 29, which 29 does not exceed, though floating point makes it 28.999999999999996."""
    assert 29 > 0.29 * 100
    assert not exceeds_fraction(29, 0.29, 100)
    assert exceeds_fraction(30, 0.29, 100)


def test_one_more_preemption_fits_only_if_the_policy_would_admit_again() -> None:
    """Slack, preemptions and restart tokens are judged as they would be after the loss."""
    task = TaskEvidence(queue_age_ms=100, deadline_ms=1000, task_budget=1000, restart_cost_ms=900)
    assert fits_one_more_preemption(task, DEFAULTS, lost_tokens=200) is True
    assert fits_one_more_preemption(task, DEFAULTS, lost_tokens=201) is False
    late = TaskEvidence(queue_age_ms=101, deadline_ms=1000, task_budget=1000, restart_cost_ms=900)
    assert fits_one_more_preemption(late, DEFAULTS, lost_tokens=200) is False
    twice = TaskEvidence(queue_age_ms=0, deadline_ms=1000, preempts=1, restart_cost_ms=900)
    assert fits_one_more_preemption(twice, DEFAULTS, lost_tokens=0) is False


def test_one_more_preemption_is_unknown_while_anything_it_needs_is() -> None:
    """No deadline, no restart cost, or no prompt size: None, not False."""
    known = TaskEvidence(queue_age_ms=0, deadline_ms=1000, restart_cost_ms=1)
    assert fits_one_more_preemption(TaskEvidence(queue_age_ms=0, restart_cost_ms=1), DEFAULTS, lost_tokens=1) is None
    assert fits_one_more_preemption(TaskEvidence(queue_age_ms=0, deadline_ms=9), DEFAULTS, lost_tokens=1) is None
    assert fits_one_more_preemption(known, DEFAULTS, lost_tokens=None) is None
    assert fits_one_more_preemption(known, DEFAULTS, lost_tokens=1) is True
