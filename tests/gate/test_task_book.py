"""How lines move lives in the gate's book, beyond what the gate itself would write."""

from preempt_exporter.gate.lane_rates import LaneRates
from preempt_exporter.gate.life import FormKey, Life
from preempt_exporter.gate.task_book import TaskBook, owner_of
from preempt_exporter.ledger.records import (
    Admit,
    Checkpoint,
    Complete,
    Drain,
    Enqueue,
    Heartbeat,
    Preempt,
    Record,
    Reject,
)


def book_of(*records: Record, **more: object) -> TaskBook:
    """A book that was told these lines."""
    book = TaskBook(lane_default="default", rates=LaneRates(), **more)  # type: ignore[arg-type]
    for record in records:
        book.apply(record)
    return book


def life_of(*records: Record) -> Life:
    """The life of the one task `t`."""
    life = book_of(*records).get((None, "t"))
    assert life is not None
    return life


def admit(ts_ms: int, **more: object) -> Admit:
    """An admission at once."""
    fields: dict[str, object] = {"queue_age_ms": 0, "deadline_slack_ms": 1000, "preempts": 0}
    return Admit(task_id="t", ts_ms=ts_ms, **(fields | more))  # type: ignore[arg-type]


def test_age_and_slack_of_an_admission_give_moment_and_deadline() -> None:
    """What a ledger of a harness says: no enqueue, an age of 100 and a slack of 900."""
    life = life_of(admit(5000, queue_age_ms=100, deadline_slack_ms=900))
    assert (life.enqueued_ms, life.deadline_ms, life.state, life.lane) == (4900, 1000, "running", "default")


def test_totals_take_the_maximum() -> None:
    """Lines that lag behind lower nothing."""
    life = life_of(
        admit(1),
        Preempt(task_id="t", ts_ms=2, wasted_tokens=9, restart_tokens=90, preempts=3),
        Preempt(task_id="t", ts_ms=3, wasted_tokens=9, restart_tokens=9, preempts=1),
        admit(4, preempts=1),
    )
    assert (life.restart_tokens, life.preempts) == (90, 3)
    done = life_of(
        Preempt(task_id="t", ts_ms=2, wasted_tokens=9, restart_tokens=90, preempts=3),
        Complete(task_id="t", ts_ms=3, output_tokens=5, restart_tokens=9),
    )
    assert (done.restart_tokens, done.state) == (90, "complete")


def test_a_line_from_before_the_end_begins_no_new_life_in_another_rotated_form() -> None:
    """There a copied admission is older than the drain that it comes after; within one file the order decides."""
    drained = Drain(task_id="t", ts_ms=10, action="fail_task_not_replay")

    def state(end_in: FormKey | None, line_in: FormKey | None, ts_ms: int) -> str:
        book = book_of(admit(1))
        book.apply(drained, end_in)
        book.apply(admit(ts_ms), line_in)
        life = book.get((None, "t"))
        assert life is not None
        return life.state

    assert state((1, 1), (1, 2), 1) == "drained"
    assert state((1, 1), (1, 2), 10) == "running"
    assert state((1, 1), (1, 1), 1) == "running"
    assert state((1, 1), None, 1) == "running"
    assert state(None, None, 1) == "running"


def test_after_a_rejection_the_same_enqueue_goes_on_and_a_later_one_begins_anew() -> None:
    """The line's moment of enqueue decides."""
    lost = Preempt(task_id="t", ts_ms=2, wasted_tokens=9, restart_tokens=9, preempts=1)
    rejected = Reject(task_id="t", ts_ms=10, reason="drain_mode")
    assert life_of(admit(1), lost, rejected, admit(12, enqueued_ms=10)).preempts == 1
    assert life_of(admit(1), lost, rejected, admit(12, enqueued_ms=11)).preempts == 0
    assert life_of(admit(1), lost, rejected, Enqueue(task_id="t", ts_ms=12)).preempts == 0


def test_nothing_undoes_an_end_but_a_rejection_can_still_become_final() -> None:
    """Heartbeats after an end move nothing; drain and complete after reject do."""
    rejected = Reject(task_id="t", ts_ms=2, reason="queue_age")
    drained = Drain(task_id="t", ts_ms=3, action="fail_task_not_replay")
    done = Complete(task_id="t", ts_ms=4, output_tokens=1, restart_tokens=0)
    assert life_of(rejected, Heartbeat(task_id="t", ts_ms=5)).state == "rejected"
    assert life_of(rejected, drained).state == "drained"
    assert life_of(rejected, done).state == "complete"
    assert life_of(drained, done, Heartbeat(task_id="t", ts_ms=5)).state == "drained"


def test_progress_is_never_behind_the_checkpoint() -> None:
    """A late heartbeat with less output does not raise the waste of the next loss."""
    life = life_of(
        admit(1),
        Checkpoint(task_id="t", ts_ms=2, checkpoint_tokens=100),
        Heartbeat(task_id="t", ts_ms=3, output_tokens=7),
    )
    assert life.output_tokens == 100


def test_output_that_was_reported_outlives_a_checkpoint_behind_it() -> None:
    """Writing a checkpoint takes time, and what came meanwhile is lost with the slot; one step back is a restart."""

    def checkpoint(ms: int, tokens: int) -> Checkpoint:
        return Checkpoint(task_id="t", ts_ms=ms, checkpoint_tokens=tokens)

    ahead = (admit(1), Heartbeat(task_id="t", ts_ms=2, output_tokens=140), checkpoint(3, 100))
    assert life_of(*ahead).output_tokens == 140
    assert life_of(*ahead, checkpoint(4, 200)).output_tokens == 200
    assert life_of(*ahead, checkpoint(4, 50)).output_tokens == 50
    told = Checkpoint(task_id="t", ts_ms=4, checkpoint_tokens=120, output_tokens=130)
    assert life_of(*ahead, told).output_tokens == 130


def test_the_oldest_ends_make_room() -> None:
    """Two are remembered, and a live task is never forgotten."""
    book = book_of(
        Enqueue(task_id="live", ts_ms=1),
        *(Complete(task_id=str(n), ts_ms=n, output_tokens=0, restart_tokens=0) for n in range(5)),
        max_ended_lives=2,
    )
    assert [life.task_id for life in book] == ["3", "4", "live"]


def test_only_the_tasks_to_keep_are_kept() -> None:
    """A process about one task remembers one task."""
    book = book_of(admit(1), Enqueue(task_id="x", ts_ms=1), keep=lambda key: key == (None, "t"))
    assert len(book) == 1


def test_the_owner_stands_before_the_first_dash() -> None:
    """Ids of other writers name nobody."""
    assert [owner_of(line_id) for line_id in ("gate-a1-0", "run-b-7", "harness", "", None)] == [
        "gate",
        "run",
        "",
        "",
        "",
    ]
