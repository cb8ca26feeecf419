"""The reference itself, pinned by sentences of the contract: repeats, lanes, and what restarting would cost."""

import pytest

from tests.state.ledger_lines import OTHER_LEDGER, at, attempt, figures, line, task


def test_a_repeated_id_changes_its_counter_only() -> None:
    """A line whose `id` the ledger had is a repeat, whatever else it says."""
    first, again = line("preempt", 0, id="x", wasted_tokens=5), line("drain", 9, id="x")
    once, twice = figures(first, now=9), figures(first, again, now=9)
    assert (twice.tasks, twice.lanes, twice.runs) == (once.tasks, once.lanes, once.runs)
    assert (twice.reading.duplicates, twice.reading.lines_total) == (1, 2)


def test_ids_are_a_ledgers_own() -> None:
    """The same id, even the same line, counts in another ledger."""
    told = figures(line("preempt", 0, id="x"), line("preempt", 0, id="x", ledger=OTHER_LEDGER), now=9)
    assert (told.reading.duplicates, told.lanes["default"].events["preempt"]) == (0, 2)


def test_an_event_without_id_is_never_a_repeat() -> None:
    """Nothing but ids and equal attempt lines is taken for a repeat."""
    told = figures(line("preempt", 0, wasted_tokens=5), line("preempt", 0, wasted_tokens=5), now=9)
    assert told.lanes["default"].restart_tokens == 10


def test_equal_attempt_lines_are_repeats_and_others_conflict() -> None:
    """Equal in all known fields: a repeat. The same name with other content: counts, and is counted as conflicting."""
    told = figures(attempt(0), attempt(0, gpu_util_lie=1), attempt(0, outcome="oom"), attempt(0, attempt=2), now=9)
    assert (told.reading.duplicates, told.reading.conflicting) == (1, 1)
    assert told.attempt_lanes["free"].attempts == {"ok": 2, "failed": 1}


def test_an_equal_attempt_in_another_ledger_counts_twice() -> None:
    """Whether content was read already is judged within a ledger only."""
    told = figures(attempt(0), attempt(0, ledger=OTHER_LEDGER), now=9)
    assert (told.reading.duplicates, told.reading.conflicting) == (0, 0)
    assert told.attempt_lanes["free"].attempts["ok"] == 2


def test_every_event_counts_in_its_lane() -> None:
    """Task, run, lane and mode events count: in the lane they name, else the life's, else the default."""
    told = figures(
        line("enqueue", 0, lane="free"),
        line("heartbeat", 1),
        line("mode", 2, mode="normal"),
        line("run_open", 2, run="r"),
        line("lane_drain", 3, lane="paid"),
        now=3,
        default="spot",
    )
    assert told.lanes["free"].events == {"enqueue": 1, "heartbeat": 1}
    assert told.lanes["spot"].events == {"mode": 1, "run_open": 1}
    assert told.lanes["paid"].events == {"lane_drain": 1}


def test_rejects_by_reason() -> None:
    """Every reject counts, those after the end too; an unknown reason is `other`."""
    told = figures(line("complete", 0), line("reject", 1), line("reject", 1, reason="mood"), now=2)
    assert told.lanes["default"].rejects == {"queue_age": 1, "other": 1}


def test_output_tokens_of_every_complete() -> None:
    """Depends on the lines alone: a complete after the end adds its tokens too."""
    told = figures(line("complete", 0, output_tokens=3), line("complete", 1, output_tokens=4), now=2)
    assert told.lanes["default"].output_tokens == 7


def test_a_deadline_is_missed_once_per_life() -> None:
    """Counted at the first end that comes later than the deadline, not exactly at it."""
    on_time = (line("enqueue", 0, deadline_ms=10_000), line("reject", 10))
    assert figures(*on_time, now=99).lanes["default"].deadline_missed == 0
    late = (*on_time, line("reject", 11), line("drain", 12))
    assert figures(*late, now=99).lanes["default"].deadline_missed == 1
    second_life = (line("enqueue", 20, deadline_ms=1), line("complete", 30))
    assert figures(*late, *second_life, now=99).lanes["default"].deadline_missed == 2


