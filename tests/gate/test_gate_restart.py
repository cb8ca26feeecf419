"""A gate that died anywhere knows on restart what it knew before, through snapshots, rotation and torn writes."""

import gzip
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preempt_exporter.errors import LedgerWriteError, UnreadableInput
from preempt_exporter.gate.answers import Answer
from preempt_exporter.gate.gate import Gate
from preempt_exporter.gate.journal import SNAPSHOT_AT_LEAST_EVERY
from preempt_exporter.gate.request import TaskRequest
from preempt_exporter.ledger.decode import decode_chunk
from preempt_exporter.ledger.records import Admit
from preempt_exporter.settings import LaneSettings, TaskSettings
from preempt_exporter.state.watched import Watched
from tests.gate.gates import KEY, REQUEST, FailingSink, Place

KEYS = [("r", "a"), ("r", "b"), (None, "a")]


def rename(place: Place) -> None:
    """logrotate's way."""
    for number in (8, 7, 6, 5, 4, 3, 2, 1):
        rotated = place.ledger.with_name(f"l.jsonl.{number}")
        if rotated.exists():
            rotated.rename(place.ledger.with_name(f"l.jsonl.{number + 1}"))
    if place.ledger.exists():
        place.ledger.rename(place.ledger.with_name("l.jsonl.1"))


def copy_and_truncate(place: Place) -> None:
    """logrotate's `copytruncate`."""
    if place.ledger.exists():
        number = sum(1 for _ in place.ledger.parent.glob("l.jsonl-*")) + 20261100
        shutil.copy(place.ledger, place.ledger.with_name(f"l.jsonl-{number}"))
        with place.ledger.open("r+b") as file:
            file.truncate()


def rename_and_pack(place: Place) -> None:
    """Rotated and compressed at once."""
    rename(place)
    for rotated in place.ledger.parent.glob("l.jsonl.1"):
        packed = rotated.with_name(rotated.name + ".gz")
        packed.write_bytes(gzip.compress(rotated.read_bytes()))
        shutil.copystat(rotated, packed)
        packed.rename(rotated.with_name(f"l.jsonl.{100 + len(list(rotated.parent.glob('*.gz')))}.gz"))
        rotated.unlink()


ROTATIONS: list[Callable[[Place], None]] = [rename, copy_and_truncate, rename_and_pack]


def known(gate: Gate) -> list[Answer | None]:
    """All that can be asked of the tasks."""
    return [gate.about(key) for key in KEYS]


OPERATIONS: dict[str, Callable[[Gate, tuple[str | None, str]], Answer]] = {
    "enqueue": lambda gate, key: gate.enqueue(key, REQUEST),
    "admit": lambda gate, key: gate.admit(key, REQUEST),
    "again": lambda gate, key: gate.admit(key, TaskRequest(new_life=True)),
    "heartbeat": lambda gate, key: gate.heartbeat(key, output_tokens=30, next_within_ms=20),
    "checkpoint": lambda gate, key: gate.checkpoint(key, checkpoint_tokens=50, input_digest="sha256:aa"),
    "preempt": lambda gate, key: gate.preempt(key),
    "complete": lambda gate, key: gate.complete(key),
    "drain": lambda gate, key: gate.drain(key),
}

steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([*OPERATIONS, "admit", "preempt", "preempt"]), st.sampled_from(KEYS)),
        st.tuples(st.just("advance"), st.integers(0, 30)),
        st.tuples(st.sampled_from(["restart", "snapshot", "reap"]), st.none()),
        st.tuples(st.just("rotate"), st.sampled_from(ROTATIONS)),
    ),
    max_size=40,
)


@given(steps)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_restart_changes_nothing_that_can_be_asked(history: list[tuple[str, object]]) -> None:
    """Whatever was done, rotated and put into snapshots: a new gate answers as the old one, with and without one."""
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder))
        gate = place.gate()
        for step, about in history:
            if step in OPERATIONS:
                OPERATIONS[step](gate, about)  # type: ignore[arg-type]
            elif step == "advance":
                place.clock.advance(about)  # type: ignore[arg-type]
            elif step == "snapshot":
                gate.write_snapshot()
            elif step == "reap":
                gate.reap()
            elif step == "rotate":
                about(place)  # type: ignore[operator]
            else:
                before = known(gate)
                gate = place.gate()
                assert known(gate) == before
        before = known(gate)
        assert known(place.gate()) == before
        place.snapshot.unlink(missing_ok=True)
        assert known(place.gate()) == before


