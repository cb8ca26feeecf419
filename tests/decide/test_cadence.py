"""The checkpoint cadence: Young/Daly, capped by the slack."""

import math
import random

import pytest

from preempt_exporter.decide.cadence import (
    checkpoint_cadence,
    mean_time_between_preemptions_s,
    young_daly_interval_s,
)


def test_young_daly_is_the_square_root_of_twice_the_product() -> None:
    """A preemption every 2 h and a checkpoint of 4 s: 240 s of work in between."""
    assert young_daly_interval_s(7200, 4) == 240.0


def test_young_daly_minimises_the_expected_loss() -> None:
    """Under the field's rework formula with checkpoints no interval far from the optimum does better."""
    mean_s, cost_s = 10_000.0, 10.0

    def rework(interval_s: float) -> float:
        return math.expm1((interval_s + cost_s) / mean_s) * mean_s / interval_s

    best = rework(young_daly_interval_s(mean_s, cost_s))
    draws = random.Random(7)
    assert all(rework(draws.uniform(1, 20_000)) > best * 0.9999 for _ in range(1000))


@pytest.mark.parametrize(("mean_s", "cost_s"), [(0, 1), (-1, 1), (1, -1), (math.nan, 1), (1, math.nan)])
def test_impossible_inputs_are_refused(mean_s: float, cost_s: float) -> None:
    """No interval comes from a rate or cost that cannot be."""
    with pytest.raises(ValueError, match="above 0"):
        young_daly_interval_s(mean_s, cost_s)


def test_the_slack_caps_the_interval_so_that_one_loss_fits() -> None:
    """With 100 s between slack and restart cost and 4 s per checkpoint, at most 96 s of work may be at risk."""
    cadence = checkpoint_cadence(
        mean_time_between_preemptions_s=7200,
        checkpoint_cost_s=4,
        deadline_slack_ms=500_000,
        restart_cost_ms=400_000,
    )
    assert cadence is not None
    assert (cadence.interval_s, cadence.young_daly_s, cadence.capped_by_slack) == (96.0, 240.0, True)


def test_where_no_loss_fits_the_interval_is_zero() -> None:
    """A slack below the restart cost leaves nothing to risk."""
    cadence = checkpoint_cadence(
        mean_time_between_preemptions_s=None, checkpoint_cost_s=0, deadline_slack_ms=1, restart_cost_ms=2
    )
    assert cadence is not None
    assert (cadence.interval_s, cadence.capped_by_slack) == (0.0, True)


def test_without_deadline_the_optimum_stands_and_without_anything_there_is_no_advice() -> None:
    """Unknown is not zero."""
    plain = checkpoint_cadence(
        mean_time_between_preemptions_s=7200, checkpoint_cost_s=4, deadline_slack_ms=None, restart_cost_ms=1
    )
    assert plain is not None
    assert (plain.interval_s, plain.capped_by_slack) == (240.0, False)
    nothing = checkpoint_cadence(
        mean_time_between_preemptions_s=None, checkpoint_cost_s=4, deadline_slack_ms=1, restart_cost_ms=None
    )
    assert nothing is None


def test_mean_time_between_preemptions_is_running_time_per_preemption() -> None:
    """No preemption, no rate."""
    assert mean_time_between_preemptions_s(1000.0, 4) == 250.0
    assert mean_time_between_preemptions_s(1000.0, 0) is None