def test_live_tasks_by_state_and_past_which_threshold() -> None:
    """Sums over live lives of the lane; ratios are the largest, slack the smallest."""
    told = figures(
        line("enqueue", 0, task_id="a", deadline_ms=100_000, task_budget=1000),
        line("preempt", 0, task_id="b", restart_tokens=201, preempts=2, wasted_tokens=0),
        line("admit", 0, task_id="b", deadline_ms=40_000, task_budget=1000),
        line("complete", 0, task_id="c"),
        now=40,
    ).lanes["default"]
    assert told.tasks == {"queued": 1, "running": 1}
    assert told.over_threshold == {"queue_age_frac": 1, "slack_zero": 1, "restart_frac": 1, "max_preempts": 1}
    assert (told.queue_age_ratio_max, told.restart_ratio_max, told.deadline_slack_ms_min) == (1.0, 0.201, 0)


def test_a_threshold_is_passed_beyond_it() -> None:
    """Exactly half of the deadline and exactly a fifth of the budget are not past the threshold."""
    half = line("enqueue", 0, deadline_ms=100_000, task_budget=1000)
    fifth = line("preempt", 0, restart_tokens=200, preempts=1, wasted_tokens=0)
    assert task(half, fifth, now=50).over == set()
    assert task(half, fifth, now=50.001).over == {"queue_age_frac"}


def test_silent_past_its_promise() -> None:
    """The newest promise since the last enqueue, admit or preempt binds; else what is set; else never."""
    promised = (line("heartbeat", 0, next_within_ms=1_000), line("heartbeat", 5))
    assert not task(*promised, now=6).silent
    assert task(*promised, now=6.001).silent
    forgotten = (*promised, line("admit", 6))
    assert not task(*forgotten, now=60).silent
    assert task(*forgotten, now=60, silent_after_ms=30_000).silent
    assert not task(*promised, line("preempt", 6), now=60, silent_after_ms=30_000).silent


def test_a_drained_lane_until_it_is_resumed() -> None:
    """The last of `lane_drain` and `lane_resume` says whether a lane is draining."""
    drain, resume = line("lane_drain", 0, lane="free"), line("lane_resume", 1, lane="free")
    assert figures(drain, now=2).lanes["free"].draining
    assert not figures(drain, resume, now=2).lanes["free"].draining


def test_the_host_that_preempts_most() -> None:
    """Per host the larger of preempt events and preempted attempts of the last 24 h; they tell of the same ones."""
    told = figures(
        line("preempt", 0, lane="free", host="h1"),
        line("preempt", 10, lane="free", host="h1"),
        attempt(10, outcome="preempted", host="h1"),
        line("preempt", 10, lane="free", host="h2"),
        line("preempt", 10, lane="free"),
        now=86_405,
    )
    assert told.lanes["free"].host_preempts_max == 1
    attempted = figures(attempt(0, outcome="preempted", host="h1"), now=1)
    assert attempted.lanes["free"].host_preempts_max == 1


def test_two_attempts_of_one_job() -> None:
    """One preempted, one ok: a rework of 2, one job, and the figures of `report`."""
    told = figures(
        attempt(
            0,
            enqueue_s=0,
            start_s=812,
            end_s=934,
            outcome="preempted",
            tokens_in=9100,
            tokens_out=2100,
            interventions=1,
        ),
        attempt(0, attempt=2, enqueue_s=0, start_s=1204, end_s=1330, tokens_in=9100, tokens_out=2050),
        now=9,
    ).attempt_lanes["free"]
    assert told.window is not None
    assert (told.window.jobs_completed, told.window.rework_multiplier, told.window.completion_ratio) == (1, 2.0, 1.0)
    assert (told.window.wait_p95_seconds, told.window.run_p95_seconds) == (1204, 126)
    assert told.window.seconds_per_completed_job == 122 + 126
    assert told.window.tokens_per_completed_job == 22_350
    assert told.window.interventions_per_100_jobs == 100
    assert told.window.required_slack_seconds == 1204 + 2 * 126 + 300
    assert told.tokens == {"in": 18_200, "out": 4_150}


def test_durations_below_0_count_as_0_and_null_tokens_as_unknown() -> None:
    """A start before the enqueue is no negative wait, and null tokens add nothing."""
    told = figures(attempt(0, enqueue_s=50, start_s=10, end_s=5), now=1).attempt_lanes["free"]
    assert (told.waits_s, told.runs_s, told.tokens["in"]) == ([0], [0], 0)


def test_the_window_forgets_what_is_older() -> None:
    """Attempts older than the window leave the gauges, not the counters; one without a stamp stays."""
    told = figures(attempt(0), now=86_400.001).attempt_lanes["free"]
    assert (told.window, told.attempts["ok"]) == (None, 1)
    assert figures(attempt(0), now=86_400).attempt_lanes["free"].window is not None
    assert figures(attempt(0, ts_ms=None), now=999_999).attempt_lanes["free"].window is not None


