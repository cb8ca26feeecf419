"""Which action of the rules pack a task calls for, as `status` shows it."""

from typing import Literal

from preempt_exporter.decide.admission import (
    TaskEvidence,
    preempts_are_used_up,
    queue_age_is_over,
    restart_cannot_finish,
    restart_tokens_are_over,
    slack_is_gone,
)
from preempt_exporter.settings import Thresholds

NextAction = Literal["none", "reject_enqueue", "drain_and_reject", "reclaim_lease"]
OverThreshold = Literal["queue_age_frac", "restart_frac", "max_preempts", "slack_zero", "restart_cannot_finish"]

OVER_THRESHOLDS: tuple[OverThreshold, ...] = (
    "queue_age_frac",
    "restart_frac",
    "max_preempts",
    "slack_zero",
    "restart_cannot_finish",
)


def next_action_of_live_task(task: TaskEvidence, thresholds: Thresholds, *, silent: bool) -> NextAction:
    """The gravest action that holds: stop replaying, declare lost, admit no more, or `none`.

    `silent`: the task's worker said nothing for longer than it promised.
    """
    if restart_tokens_are_over(task, thresholds) or restart_cannot_finish(task):
        return "drain_and_reject"
    if preempts_are_used_up(task, thresholds):
        return "drain_and_reject"
    if silent:
        return "reclaim_lease"
    if slack_is_gone(task) or queue_age_is_over(task, thresholds):
        return "reject_enqueue"
    return "none"


def next_action_of_ended_task(task: TaskEvidence, thresholds: Thresholds, *, completed: bool) -> NextAction:
    """`drain_and_reject` (stop feeding the lane) if a task that did not complete ended past its restart budget."""
    return "drain_and_reject" if not completed and restart_tokens_are_over(task, thresholds) else "none"


def thresholds_exceeded(task: TaskEvidence, thresholds: Thresholds) -> tuple[OverThreshold, ...]:
    """Every threshold that a live task is past, in the order of `OVER_THRESHOLDS`."""
    past = (
        queue_age_is_over(task, thresholds),
        restart_tokens_are_over(task, thresholds),
        preempts_are_used_up(task, thresholds),
        slack_is_gone(task),
        restart_cannot_finish(task),
    )
    return tuple(name for name, is_past in zip(OVER_THRESHOLDS, past, strict=True) if is_past)
