"""How often to checkpoint: the Young/Daly interval, capped so that one loss still fits the slack.

Source of the formula: "Robustness of the Young/Daly formula for stochastic iterative applications" (hal-02514107),
which shows that it also holds where checkpoints are possible only at the end of iterations of random length. It is a
first-order result: good while a checkpoint costs much less than the mean time between preemptions.
"""

from math import sqrt

from msgspec import Struct


class CheckpointCadence(Struct, frozen=True, gc=False):
    """How long to work between two checkpoints."""

    interval_s: float
    """Seconds of work between checkpoints; 0 where no interval lets one loss fit the slack."""
    young_daly_s: float | None
    """The uncapped optimum; None while no preemption was seen."""
    capped_by_slack: bool
    """Whether the slack, not the optimum, set the interval."""


def young_daly_interval_s(mean_time_between_preemptions_s: float, checkpoint_cost_s: float) -> float:
    """Work between checkpoints that wastes least: sqrt(2 x mean time between preemptions x checkpoint cost), seconds.

    Raises `ValueError` unless the mean time is above 0 and the cost 0 or above.
    """
    if not mean_time_between_preemptions_s > 0 or not checkpoint_cost_s >= 0:
        raise ValueError("mean time between preemptions must be above 0 and the checkpoint cost 0 or above, in seconds")
    return sqrt(2 * mean_time_between_preemptions_s * checkpoint_cost_s)


def mean_time_between_preemptions_s(run_s: float, preemptions: int) -> float | None:
    """Seconds of running per preemption, from all attempts of a lane; None while none was preempted."""
    return run_s / preemptions if preemptions > 0 and run_s > 0 else None


def checkpoint_cadence(
    *,
    mean_time_between_preemptions_s: float | None,
    checkpoint_cost_s: float,
    deadline_slack_ms: int | None,
    restart_cost_ms: int | None,
) -> CheckpointCadence | None:
    """The Young/Daly interval, or less where the slack asks for it; None while neither is known.

    Work since the last checkpoint is lost with the slot. After `t` more seconds without a checkpoint the slack has
    shrunk by `t` while the restart cost (time to finish from the last checkpoint, new wait included) has not, so one
    loss still fits while t <= slack - restart cost; writing the checkpoint itself takes `checkpoint_cost_s` of that.
    """
    optimum = None
    if mean_time_between_preemptions_s is not None:
        optimum = young_daly_interval_s(mean_time_between_preemptions_s, checkpoint_cost_s)
    cap = None
    if deadline_slack_ms is not None and restart_cost_ms is not None:
        cap = max((deadline_slack_ms - restart_cost_ms) / 1000 - checkpoint_cost_s, 0.0)
    if cap is not None and (optimum is None or cap < optimum):
        return CheckpointCadence(cap, optimum, True)
    if optimum is not None:
        return CheckpointCadence(optimum, optimum, False)
    return None