@pytest.mark.parametrize(("count", "p95_s"), [(1, 0), (2, 1), (11, 10), (21, 19), (101, 95)])
def test_p95_by_its_index(count: int, p95_s: int) -> None:
    """The value at index min(n-1, round_half_even(0.95*(n-1)))."""
    waits = [attempt(0, job_id=str(wait_s), start_s=wait_s, end_s=wait_s) for wait_s in range(count)]
    window = figures(*waits, now=1).attempt_lanes["free"].window
    assert window is not None
    assert window.wait_p95_seconds == p95_s


NEEDS = {"prompt_tokens": 800, "target_tokens": 200, "deadline_ms": 120_000}


def test_what_losing_the_slot_would_cost() -> None:
    """p95 wait + prompt / prefill rate + what the checkpoint leaves of the target / decode rate."""
    lines = (
        line("enqueue", 0, fields=NEEDS),
        line("admit", 4, queue_age_ms=4_000),
        line("checkpoint", 6, checkpoint_tokens=100),
    )
    assert task(*lines, now=6).restart_cost_ms == pytest.approx(4_000 + 800 / 0.05 + 100 / 0.05)
    measured = task(*lines, now=6, prefill_tokens_per_s={"default": 4_000.0})
    assert measured.restart_cost_ms == pytest.approx(4_000 + 200 + 100 / 0.05)


def test_waits_of_attempt_lines_are_better_known() -> None:
    """The lane's attempt lines, where there are any, tell the wait."""
    lines = (line("admit", 4, lane="free", enqueued_ms=at(0), prompt_tokens=0, target_tokens=0), attempt(0, start_s=9))
    assert task(*lines, now=6).restart_cost_ms == 9_000


def test_an_unknown_cost_is_absent() -> None:
    """Without a rate, a wait, a prompt or a target nothing is said."""
    assert task(line("enqueue", 0, fields=NEEDS), now=6).restart_cost_ms is None
    assert task(line("admit", 0, fields=NEEDS), now=6).restart_cost_ms is None
    no_prompt = (line("admit", 0, target_tokens=9), line("checkpoint", 1))
    assert task(*no_prompt, now=6).restart_cost_ms is None


def test_a_decode_step_ends_with_the_stretch() -> None:
    """A preemption between two checkpoints is no decode step; the next admit begins a new stretch at what is kept."""
    lines = (
        line("admit", 0, fields={**NEEDS, "prompt_tokens": 0}),
        line("checkpoint", 1, checkpoint_tokens=100),
        line("preempt", 2),
        line("heartbeat", 3),
        line("checkpoint", 4, checkpoint_tokens=150),
    )
    assert task(*lines, now=6).restart_cost_ms == pytest.approx(50 / 0.1)
    resumed = (*lines[:3], line("admit", 3, preempts=1), lines[4])
    assert task(*resumed, now=6).restart_cost_ms == pytest.approx(50 / (150 / 2_000))


def test_a_restart_that_cannot_finish() -> None:
    """Past the threshold once the cost is more than the slack."""
    lines = (line("admit", 0, fields={**NEEDS, "prompt_tokens": 0}), line("checkpoint", 1, checkpoint_tokens=100))
    assert "restart_cannot_finish" in task(*lines, now=119.001).over
    assert "restart_cannot_finish" not in task(*lines, now=119).over


def test_the_last_enqueue_of_a_lane() -> None:
    """The newest moment of enqueue of a life of the lane, as its first line tells it, be that an admit."""
    lines = (
        line("enqueue", 9, lane="free"),
        line("admit", 12, lane="free", queue_age_ms=5_000, task_id="u"),
        line("heartbeat", 20, lane="free"),
    )
    assert figures(*lines, now=20).lanes["free"].last_enqueue_ms == at(9)


def test_unknown_tokens_are_not_none() -> None:
    """An attempt that does not know both counts takes no part in tokens per job, nor does a job known by it alone."""
    knows = attempt(0, tokens_in=100, tokens_out=20)
    unknown = attempt(0, job_id="k", tokens_in=7)
    window = figures(knows, unknown, now=1).attempt_lanes["free"].window
    assert window is not None
    assert window.tokens_per_completed_job == 120
    alone = figures(unknown, now=1).attempt_lanes["free"].window
    assert alone is not None
    assert alone.tokens_per_completed_job is None
