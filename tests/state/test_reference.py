"""The reference itself, pinned by sentences of the ledger's contract: lives, their order and their ends."""

import pytest

from tests.state.ledger_lines import OTHER_LEDGER, at, figures, line, task

TOTALS = {"restart_tokens", "preempts", "checkpoint_tokens"}
PREEMPTED_AND_DRAINED = (
    line("admit", 0),
    line("preempt", 0.1, wasted_tokens=840, restart_tokens=840, preempts=1, deadline_slack_ms=119_899),
    line("reject", 0.1, reason="restart_tokens", restart_tokens=840, task_budget=1000),
    line("drain", 0.1),
)


def test_a_preempted_task_that_was_refused_and_drained() -> None:
    """A task that lost 840 tokens of a budget of 1000 ends drained, with the reason of its reject and its totals."""
    drained = task(*PREEMPTED_AND_DRAINED, now=1)
    assert (drained.state, drained.reason) == ("drained", "restart_tokens")
    assert (drained.restart_tokens, drained.preempts, drained.task_budget) == (840, 1, 1000)
    assert drained.deadline_ms == 120_000
    assert drained.series == TOTALS | {"task_budget"}


@pytest.mark.parametrize(
    ("event", "state"),
    [
        *[("enqueue", "queued"), ("admit", "running"), ("heartbeat", "running"), ("checkpoint", "running")],
        *[("preempt", "preempted"), ("reject", "rejected"), ("drain", "drained"), ("complete", "complete")],
    ],
)
def test_an_unknown_task_begins_as_its_line_says(event: str, state: str) -> None:
    """A line that names an unknown task begins a life: queued by enqueue, else running or what it says."""
    assert task(line(event, 0), now=0).state == state


def test_preempted_and_running_in_turn() -> None:
    """Admit, heartbeat and checkpoint make a preempted life running again; a preempt takes the slot back."""
    for event in ("admit", "heartbeat", "checkpoint"):
        assert task(line("admit", 0), line("preempt", 1), line(event, 2), now=2).state == "running"
        assert task(line(event, 0), line("preempt", 1), now=2).state == "preempted"


def test_a_second_enqueue_leads_nowhere_back() -> None:
    """A task that runs is not queued again by a late enqueue of the same ledger."""
    assert task(line("admit", 0), line("enqueue", 1), now=1).state == "running"


@pytest.mark.parametrize("end", ["drain", "complete"])
@pytest.mark.parametrize("after", ["reject", "drain", "complete", "heartbeat", "checkpoint", "preempt"])
def test_nothing_undoes_drained_or_complete(end: str, after: str) -> None:
    """After drained or complete a line other than enqueue and admit changes counters only."""
    ended = task(line("admit", 0), line(end, 1), now=2)
    touched = task(line("admit", 0), line(end, 1), line(after, 2), now=2)
    assert touched == ended


def test_a_reject_of_a_rejected_task_tells_the_newest_reason() -> None:
    """Rejected again: reason, moment of the end and limits are the newest."""
    rejects = (line("reject", 0, reason="queue_age"), line("reject", 200, reason="slack_zero", task_budget=7))
    again = task(*rejects, now=499)
    assert (again.reason, again.task_budget) == ("slack_zero", 7)
    assert again.series == TOTALS | {"task_budget"}


def test_complete_after_rejected() -> None:
    """Complete ends a life from rejected as well."""
    assert task(line("reject", 0), line("complete", 1), now=1).state == "complete"


@pytest.mark.parametrize("late", ["heartbeat", "checkpoint", "preempt"])
def test_a_rejected_life_hears_no_heartbeat(late: str) -> None:
    """After a rejection any line but enqueue, admit and the ends changes counters only."""
    assert task(line("reject", 0), line(late, 1), now=1).state == "rejected"


