"""The action that `status` proposes for a task, and what a lane's action forbids."""

import pytest

from preempt_exporter.decide.admission import TaskEvidence
from preempt_exporter.decide.lane_action import forbids_routing, forbids_start
from preempt_exporter.decide.next_action import next_action_of_ended_task, next_action_of_live_task
from preempt_exporter.settings import Thresholds

T = Thresholds()


@pytest.mark.parametrize(
    ("task", "silent", "expected"),
    [
        (TaskEvidence(queue_age_ms=0, deadline_ms=10), False, "none"),
        (TaskEvidence(queue_age_ms=6, deadline_ms=10), False, "reject_enqueue"),
        (TaskEvidence(queue_age_ms=10, deadline_ms=10), False, "reject_enqueue"),
        (TaskEvidence(queue_age_ms=6, deadline_ms=10), True, "reclaim_lease"),
        (TaskEvidence(queue_age_ms=6, deadline_ms=10, preempts=2), True, "drain_and_reject"),
        (TaskEvidence(queue_age_ms=0, restart_tokens=201, task_budget=1000), True, "drain_and_reject"),
        (TaskEvidence(queue_age_ms=0, deadline_ms=10, restart_cost_ms=11), True, "drain_and_reject"),
        (TaskEvidence(queue_age_ms=0, deadline_ms=10, restart_cost_ms=10), False, "none"),
    ],
)
def test_the_gravest_action_wins(task: TaskEvidence, silent: bool, expected: str) -> None:
    """Drain before reclaim before reject."""
    assert next_action_of_live_task(task, T, silent=silent) == expected


def test_an_ended_task_asks_only_to_stop_feeding_the_lane() -> None:
    """Restart tokens past the budget matter after a drain, not after a completion, and nothing else does."""
    over = TaskEvidence(queue_age_ms=99, deadline_ms=10, restart_tokens=840, task_budget=1000, preempts=9)
    within = TaskEvidence(queue_age_ms=99, deadline_ms=10, restart_tokens=200, task_budget=1000, preempts=9)
    assert next_action_of_ended_task(over, T, completed=False) == "drain_and_reject"
    assert next_action_of_ended_task(over, T, completed=True) == "none"
    assert next_action_of_ended_task(within, T, completed=False) == "none"


@pytest.mark.parametrize(
    ("action", "new_task", "replay", "routing"),
    [
        (None, False, False, False),
        ("reject_enqueue", True, False, True),
        ("drain_and_reject", True, True, True),
        ("abandon_lane", True, True, True),
        ("route_to_paid", False, False, True),
        ("an_action_of_a_newer_version", True, True, True),
    ],
)
def test_what_a_lane_action_forbids(action: str | None, new_task: bool, replay: bool, routing: bool) -> None:
    """`reject_enqueue` lets what was admitted go on; `route_to_paid` concerns the router alone."""
    assert forbids_start(action, admitted_before=False) is new_task
    assert forbids_start(action, admitted_before=True) is replay
    assert forbids_routing(action) is routing
