"""How lines move a life: ledger.md section 1, sentence by sentence."""

import pytest

from preempt_exporter.settings import TaskDefaults
from tests.state.folding import T0_MS, event, fold, life, look, rows, watched


def test_an_enqueue_begins_a_queued_life() -> None:
    """`enqueue` of an unknown task: queued, with its limits."""
    state = fold(watched(), event("enqueue", 5, deadline_ms=60_000, task_budget=1000, prompt_tokens=8, target_tokens=9))
    found = life(state)
    assert (found.state, found.enqueued_ms, found.deadline_ms, found.task_budget) == ("queued", T0_MS + 5, 60_000, 1000)


@pytest.mark.parametrize(
    ("name", "begun"),
    [
        ("admit", "running"),
        ("heartbeat", "running"),
        ("checkpoint", "running"),
        ("preempt", "preempted"),
        ("reject", "rejected"),
        ("drain", "drained"),
        ("complete", "complete"),
    ],
)
def test_any_line_of_an_unknown_task_begins_a_life(name: str, begun: str) -> None:
    """Else running, or what the line says."""
    assert life(fold(watched(), event(name))).state == begun


def test_the_enqueue_moment_given_wins_over_the_derived_one() -> None:
    """The earliest given; else `ts_ms - queue_age_ms` of the first line that has it; else the first `ts_ms`."""
    state = fold(watched(), event("heartbeat", 50))
    assert life(state).enqueued_ms == T0_MS + 50
    fold(state, event("admit", 60, queue_age_ms=40))
    assert life(state).enqueued_ms == T0_MS + 20
    fold(state, event("admit", 70, queue_age_ms=10))
    assert life(state).enqueued_ms == T0_MS + 20
    fold(state, event("admit", 80, enqueued_ms=T0_MS + 30), event("admit", 90, enqueued_ms=T0_MS + 35))
    assert life(state).enqueued_ms == T0_MS + 30
    fold(state, event("admit", 95, enqueued_ms=T0_MS + 10))
    assert life(state).enqueued_ms == T0_MS + 10


def test_a_deadline_is_derived_from_the_first_line_with_age_and_slack_until_one_is_given() -> None:
    """The first derivation stands; a given `deadline_ms` replaces it; a default fills only what nothing gives."""
    state = watched(defaults=TaskDefaults(deadline_ms=9, task_budget=77))
    fold(state, event("heartbeat"))
    assert (life(state).deadline_ms, life(state).task_budget) == (9, 77)
    fold(state, event("admit", queue_age_ms=100, deadline_slack_ms=900))
    assert life(state).deadline_ms == 1000
    fold(state, event("admit", queue_age_ms=100, deadline_slack_ms=1900))
    assert life(state).deadline_ms == 1000
    fold(state, event("enqueue", deadline_ms=5000, task_budget=50))
    assert (life(state).deadline_ms, life(state).task_budget) == (5000, 50)


def test_totals_take_the_maximum_within_a_life() -> None:
    """A lower total on a later line changes nothing."""
    state = fold(
        watched(),
        event("preempt", 1, restart_tokens=100, preempts=2),
        event("preempt", 2, restart_tokens=50, preempts=1),
        event("admit", 3, preempts=3),
    )
    assert (life(state).restart_tokens, life(state).preempts) == (100, 3)


@pytest.mark.parametrize("end", ["drain", "complete"])
@pytest.mark.parametrize("late", ["heartbeat", "checkpoint", "preempt", "reject", "drain", "complete"])
def test_nothing_undoes_drained_or_complete(end: str, late: str) -> None:
    """Any other line after such an end changes counters only."""
    state = fold(watched(), event("admit"), event(end, 10))
    before = life(state)
    kept = (before.state, before.restart_tokens, before.preempts, before.ended_ms)
    fold(state, event(late, 20))
    after = life(state)
    assert (after.state, after.restart_tokens, after.preempts, after.ended_ms) == kept
    assert state.figures.lanes["default"].events[late] == 1 + (late == end)


@pytest.mark.parametrize("again", ["enqueue", "admit"])
@pytest.mark.parametrize("end", ["drain", "complete"])
def test_enqueue_or_admit_after_an_end_begins_a_new_life(end: str, again: str) -> None:
    """And nothing of the old life leaks into it."""
    state = fold(watched(), event("admit", task_budget=1000), event("preempt", 5, restart_tokens=99), event(end, 10))
    fold(state, event(again, 20))
    new = life(state)
    assert (new.restart_tokens, new.preempts, new.task_budget, new.checkpoint_tokens) == (0, 0, None, 0)
    assert new.enqueued_ms == T0_MS + 20
    assert state.figures.lives_kept == 1


def test_a_rejection_is_taken_back_by_an_admission_of_the_same_enqueue() -> None:
    """After `rejected`, an enqueue moment not later than the rejection means the life goes on; later, a new one."""
    rejected = [event("enqueue", 0), event("preempt", 5, restart_tokens=99), event("reject", 10)]
    goes_on = fold(watched(), *rejected, event("admit", 30, queue_age_ms=20))
    assert (life(goes_on).state, life(goes_on).restart_tokens) == ("running", 99)
    anew = fold(watched(), *rejected, event("admit", 31, queue_age_ms=20))
    assert (life(anew).state, life(anew).restart_tokens) == ("running", 0)