@pytest.mark.parametrize("end", ["reject", "drain", "complete"])
@pytest.mark.parametrize(("event", "state"), [("enqueue", "queued"), ("admit", "running")])
def test_a_new_life_after_an_end(end: str, event: str, state: str) -> None:
    """Enqueue or admit after an end begins a new life, into which nothing of the old one leaks."""
    old = (line("admit", 0, task_budget=9), line("preempt", 1, restart_tokens=70, preempts=3), line(end, 2))
    new = task(*old, line(event, 10), now=15)
    assert new == task(line(event, 10), now=15)
    assert (new.state, new.restart_tokens, new.preempts, new.task_budget) == (state, 0, 0, None)


@pytest.mark.parametrize(("event", "state"), [("enqueue", "queued"), ("admit", "running")])
def test_a_rejection_taken_back(event: str, state: str) -> None:
    """A task whose enqueue moment is not later than its rejection was admitted after all: the life goes on."""
    old = (line("enqueue", 0, task_budget=9), line("preempt", 1, restart_tokens=70, preempts=1), line("reject", 2))
    goes_on = task(*old, line(event, 10, enqueued_ms=at(0)), now=10)
    assert (goes_on.state, goes_on.restart_tokens, goes_on.task_budget) == (state, 70, 9)
    assert goes_on.queue_age_ms == 10_000


@pytest.mark.parametrize(("queue_age_ms", "restart_tokens"), [(8_000, 70), (7_999, 0)])
def test_the_queue_age_of_an_admit_tells_whether_the_rejection_was_before(
    queue_age_ms: int, restart_tokens: int
) -> None:
    """Without `enqueued_ms` the enqueue moment is the line's own less its age; at the rejection's moment it goes on."""
    old = (line("admit", 0), line("preempt", 1, restart_tokens=70), line("reject", 2))
    assert task(*old, line("admit", 10, queue_age_ms=queue_age_ms), now=10).restart_tokens == restart_tokens


def test_totals_are_maxima() -> None:
    """Restart tokens and preempts take the maximum within a life, wherever it stood."""
    lines = (
        line("admit", 0, preempts=2),
        line("preempt", 1, restart_tokens=90, preempts=1),
        line("preempt", 2, restart_tokens=40, preempts=1),
    )
    assert (task(*lines, now=2).restart_tokens, task(*lines, now=2).preempts) == (90, 2)


def test_the_newest_checkpoint_counts() -> None:
    """Checkpoint tokens are the newest line's, even when fewer."""
    lines = (line("checkpoint", 0, checkpoint_tokens=200), line("checkpoint", 1, checkpoint_tokens=100))
    assert task(*lines, now=1).checkpoint_tokens == 100


def test_the_newest_deadline_and_the_earliest_enqueue_count() -> None:
    """`enqueued_ms` takes the earliest, `deadline_ms` the newest line."""
    lines = (
        line("enqueue", 10, enqueued_ms=at(5), deadline_ms=60_000),
        line("admit", 11, enqueued_ms=at(3), deadline_ms=90_000),
        line("admit", 12, enqueued_ms=at(8)),
    )
    assert (task(*lines, now=13).queue_age_ms, task(*lines, now=13).deadline_ms) == (10_000, 90_000)


def test_a_deadline_that_no_line_gives_is_age_and_slack() -> None:
    """Where no line gives a deadline, it is queue age + slack of the first line that has both."""
    lines = (
        line("reject", 0, queue_age_ms=1_000),
        line("admit", 1, enqueued_ms=at(0), queue_age_ms=101, deadline_slack_ms=119_899),
        line("admit", 2, queue_age_ms=9, deadline_slack_ms=9),
    )
    assert task(*lines, now=2).deadline_ms == 120_000


def test_an_enqueue_moment_that_no_line_gives_is_told_by_the_queue_age() -> None:
    """It is the moment less the queue age of the first line that has one, else the life's first moment."""
    assert task(line("heartbeat", 10), line("admit", 12, queue_age_ms=7_000), now=12).queue_age_ms == 7_000
    assert task(line("heartbeat", 10), line("heartbeat", 12), now=12).queue_age_ms == 2_000


