"""What is bounded: lives kept, lanes, runs, remembered lines."""

import json
import timeit

import pytest

from preempt_exporter.ledger.decode import decode_chunk
from preempt_exporter.settings import LaneSettings
from preempt_exporter.state import expiry, recent_ids
from preempt_exporter.state.expiry import ENDS_SLACK
from preempt_exporter.state.lane import MAX_HOSTS
from tests.state.folding import T0_MS, attempt, event, fold, life, look, watched

DAY_MS = 24 * 60 * 60 * 1000


def test_ended_lives_make_room_first_and_silently() -> None:
    """The limit holds; a completed life that is pushed out was not evicted before its time."""
    state = watched(limit=10)
    fold(state, *[event("admit", i, f"live{i}") for i in range(5)])
    fold(state, *[event("complete", 10 + i, f"done{i}") for i in range(50)])
    assert (state.figures.lives_kept, state.figures.evicted) == (10, 0)
    assert {f"live{i}" for i in range(5)} <= set(state.figures.runs[None].lives)


def test_live_lives_with_the_most_slack_go_next_and_are_counted() -> None:
    """Least slack stays; each eviction counts."""
    state = watched(limit=10)
    fold(state, *[event("enqueue", 0, f"t{i:02d}", deadline_ms=1000 * (i + 1)) for i in range(15)], now_ms=500)
    assert sorted(state.figures.runs[None].lives) == [f"t{i:02d}" for i in range(10)]
    assert (state.figures.lives_kept, state.figures.evicted) == (10, 5)


def test_a_late_heartbeat_of_a_finished_task_begins_no_life() -> None:
    """Finished tasks are remembered as long as there is room."""
    state = fold(watched(), event("admit"), event("complete", 5))
    state.expire(T0_MS + 900_000_000)
    fold(state, event("heartbeat", 900_000_001))
    assert (life(state).state, look(state, 900_000_002).live) == ("complete", [])


def test_lanes_beyond_the_hundredth_share_a_label() -> None:
    """Configured lanes come first; nothing is lost in sum."""
    state = watched(lanes=LaneSettings(names=("zz",)))
    fold(state, *[event("admit", 0, f"t{i}", lane=f"l{i}") for i in range(300)])
    lanes = state.figures.lanes
    assert len(lanes) == 101 and "zz" in lanes
    assert sum(lane.events["admit"] for lane in lanes.values()) == 300
    assert look(state, 1).lanes["other"].states["running"] == 300 - 99


def test_lanes_get_their_labels_in_the_order_of_the_lines() -> None:
    """Also where a heartbeat moves its task: a lane named later in the same batch comes after it."""
    state = fold(watched(), *[event("admit", 0, f"t{i}", lane=f"l{i}") for i in range(99)])
    fold(state, event("heartbeat", 1, "t0", lane="moved"), event("admit", 2, "late", lane="late"))
    assert "late" not in state.figures.lanes
    assert state.figures.lanes["moved"].events["heartbeat"] == 1
    assert state.figures.lanes["other"].events["admit"] == 1


def test_runs_beyond_the_hundredth_share_counters_that_never_fall() -> None:
    """Also when one of them leaves."""
    state = watched()
    lines = [
        {
            "event": "commit",
            "run": f"r{i}",
            "shard": "0",
            "epoch": 0,
            "ts_ms": T0_MS,
            "tokens": 1,
            "artifact_digest": "d",
        }
        for i in range(130)
    ]
    fold(state, *lines, now_ms=0)
    assert state.figures.other_runs.committed_tokens == 30
    state.expire(T0_MS + 90_000_000)
    assert state.figures.other_runs.committed_tokens == 30
    assert len(state.figures.runs) == 0


def test_an_id_is_a_repeat_within_the_last_hundred_thousand_only() -> None:
    """Exactly: the oldest remembered id repeats, the one before it does not."""
    state = watched()
    fold(state, *[event("heartbeat", id=f"x{i}") for i in range(recent_ids.REMEMBERED_IDS)])
    fold(state, event("heartbeat", id="x0"))
    assert state.figures.counts.duplicates == 1
    fold(state, event("heartbeat", id="fresh"))
    fold(state, event("heartbeat", id="x0"))
    assert state.figures.counts.duplicates == 1
    fold(state, event("heartbeat", id="x2"))
    assert state.figures.counts.duplicates == 2


def test_a_run_that_comes_back_to_a_full_house_takes_the_youngest_ones_label() -> None:
    """There are never more than a hundred for long."""
    day_ms = 86_400_000
    state = fold(watched(), event("admit", 0, run="r0"), now_ms=0)
    fold(state, *[event("admit", 2 * day_ms, run=f"r{i}") for i in range(1, 101)], now_ms=2 * day_ms)
    fold(state, event("heartbeat", 2 * day_ms + 1, run="r0"), now_ms=2 * day_ms + 1)
    state.expire(T0_MS + 2 * day_ms + 2)
    assert [run.name for run in state.figures.runs.values() if not run.labelled] == ["r100"]


def test_an_equal_attempt_line_is_a_repeat_and_another_of_its_name_a_conflict() -> None:
    """Within a ledger only."""
    state = fold(watched(), attempt(), attempt(), attempt(outcome="oom"), ledger="a")
    assert (state.figures.counts.duplicates, state.figures.counts.conflicting) == (1, 1)
    fold(state, attempt(), ledger="b")
    assert (state.figures.counts.duplicates, state.figures.counts.conflicting) == (1, 1)
    assert state.figures.lanes["free"].attempts == {"ok": 2, "preempted": 0, "failed": 1}


