"""A worker may write only while its attempt is open, and its totals add up over attempts."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from preempt_exporter.clock import FixedClock
from preempt_exporter.drill.batch_database import BatchDatabase
from preempt_exporter.drill.batch_jobs import BatchJob
from preempt_exporter.drill.batch_keys import ask_key
from preempt_exporter.drill.batch_progress import AttemptIsClosed, AttemptProgress
from preempt_exporter.drill.batch_state import BatchState
from preempt_exporter.errors import UsageError

JOB = BatchJob(job_id="j", run="r", prompt_tokens=100, output_bytes=40, target_tokens=10)


@pytest.fixture
def clock() -> FixedClock:
    """A clock that stands at 1,000 ms."""
    return FixedClock(1_000)


@pytest.fixture
def state(tmp_path: Path, clock: FixedClock) -> Iterator[BatchState]:
    """A batch of one job that was begun at 1,000 ms."""
    with closing(BatchDatabase(tmp_path / "state.db")) as database:
        state = BatchState(database, clock)
        state.begin("r", [JOB], lambda job: "k")
        yield state


def dispatch(state: BatchState, clock: FixedClock, lane: str = "free") -> tuple[int, AttemptProgress]:
    """Open the job's next attempt; its number and its worker's handle."""
    with state.database.changing():
        sequence = state.dispatch("j", lane)
    return sequence, AttemptProgress(state.database, sequence, clock)


def test_a_worker_that_was_given_up_is_refused_at_its_next_write(state: BatchState, clock: FixedClock) -> None:
    """Presumed dead, replaced, awake again: neither its checkpoint nor its side effect counts."""
    _, zombie = dispatch(state, clock)
    zombie.begin()
    zombie.step_begins(0, 20)
    assert state.give_up_open_attempts() == 1
    _, heir = dispatch(state, clock)
    with pytest.raises(AttemptIsClosed):
        zombie.checkpoint(0, "x" * 20, 20)
    with pytest.raises(AttemptIsClosed):
        zombie.publish("k")
    with pytest.raises(AttemptIsClosed):
        zombie.begin()
    assert heir.begin() == (JOB, 0, 2)
    assert ask_key(state.database, "k").asked == 0


def test_an_attempt_goes_on_at_the_last_checkpoint_and_totals_are_not_reset(
    state: BatchState, clock: FixedClock
) -> None:
    """20 of 40 bytes are kept; the step that was lost is paid for twice, the one that was kept once."""
    _, first = dispatch(state, clock)
    first.begin()
    first.step_begins(0, 20)
    clock.advance(50)
    first.checkpoint(0, "a" * 20, 20)
    clock.advance(5_000)
    state.give_up_open_attempts()
    sequence, second = dispatch(state, clock)
    assert second.begin() == (JOB, 20, 2)
    second.step_begins(20, 20)
    second.checkpoint(20, "b" * 20, 0)
    assert second.publish("k")
    with state.database.changing():
        state.end(sequence, "ok")
    dead, done = (line for _, line in state.attempts())
    assert (dead.outcome, dead.interventions, dead.tokens_in, dead.tokens_out) == ("preempted", 1, 100, 10)
    assert (dead.start_s, dead.end_s) == (1.0, 1.05), "it ended when it was last heard of"
    assert (done.outcome, done.interventions, done.tokens_in, done.tokens_out) == ("ok", 0, 100, 5)
    assert (done.attempt, done.enqueue_s, done.start_s) == (2, 6.05, 6.05), "it waited since it was queued again"


def test_a_slot_lost_before_the_work_began_cost_nothing(state: BatchState, clock: FixedClock) -> None:
    """A dispatch is an attempt, whatever came of it."""
    dispatch(state, clock)
    state.give_up_open_attempts()
    ((_, line),) = state.attempts()
    assert (line.outcome, line.tokens_in, line.tokens_out, line.end_s) == ("preempted", 0, 0, 1.0)


def test_published_and_killed_before_saying_so_is_published_once(state: BatchState, clock: FixedClock) -> None:
    """The next attempt asks under the same key and is told that it happened."""
    _, first = dispatch(state, clock)
    assert first.publish("k")
    state.give_up_open_attempts()
    _, second = dispatch(state, clock, lane="paid")
    assert not second.publish("k")
    answer = ask_key(state.database, "k")
    assert (answer.asked, answer.happened) == (2, 1)
    assert answer.effect is not None
    assert (answer.effect.lane, answer.effect.attempt) == ("free", 1)


def test_attempts_are_counted_per_lane_over_all_drivers(state: BatchState, clock: FixedClock) -> None:
    """One shared count: a driver that starts anew does not begin at 1 again."""
    for lane in ("free", "free", "paid", "free"):
        dispatch(state, clock, lane)
        state.give_up_open_attempts()
    assert [(line.lane, line.attempt) for _, line in state.attempts()] == [
        ("free", 1),
        ("free", 2),
        ("paid", 1),
        ("free", 3),
    ]


@pytest.mark.parametrize(
    ("jobs", "words"),
    [
        ([BatchJob(job_id="j", run="r", prompt_tokens=101, output_bytes=40, target_tokens=10)], "'j' was changed"),
        ([JOB, BatchJob(job_id="k", run="r")], "'k' is new"),
        ([], "'j' is missing"),
    ],
)
def test_checkpoints_do_not_survive_a_changed_job(state: BatchState, jobs: list[BatchJob], words: str) -> None:
    """A prompt that is not what it was refuses to go on, by name."""
    state.refuse_other_jobs([JOB])
    with pytest.raises(UsageError, match=words):
        state.refuse_other_jobs(jobs)