def test_a_default_fills_only_what_no_line_gives() -> None:
    """Defaults stand where lines are silent, and unknown stays unknown without one."""
    silent, given = line("heartbeat", 0), line("enqueue", 0, deadline_ms=5, task_budget=6)
    assert (task(silent, now=0).deadline_ms, task(silent, now=0).task_budget) == (None, None)
    defaulted = task(silent, now=0, deadline_ms=1, task_budget=2)
    assert (defaulted.deadline_ms, defaulted.task_budget, defaulted.deadline_slack_ms) == (1, 2, 1)
    assert (task(given, now=0, deadline_ms=1).deadline_ms, task(given, now=0, task_budget=2).task_budget) == (5, 6)


def test_limits_that_nobody_gave_are_counted() -> None:
    """A live life without deadline or budget has no such series, and is counted."""
    unknown = figures(line("heartbeat", 0), now=0)
    assert unknown.tasks[None, "t"].series == TOTALS | {"queue_age_ms"}
    assert unknown.lanes["default"].without_limit == {"deadline": 1, "budget": 1}


def test_slack_may_be_negative() -> None:
    """Slack is the deadline less the age, and goes on falling once missed."""
    assert task(line("enqueue", 0, deadline_ms=10_000), now=15).deadline_slack_ms == -5_000


def test_ages_never_go_below_0() -> None:
    """A task enqueued in the future is not younger than now."""
    ahead = task(line("enqueue", 0, enqueued_ms=at(9), deadline_ms=10_000), now=5)
    assert (ahead.queue_age_ms, ahead.deadline_slack_ms) == (0, 10_000)


def test_a_stamp_from_the_future_counts_as_now() -> None:
    """It is clamped to the moment it was read, and the skew is reported."""
    ahead = figures(line("enqueue", 60, read_at=20), now=50)
    assert ahead.tasks[None, "t"].queue_age_ms == 30_000
    assert ahead.reading.skew_ms == 40_000


def test_a_late_line_of_another_ledger_changes_counters_and_maxima_and_fills() -> None:
    """Older than the life's last line and from another ledger: no state, no newer deadline, only what is missing."""
    totals = {"restart_tokens": 70, "preempts": 3, "wasted_tokens": 70}
    late = line("preempt", 5, ledger=OTHER_LEDGER, read_at=11, lane="paid", fields=totals)
    told = figures(line("enqueue", 0), line("admit", 10, queue_age_ms=10_000), late, now=12)
    assert told.tasks[None, "t"].state == "running"
    assert (told.tasks[None, "t"].restart_tokens, told.tasks[None, "t"].preempts) == (70, 3)
    assert told.tasks[None, "t"].lane == "default"
    assert told.lanes["paid"].events["preempt"] == 1

    fills = line("admit", 5, ledger=OTHER_LEDGER, read_at=11, enqueued_ms=at(4), task_budget=8, deadline_ms=77)
    filled = task(line("heartbeat", 0), line("heartbeat", 10), fills, now=12)
    assert (filled.queue_age_ms, filled.task_budget, filled.deadline_ms) == (8_000, 8, 77)
    filled_before = (line("heartbeat", 0), line("heartbeat", 10), fills)
    earlier = line("enqueue", 6, ledger=OTHER_LEDGER, read_at=11, enqueued_ms=at(1), task_budget=1, deadline_ms=1)
    assert task(*filled_before, earlier, now=12) == task(*filled_before, now=12)
    kept = task(line("enqueue", 0, enqueued_ms=at(0), task_budget=1, deadline_ms=2), line("admit", 10), fills, now=12)
    assert (kept.queue_age_ms, kept.task_budget, kept.deadline_ms) == (12_000, 1, 2)


