"""Runs: how old they are, who of them holds a label value, and what many of them cost."""

import json
import time
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from preempt_exporter.ledger.decode import decode_chunk
from preempt_exporter.ledger.records import Record
from preempt_exporter.state import figures as state_figures
from preempt_exporter.state.expiry import MAX_RUNS_KEPT
from preempt_exporter.state.figures import Figures
from preempt_exporter.state.watched import Watched
from tests.state.folding import T0_MS, Line, attempt, event, fold, watched

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
HOUSE = 3


@pytest.mark.parametrize("sign_of_life", ["heartbeat", "checkpoint"])
def test_a_run_is_as_old_as_its_oldest_line_also_where_the_second_is_older(sign_of_life: str) -> None:
    """Clocks of several workers: the completions of half an hour are no rate of a minute."""
    opened = {"event": "run_open", "run": "r", "ts_ms": T0_MS + 30 * 60_000, "deadline_ms": HOUR_MS, "tasks": 3}
    lines = [
        event("admit", 29 * 60_000, run="r"),
        event(sign_of_life, 0, run="r"),
        event("complete", 30 * 60_000, run="r"),
        opened,
    ]
    run = fold(watched(), *lines, now_ms=30 * 60_000).figures.runs["r"]
    assert run.first_ms == T0_MS
    assert run.projected_slack_s(T0_MS + 30 * 60_000) == 3600 - 2 * 1800


class LookedAtAll(Figures):
    """Asks every run whether it holds a label value."""

    def _has_room_for_a_run(self, now_ms: int) -> bool:
        holders = [run for run in self.runs.values() if run.labelled and not run.has_left(now_ms)]
        return len(holders) < state_figures.MAX_LIVE_RUNS


@pytest.fixture
def small_house() -> Iterator[None]:
    """Three runs hold label values."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_figures, "MAX_LIVE_RUNS", HOUSE)
        patch.setattr("preempt_exporter.state.expiry.MAX_LIVE_RUNS", HOUSE)
        yield


names = st.sampled_from([f"r{number}" for number in range(7)])
waits_ms = st.sampled_from([0, 0, 0, 1, HOUR_MS, 23 * HOUR_MS, DAY_MS + 1])
kinds = st.sampled_from(["heartbeat", "heartbeat", "run_open", "run_close", "attempt", "expire", "restart"])
lateness_ms = st.sampled_from([0, 0, 0, HOUR_MS, 30 * HOUR_MS])


def line_of(kind: str, run: str, moment_ms: int) -> Line:
    """A line of that run; each a task or job of its own."""
    if kind == "attempt":
        return attempt(job_id=str(moment_ms), lane="a", run=run, ts_ms=T0_MS + moment_ms)
    return {**event(kind, moment_ms), "run": run}


def records_of(*lines: Line) -> list[Record]:
    """The lines decoded."""
    return decode_chunk("".join(json.dumps(line) + "\n" for line in lines).encode()).records


COMES_BACK_WITHIN_A_BATCH = [
    (0, [("heartbeat", "r2", 0)]),
    (DAY_MS + 1, [("heartbeat", "r0", 0), ("heartbeat", "r1", 0)]),
    (
        0,
        [
            ("heartbeat", "r2", 30 * HOUR_MS),
            ("attempt", "r3", 0),
            ("heartbeat", "r2", 0),
            ("run_close", "r0", 30 * HOUR_MS),
            ("attempt", "r4", 0),
        ],
    ),
]


@example(COMES_BACK_WITHIN_A_BATCH)
@given(st.lists(st.tuples(waits_ms, st.lists(st.tuples(kinds, names, lateness_ms), max_size=6)), max_size=25))
@settings(max_examples=400)
@pytest.mark.usefixtures("small_house")
def test_labels_go_to_the_runs_that_a_look_at_all_of_them_would_choose(batches) -> None:
    """Runs leave, come back, are closed and opened again, forgotten, and loaded from a snapshot."""
    states = [Watched(watched().tasks, watched().lanes, figures) for figures in (Figures(), LookedAtAll())]
    now_ms = 0
    for wait_ms, steps in batches:
        now_ms += wait_ms
        lines = [line_of(kind, run, now_ms - late) for kind, run, late in steps if kind not in ("expire", "restart")]
        said = {kind for kind, _, _ in steps}
        for number, state in enumerate(states):
            state.fold(records_of(*lines), "a", T0_MS + now_ms)
            if "expire" in said:
                state.expire(T0_MS + now_ms)
            if "restart" in said:
                figures = msgspec.msgpack.decode(msgspec.msgpack.encode(state.figures), type=type(state.figures))
                states[number] = Watched(state.tasks, state.lanes, figures)
        ours, theirs = ({name: run.labelled for name, run in state.figures.runs.items()} for state in states)
        assert ours == theirs


def least_seconds_of_folding(state: Watched, batches: list[list[Record]], now_ms: int) -> float:
    """Processor seconds of the quickest batch: what the garbage collector takes belongs to nobody."""
    taken_s = []
    for records in batches:
        begun_s = time.thread_time()
        state.fold(records, "a", now_ms)
        taken_s.append(time.thread_time() - begun_s)
    return min(taken_s)


def test_a_new_run_costs_the_same_however_many_have_left() -> None:
    """A ledger of years, a run per job: each run of it was over long before it is read."""

    def seconds(count: int) -> float:
        state = watched()
        batches = [records_of(*[line_of("run_open", f"{who}{i}", 0) for i in range(100)]) for who in "abcd"]
        state.fold(records_of(*[line_of("run_open", f"r{i}", 0) for i in range(count)]), "a", T0_MS + 400 * DAY_MS)
        return least_seconds_of_folding(state, batches, T0_MS + 400 * DAY_MS)

    few, many = seconds(100), seconds(9_000)
    assert many < 4 * few + 0.005


def test_a_line_costs_the_same_however_many_runs_hold_lives() -> None:
    """Past the number of runs that are kept without lives, not every line looks for some to forget."""

    def seconds(count: int) -> float:
        state = fold(watched(), *[event("admit", 0, run=f"r{i}") for i in range(count)], now_ms=0)
        return least_seconds_of_folding(
            state, [records_of(event("heartbeat", 0, run=f"r{i}")) for i in range(5)], T0_MS
        )

    few, many = seconds(MAX_RUNS_KEPT // 10), seconds(2 * MAX_RUNS_KEPT)
    assert many < 4 * few + 0.0001


def test_runs_without_lives_are_not_kept_in_any_number() -> None:
    """Runs that are live by their last line, known by their openings only."""
    state = watched()
    for first in range(0, 2 * MAX_RUNS_KEPT, 1_000):
        fold(state, *[line_of("run_open", f"r{first + i}", 0) for i in range(1_000)], now_ms=0)
    assert len(state.figures.runs) <= MAX_RUNS_KEPT * 9 // 8
    state.expire(T0_MS)
    assert len(state.figures.runs) == MAX_RUNS_KEPT