def test_a_repeat_changes_nothing_but_its_counter() -> None:
    """Not even a total that would be higher."""
    state = fold(watched(), event("preempt", 1, id="p1"))
    fold(state, event("preempt", 2, id="p1", restart_tokens=9999, wasted_tokens=9999))
    assert (life(state).restart_tokens, state.figures.lanes["default"].restart_tokens) == (10, 10)
    assert state.figures.counts.duplicates == 1


def test_ids_that_come_back_leave_nothing_behind() -> None:
    """The memory of ends is bounded by the lives that are kept, however many lives their tasks had before."""
    state = watched(limit=10)
    for round_ms in range(0, 200, 2):
        fold(state, *[event("enqueue", round_ms, f"t{i % 10}") for i in range(300)], now_ms=round_ms)
        fold(state, *[event(kind, round_ms + 1, f"t{i}") for i in range(10) for kind in ("reject", "drain")])
        for _ in range(15):
            fold(state, *[event("enqueue", round_ms + 1, f"t{i}") for i in range(10)])
            fold(state, *[event("complete", round_ms + 1, f"t{i}") for i in range(10)])
    assert len(state.figures.ends) <= 2 * state.figures.lives_kept + ENDS_SLACK
    fold(state, *[event("enqueue", 1000, f"new{i}") for i in range(4)])
    assert {f"new{i}" for i in range(4)} <= set(state.figures.runs[None].lives)
    assert (state.figures.lives_kept, state.figures.evicted) == (10, 0)


def test_the_host_told_of_least_recently_makes_room() -> None:
    """Every slot lost may be a new machine: the newest thousand are known, and one that loses again stays."""
    lost = [event("preempt", i, host=f"h{i}") for i in range(MAX_HOSTS)]
    state = fold(watched(), *lost, event("preempt", 5000, host="h0"), event("preempt", 6000, host="one more"))
    hosts = state.figures.lanes["default"].hosts
    assert len(hosts) == MAX_HOSTS
    assert "h1" not in hosts and {"h0", "h2", "one more"} <= hosts.keys()


@pytest.mark.parametrize("word", ["run", "host"])
def test_a_new_name_costs_the_same_however_many_there_were(word: str) -> None:
    """A run per task, a host per preemption: the ten-thousandth is no dearer than the hundredth."""

    def seconds(count: int) -> float:
        state = watched()
        fold(state, *[event("preempt", 0, **{word: f"before{i}"}) for i in range(count)])
        records = decode_chunk(
            b"".join(json.dumps(event("preempt", 0, **{word: f"n{i}"})).encode() + b"\n" for i in range(500))
        ).records
        return min(timeit.repeat(lambda: state.fold(records, "a", T0_MS), number=1, repeat=1))

    few, many = seconds(100), seconds(9_000)
    assert many < 4 * few + 0.05


@pytest.fixture
def one_gone_ledger_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "GONE_LEDGERS_KEPT", 1)


@pytest.mark.usefixtures("one_gone_ledger_kept")
def test_ledgers_that_are_long_gone_are_forgotten_but_for_the_last() -> None:
    """A day after, not before; one that is followed again begins anew, the others go on as if nothing had been."""
    state = watched()
    for ledger in "abcd":
        fold(state, event("admit", 0, ledger, id=f"{ledger}-1"), ledger=ledger)
    state.forget_gone_ledgers({"c", "d"}, T0_MS)
    state.forget_gone_ledgers({"b", "d"}, T0_MS + 1)
    state.forget_gone_ledgers({"b", "d"}, T0_MS + DAY_MS - 1)
    assert [memory.name for memory in state.figures.ledgers] == ["a", "b", "c", "d"]
    state.forget_gone_ledgers({"b", "d"}, T0_MS + DAY_MS)
    assert [memory.name for memory in state.figures.ledgers] == ["b", "c", "d"]
    state.forget_gone_ledgers({"d"}, T0_MS + DAY_MS + 1)
    state.forget_gone_ledgers({"d"}, T0_MS + 3 * DAY_MS)
    assert [memory.name for memory in state.figures.ledgers] == ["b", "d"]
    for ledger in "abcd":
        fold(state, event("heartbeat", 5, ledger, id=f"{ledger}-1", output_tokens=9), ledger=ledger)
    assert state.figures.counts.duplicates == 2
    assert {task: life(state, task).output_tokens for task in "abcd"} == {"a": 9, "b": 0, "c": 9, "d": 0}


@pytest.mark.usefixtures("one_gone_ledger_kept")
def test_a_life_whose_ledger_is_forgotten_goes_on_in_another() -> None:
    """By the clock alone: an older line changes the maxima only, whatever place the other ledger has in the list."""
    state = watched()
    fold(state, event("admit", 10), ledger="gone")
    fold(state, event("admit", 0, "other"), ledger="there")
    for at_ms in (0, 2 * DAY_MS):
        state.forget_gone_ledgers({"there"}, T0_MS + at_ms)
    assert len(state.figures.ledgers) == 2, "one that is gone is kept"
    for at_ms in (2 * DAY_MS + 1, 4 * DAY_MS):
        fold(state, event("heartbeat", 20, "late"), ledger="late")
        state.forget_gone_ledgers({"there"}, T0_MS + at_ms)
    assert [memory.name for memory in state.figures.ledgers] == ["there", "late"]
    fold(state, event("heartbeat", 5, output_tokens=3), ledger="there")
    assert life(state).output_tokens == 0
    fold(state, event("heartbeat", 15, output_tokens=4), ledger="there")
    assert life(state).output_tokens == 4