def test_a_line_older_than_the_life_changes_counters_only() -> None:
    """From another ledger and older than the life's enqueue: not even maxima."""
    old = line("preempt", 3, ledger=OTHER_LEDGER, read_at=11, restart_tokens=70, wasted_tokens=70)
    told = figures(line("enqueue", 4), line("admit", 10, queue_age_ms=6_000), old, now=12)
    assert told.tasks[None, "t"].restart_tokens == 0
    assert told.lanes["default"].restart_tokens == 70


def test_within_a_ledger_file_order_rules() -> None:
    """A line of the same ledger with an older stamp is not late."""
    assert task(line("admit", 10), line("preempt", 5, read_at=11), now=12).state == "preempted"


def test_a_late_line_begins_no_life() -> None:
    """An enqueue older than the end it follows, from another ledger, neither revives nor begins anything."""
    late = line("enqueue", 5, ledger=OTHER_LEDGER, read_at=11)
    assert task(line("admit", 0), line("complete", 10), late, now=12).state == "complete"


def test_abandoned_after_the_deadline_again() -> None:
    """Now later than deadline and last line by the deadline again, at least 10 minutes."""
    hour = line("enqueue", 0, deadline_ms=3_600_000)
    assert task(hour, now=7_200).state == "queued"
    assert task(hour, now=7_200.001).state == "abandoned"
    minute = line("enqueue", 0, deadline_ms=60_000)
    assert task(minute, now=660).state == "queued"
    assert task(minute, now=660.001).state == "abandoned"
    still_heard = (minute, line("heartbeat", 500))
    assert task(*still_heard, now=1100).state == "running"
    assert task(*still_heard, now=1100.001).state == "abandoned"


def test_abandoned_after_a_day_without_deadline() -> None:
    """24 h after the last line where there is no deadline, or what is set."""
    assert task(line("heartbeat", 0), now=86_400).state == "running"
    assert task(line("heartbeat", 0), now=86_400.001).state == "abandoned"
    assert task(line("heartbeat", 0), now=10.001, abandon_after_ms=10_000).state == "abandoned"


def test_any_later_line_revives_an_abandoned_life() -> None:
    """Abandonment is derived: the totals of the life are still there when it speaks again."""
    old = (line("preempt", 0, restart_tokens=70), line("heartbeat", 200_000))
    assert (task(*old, now=200_000).state, task(*old, now=200_000).restart_tokens) == ("running", 70)


@pytest.mark.parametrize("end", ["reject", "drain"])
def test_totals_linger_after_an_end(end: str) -> None:
    """Age, slack and deadline leave at once, totals 5 minutes after the end's stamp."""
    lines = (line("admit", 0, task_budget=9), line(end, 10, read_at=200))
    assert task(*lines, now=310).series == TOTALS | {"task_budget"}
    assert task(*lines, now=310.001).series == frozenset()


def test_totals_linger_after_abandonment() -> None:
    """The end of an abandoned life is the moment it became so."""
    minute = line("enqueue", 0, deadline_ms=60_000)
    assert task(minute, now=661).series == TOTALS
    assert task(minute, now=960).series == TOTALS
    assert task(minute, now=960.001).series == frozenset()


def test_nothing_stays_of_complete() -> None:
    """After complete every series leaves at once."""
    assert task(line("admit", 0), line("complete", 1), now=1).series == frozenset()


def test_the_last_lane_named_is_the_lives() -> None:
    """`lane` is the last that a line of the life named."""
    lines = (line("enqueue", 0, lane="free"), line("admit", 1, lane="paid"), line("heartbeat", 2))
    assert task(*lines, now=2).lane == "paid"
    assert figures(*lines, now=2).lanes["paid"].events == {"admit": 1, "heartbeat": 1}


def test_a_run_makes_another_task() -> None:
    """A line without `run` names the task without a run; an integer run is its decimal string."""
    told = figures(line("enqueue", 0), line("admit", 0, run=7), line("admit", 1, run="7", task_id=3), now=1)
    assert set(told.tasks) == {(None, "t"), ("7", "t"), ("7", "3")}
