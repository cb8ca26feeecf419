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

OVER_THRESHOLDS = ("queue_age_frac", "restart_frac", "max_preempts", "slack_zero", "restart_cannot_finish")
"""What a live task may be past, as the scrape names it."""


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