@given(steps)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_those_who_watch_the_ledger_know_the_same(history: list[tuple[str, object]]) -> None:
    """The exporter's own fold of the gate's lines agrees on every task: state, totals, limits, moment of enqueue."""
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder))
        gate = place.gate()
        for step, about in history:
            if step in OPERATIONS:
                OPERATIONS[step](gate, about)  # type: ignore[arg-type]
            elif step == "advance":
                place.clock.advance(about)  # type: ignore[arg-type]
            elif step == "reap":
                gate.reap()
            elif step == "restart":
                gate = place.gate()
        watched = Watched(TaskSettings(), LaneSettings())
        now_ms = place.clock.now_ms()
        watched.fold(place.records(), "l", now_ms)
        for run, task in KEYS:
            ours = gate.about((run, task))
            runs = watched.figures.runs
            theirs = runs[run].lives.get(task) if run in runs else None
            assert (ours is None) == (theirs is None)
            if ours is not None and theirs is not None:
                assert (ours.state, ours.preempts, ours.restart_tokens, ours.checkpoint_tokens) == (
                    theirs.state,
                    theirs.preempts,
                    theirs.restart_tokens,
                    theirs.checkpoint_tokens,
                )
                assert (ours.queue_age_ms, ours.deadline_slack_ms) == (theirs.age_ms(now_ms), theirs.slack_ms(now_ms))


SCRIPT: list[Callable[[Gate], Answer]] = [
    lambda gate: gate.enqueue(KEY, REQUEST),
    lambda gate: gate.admit(KEY, REQUEST),
    lambda gate: gate.checkpoint(KEY, checkpoint_tokens=100),
    lambda gate: gate.preempt(KEY),
    lambda gate: gate.admit(KEY, REQUEST),
    lambda gate: gate.preempt(KEY),
    lambda gate: gate.admit(KEY, REQUEST),
]
"""A life that loses its slot twice and is then failed."""


@pytest.mark.parametrize("leaves", ["nothing", "torn", "first", "all"])
@pytest.mark.parametrize("snapshot_after", [None, 0, 2, 4, 6])
@pytest.mark.parametrize("dies_at", range(len(SCRIPT)))
def test_a_crash_at_any_write_lets_no_third_start_through(
    tmp_path: Path, dies_at: int, snapshot_after: int | None, leaves: str
) -> None:
    """The process dies in a write that left nothing, a torn line, a part or all of it; what was told stays true."""
    place = Place(tmp_path)
    gate = place.gate(sink=FailingSink(place.ledger, good=dies_at, leaves=leaves))
    told: list[Answer] = []
    for number, step in enumerate(SCRIPT):
        place.clock.advance(1)
        try:
            told.append(step(gate))
        except LedgerWriteError:
            break
        if number == snapshot_after:
            gate.write_snapshot()
    assert len(told) == dies_at
    restarted = place.gate()
    now = restarted.about(KEY)
    if told:
        assert now is not None
        assert now.preempts >= told[-1].preempts
        assert now.restart_tokens >= told[-1].restart_tokens
    for _ in range(6):
        restarted.admit(KEY, REQUEST)
        restarted.preempt(KEY)
    end = restarted.about(KEY)
    assert end is not None
    assert end.state == "drained"
    # Of admissions those count that somebody was told of; the failed write may stand as one more that nobody began.
    starts = sum(isinstance(record, Admit) for record in readable(place))
    assert starts <= 2 + (leaves in ("first", "all") and dies_at in (1, 4))


def readable(place: Place) -> list[object]:
    """The ledger's lines without the torn one."""
    return list(decode_chunk(place.ledger.read_bytes(), at_file_start=True).records)