def test_a_drain_after_a_reject_makes_it_drained() -> None:
    """The two are one decision; its reason is the reject's."""
    state = fold(watched(), event("admit"), event("reject", 5), event("drain", 5))
    [row] = rows(state, 6)
    assert (row.state, row.action, row.reason) == ("drained", "reject", "restart_tokens")


def test_an_older_line_of_another_ledger_only_raises_totals_and_fills_gaps() -> None:
    """It changes no state; older than the enqueue, it changes counters only."""
    state = fold(watched(), event("admit", 100, queue_age_ms=50), ledger="a")
    fold(state, event("preempt", 90, restart_tokens=40), event("enqueue", 80, task_budget=500), ledger="b")
    found = life(state)
    assert (found.state, found.restart_tokens, found.task_budget) == ("running", 40, 500)
    fold(state, event("preempt", 49, restart_tokens=4000), ledger="b")
    assert life(state).restart_tokens == 40
    assert state.figures.lanes["default"].events["preempt"] == 2


def test_within_a_ledger_file_order_counts_whatever_the_stamps_say() -> None:
    """A clock that was set back does not make a line late."""
    state = fold(watched(), event("admit", 100), event("preempt", 50))
    assert life(state).state == "preempted"


def test_a_stamp_in_the_future_counts_as_now_and_is_reported() -> None:
    """Ages never go below 0 and the skew shows."""
    state = fold(watched(), event("enqueue", 5000), now_ms=1000)
    assert life(state).enqueued_ms == T0_MS + 1000
    assert state.figures.skew.largest(T0_MS + 1000) == 4000
    assert look(state, 500).live[0].age_ms == 0


@pytest.mark.parametrize(
    ("fields", "abandoned_at_ms"),
    [
        ({"deadline_ms": 60_000}, 60_000 + 600_000),
        ({"deadline_ms": 3_600_000}, 7_200_000),
        ({}, 86_400_000),
    ],
)
def test_a_silent_life_is_abandoned_after_its_patience(fields: dict[str, int], abandoned_at_ms: int) -> None:
    """Deadline again, ten minutes at least; 24 h without one; and any later line revives it."""
    state = fold(watched(), event("enqueue", 0, **fields))
    assert [task.life.task_id for task in look(state, abandoned_at_ms).live] == ["t"]
    seen = look(state, abandoned_at_ms + 1)
    assert (seen.live, seen.runs[None]["abandoned"]) == ([], 1)
    assert rows(state, abandoned_at_ms + 1)[0].state == "abandoned"
    fold(state, event("heartbeat", abandoned_at_ms + 2))
    assert len(look(state, abandoned_at_ms + 2).live) == 1


def test_the_same_task_id_in_two_runs_is_two_tasks() -> None:
    """A line without `run` names the task without a run."""
    state = fold(watched(), event("admit"), event("admit", run="r"), event("complete", run="r"))
    assert (life(state).state, life(state, run="r").state) == ("running", "complete")


def test_lane_is_the_last_that_a_line_named() -> None:
    """And counters go to the line's own lane, else to the life's."""
    state = fold(watched(), event("enqueue", lane="free"), event("admit"), event("checkpoint", lane="paid"))
    lanes = state.figures.lanes
    assert life(state).lane == "paid"
    assert (lanes["free"].events["admit"], lanes["paid"].events["checkpoint"]) == (1, 1)


@pytest.mark.parametrize("ledger", ["a", "b"])
def test_output_that_was_reported_outlives_a_checkpoint_behind_it(ledger: str) -> None:
    """Writing a checkpoint takes its time, and what came meanwhile is lost with the slot; one step back is a restart.

    Whether the line goes the short way, as a running life's in its own ledger does, or comes from another.
    """
    ahead = [event("admit"), event("heartbeat", 10, output_tokens=140)]
    steps = [(20, 100, 140), (30, 200, 200), (40, 50, 50)]
    state = fold(watched(), *ahead, ledger="a")
    for at_ms, checkpoint_tokens, output_tokens in steps:
        fold(state, event("checkpoint", at_ms, checkpoint_tokens=checkpoint_tokens), ledger=ledger)
        assert life(state).output_tokens == output_tokens
        if ledger == "b":
            fold(state, event("heartbeat", at_ms), ledger="a")
    fold(state, event("checkpoint", 50, checkpoint_tokens=60, output_tokens=70), ledger=ledger)
    assert life(state).output_tokens == 70


def test_a_deadline_missed_counts_once_per_life() -> None:
    """At its first end, whatever follows."""
    state = fold(
        watched(), event("enqueue", deadline_ms=100), event("reject", 101), event("drain", 102), event("complete", 103)
    )
    assert state.figures.lanes["default"].deadlines_missed == 1
    fold(state, event("enqueue", 200, deadline_ms=100), event("complete", 300, output_tokens=1))
    assert state.figures.lanes["default"].deadlines_missed == 1


def test_silence_is_measured_against_the_newest_promise() -> None:
    """Only of running lives; a preemption ends the promise; the setting stands in where none was made."""
    state = fold(watched(), event("admit"), event("heartbeat", 10, next_within_ms=100))
    assert look(state, 110).lanes["default"].silent == 0
    assert look(state, 111).lanes["default"].silent == 1
    fold(state, event("preempt", 20))
    assert look(state, 9999).lanes["default"].silent == 0
    other = fold(watched(silent_after_ms=50), event("admit"))
    assert (look(other, 50).lanes["default"].silent, look(other, 51).lanes["default"].silent) == (0, 1)