def test_a_snapshot_that_is_torn_or_of_another_version_is_no_snapshot(tmp_path: Path) -> None:
    """The ledger alone tells everything."""
    place = Place(tmp_path)
    gate = place.gate()
    gate.admit(KEY, REQUEST)
    gate.preempt(KEY)
    gate.write_snapshot()
    whole = place.snapshot.read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"{}", whole.replace(b'"version":1', b'"version":99')):
        place.snapshot.write_bytes(content)
        about = place.gate().about(KEY)
        assert about is not None
        assert about.preempts == 1


def test_with_a_snapshot_only_newer_lines_are_needed(tmp_path: Path) -> None:
    """What the snapshot holds need not be on the ledger any more, and lines after it still count."""
    place = Place(tmp_path)
    gate = place.gate()
    gate.admit(KEY, REQUEST)
    gate.preempt(KEY)
    gate.write_snapshot()
    rename(place)
    place.clock.advance(10)
    gate.admit(KEY, REQUEST)
    gate.preempt(KEY)
    rename(place)
    place.ledger.with_name("l.jsonl.2").unlink()
    about = place.gate().about(KEY)
    assert about is not None
    assert (about.preempts, about.state) == (2, "preempted")


def test_lines_from_before_a_snapshot_move_nothing_when_its_place_is_gone(tmp_path: Path) -> None:
    """The file of the place was deleted, older forms are still there and hold a life that was drained."""
    place = Place(tmp_path)
    gate = place.gate()
    gate.admit(KEY, REQUEST)
    gate.drain(KEY)
    rename(place)
    place.clock.advance(1000)
    gate.admit(KEY, TaskRequest(deadline_ms=60_000, new_life=True))
    gate.preempt(KEY)
    place.clock.advance(1000)
    gate.write_snapshot()
    place.ledger.unlink()
    about = place.gate().about(KEY)
    assert about is not None
    assert (about.state, about.preempts) == ("preempted", 1)


def test_a_packed_form_is_opened_to_finish_a_remainder(tmp_path: Path) -> None:
    """The snapshot's place is found inside a compressed form by the bytes before it."""
    place = Place(tmp_path)
    gate = place.gate()
    gate.admit(KEY, REQUEST)
    gate.write_snapshot()
    gate.preempt(KEY)
    packed = place.ledger.with_name("l.jsonl.1.zst")
    packed.write_bytes(zstandard.compress(place.ledger.read_bytes()))
    place.ledger.unlink()
    about = place.gate().about(KEY)
    assert about is not None
    assert about.preempts == 1


def test_a_packed_form_is_read_whole_or_not_at_all(tmp_path: Path) -> None:
    """Of several frames none is left out, and one that ends early is refused: half a history decides nothing."""
    place = Place(tmp_path)
    gate = place.gate()
    gate.admit(KEY, REQUEST)
    first = place.ledger.read_bytes()
    gate.preempt(KEY)
    second = place.ledger.read_bytes()[len(first) :]
    packed = place.ledger.with_name("l.jsonl.1.zst")
    whole = zstandard.compress(first) + zstandard.compress(second)
    packed.write_bytes(whole)
    place.ledger.unlink()
    about = place.gate().about(KEY)
    assert about is not None
    assert about.preempts == 1
    packed.write_bytes(whole[:-5])
    with pytest.raises(UnreadableInput, match=r"l\.jsonl\.1\.zst"):
        place.gate()


def test_a_snapshot_is_taken_by_itself_after_enough_lines(tmp_path: Path) -> None:
    """Restarts stay short without anybody asking."""
    place = Place(tmp_path)
    gate = place.gate()
    gate.admit(KEY, REQUEST)
    for _ in range(SNAPSHOT_AT_LEAST_EVERY - 2):
        gate.heartbeat(KEY)
    assert not place.snapshot.exists()
    gate.heartbeat(KEY)
    assert place.snapshot.exists()


def test_a_snapshot_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    """The line is on the ledger and its caller is told so."""
    place = Place(tmp_path)
    place.snapshot = tmp_path / "not there" / "snapshot"
    gate = place.gate()
    gate.admit(KEY, REQUEST)
    for _ in range(SNAPSHOT_AT_LEAST_EVERY):
        assert gate.heartbeat(KEY).outcome == "recorded"
