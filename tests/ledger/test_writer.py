"""The ledger as workers write it, by real processes that are killed and raced."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from preempt_exporter.errors import LedgerWriteError, UsageError
from preempt_exporter.ledger.decode import decode_chunk
from preempt_exporter.ledger.records import MAX_LINE_BYTES, Attempt, Drain, Record, Reject
from preempt_exporter.ledger.sink import LedgerSink
from preempt_exporter.ledger.writer import LedgerWriter, encode_line
from tests.ledger.small_disk import SmallDisk

DRAIN = Drain(task_id="t-1", ts_ms=5, action="fail_task_not_replay")
REJECT = Reject(task_id="t-1", ts_ms=5, reason="queue_age")

APPENDING = """
import sys
from preempt_exporter.ledger.records import Drain
from preempt_exporter.ledger.writer import LedgerWriter

path, name, count, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
writer = LedgerWriter(path, fsync=False)
print("ready", flush=True)
for number in range(count):
    writer.append(Drain(task_id=name, ts_ms=number, action="x" * size))
"""


def start_writer(path: Path, name: str, count: int, size: int = 10) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", APPENDING, str(path), name, str(count), str(size)], stdout=subprocess.PIPE, text=True
    )


def records_in(*paths: Path) -> list[Record]:
    """All records of some files, none of which may have a bad line."""
    records: list[Record] = []
    for path in paths:
        decoded = decode_chunk(path.read_bytes())
        assert decoded.bad == []
        records += decoded.records
    return records


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "waited 20 s in vain"
        os.sched_yield()


def test_records_become_lines_in_order(tmp_path: Path) -> None:
    """What was appended is read back, in order, each with an id, and without the fields that were not given."""
    path = tmp_path / "l.jsonl"
    with LedgerWriter(path) as writer:
        writer.append(REJECT, DRAIN)
        writer.append(
            Attempt(
                job_id="b-1",
                lane="free",
                attempt=1,
                enqueue_s=0,
                start_s=1,
                end_s=2.5,
                outcome="ok",
                tokens_in=None,
                tokens_out=3,
                interventions=0,
            )
        )
    records = records_in(path)
    assert [type(record) for record in records] == [Reject, Drain, Attempt]
    assert all(record.id for record in records)
    assert set(json.loads(path.read_bytes().splitlines()[1])) == {"event", "id", "ts_ms", "task_id", "action"}


def test_an_append_is_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All records of one append reach the disk in one write."""
    writes: list[bytes] = []
    write = os.write

    def write_noted(descriptor: int, data: bytes) -> int:
        writes.append(data)
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", write_noted)
    LedgerWriter(tmp_path / "l.jsonl").append(REJECT, DRAIN)
    assert [lines.count(b"\n") for lines in writes] == [2]


def test_an_append_of_nothing_does_nothing(tmp_path: Path) -> None:
    """No records, no file."""
    LedgerWriter(tmp_path / "l.jsonl").append()
    assert list(tmp_path.iterdir()) == []


def test_a_given_id_is_kept(tmp_path: Path) -> None:
    """`with_id` names a record once, so that a second try is a repeat and not a second line."""
    path = tmp_path / "l.jsonl"
    writer = LedgerWriter(path, new_name=lambda: "w")
    named = writer.with_id(DRAIN)
    writer.append(named)
    writer.append(named)
    writer.append(DRAIN)
    assert [record.id for record in records_in(path)] == ["w-0", "w-0", "w-1"]


def test_a_forked_child_gives_other_ids(tmp_path: Path) -> None:
    """Parent and child, which begin with the same state, never give one id twice."""
    path = tmp_path / "l.jsonl"
    writer = LedgerWriter(path)
    writer.append(DRAIN)
    child = os.fork()
    if child == 0:
        try:
            for _ in range(20):
                writer.append(DRAIN)
        finally:
            os._exit(0)
    for _ in range(20):
        writer.append(DRAIN)
    assert os.waitpid(child, 0)[1] == 0
    assert len({record.id for record in records_in(path)}) == 41


def test_threads_may_share_a_writer(tmp_path: Path) -> None:
    """Eight threads on one writer lose nothing, tear nothing and share no id."""
    path = tmp_path / "l.jsonl"
    sink: LedgerSink = LedgerWriter(path, fsync=False)
    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(sink.append, REJECT, DRAIN) for _ in range(800)]:
            done.result()
    records = records_in(path)
    assert [type(record) for record in records] == [Reject, Drain] * 800
    assert len({record.id for record in records}) == 1600


def test_what_the_disk_does_not_confirm_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An append whose fsync fails was not acknowledged, although its line can be seen."""

    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    writer = LedgerWriter(tmp_path / "l.jsonl")
    writer.append(DRAIN)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(LedgerWriteError, match="Input/output error"):
        writer.append(DRAIN)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (Drain(task_id="x" * 257, ts_ms=5, action="a"), "id_too_long"),
        (Drain(task_id="é" * 129, ts_ms=5, action="a"), "id_too_long"),
        (Drain(task_id="t", ts_ms=-1, action="a"), "out_of_range"),
        (Drain(task_id="", ts_ms=5, action="a"), "missing_field"),
        (Drain(task_id="t", ts_ms=5, action="x" * MAX_LINE_BYTES), "too_long"),
        (Drain(task_id="t", ts_ms=True, action="a"), "wrong_type"),
        (Drain(task_id="t", ts_ms=5, action="\ud800"), "surrogates"),
        (Drain(task_id="t", ts_ms=float("nan"), action="a"), "wrong_type"),  # type: ignore[arg-type]
    ],
)
def test_a_record_that_no_reader_would_take_is_refused_before_anything_is_written(
    tmp_path: Path, record: Record, reason: str
) -> None:
    """A bad record among good ones is a usage error that says why, and nothing of the append is written."""
    with pytest.raises(UsageError, match=reason):
        LedgerWriter(tmp_path / "l.jsonl").append(DRAIN, record)
    assert list(tmp_path.iterdir()) == []


def test_a_line_is_one_line_whatever_its_strings_hold() -> None:
    """Newlines, quotes and NULs inside strings are escaped."""
    line = encode_line(Drain(task_id='a\n"\0}\n{\u2028', ts_ms=5, action="a"))
    assert line.count(b"\n") == 1
    assert decode_chunk(line).records[0] == Drain(task_id='a\n"\0}\n{\u2028', ts_ms=5, action="a")


def test_eight_processes_and_a_rotator_lose_nothing_and_tear_nothing(tmp_path: Path) -> None:
    """4000 lines of 8 processes, rotated all the while, are all there once, whole, and each process's in order."""
    path = tmp_path / "l.jsonl"
    writers = [start_writer(path, f"w{number}", 500, size=300) for number in range(8)]
    rotations = 0
    while any(writer.poll() is None for writer in writers):
        if path.exists() and path.stat().st_size > 50_000:
            rotations += 1
            path.rename(tmp_path / f"l.jsonl.{rotations:04d}")
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0
    records = records_in(*sorted(tmp_path.glob("l.jsonl.*")), *([path] if path.exists() else []))
    assert rotations > 3
    assert len(records) == len({record.id for record in records}) == 4000
    for number in range(8):
        mine = sorted(r.ts_ms for r in records if isinstance(r, Drain) and r.task_id == f"w{number}")
        assert mine == list(range(500))


def test_writers_killed_in_the_middle_cost_at_most_their_own_last_line(tmp_path: Path) -> None:
    """Whatever `kill -9` interrupts, the lines of the others and all earlier lines are whole."""
    path = tmp_path / "l.jsonl"
    for round_number in range(10):
        killed = start_writer(path, "killed", 10**9, size=200_000)
        assert killed.stdout is not None
        killed.stdout.readline()
        size = path.stat().st_size if path.exists() else 0
        wait_until(lambda size=size: path.exists() and path.stat().st_size > size + 1_000_000)  # type: ignore[misc]
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
        LedgerWriter(path, fsync=False).append(Drain(task_id="survivor", ts_ms=round_number, action="a"))
    decoded = decode_chunk(path.read_bytes())
    survivors = [r.ts_ms for r in decoded.records if isinstance(r, Drain) and r.task_id == "survivor"]
    assert survivors == list(range(10))
    assert len(decoded.bad) <= 10
    assert decoded.lines > 10 + len(decoded.bad)


def test_a_full_disk_is_told_and_later_lines_are_whole(small_disk: SmallDisk) -> None:
    """A full disk raises LedgerWriteError for what it did not take; every acknowledged record is there, once."""
    path = small_disk.folder / "l.jsonl"
    writer = LedgerWriter(path)
    acknowledged = 0
    with pytest.raises(LedgerWriteError, match=r"l\.jsonl: line not written"), small_disk.limited():
        while acknowledged < 10_000:
            writer.append(Drain(task_id="t", ts_ms=acknowledged, action="x" * 900))
            acknowledged += 1
    small_disk.make_room()
    writer.append(Drain(task_id="after", ts_ms=0, action="a"))
    writer.close()
    decoded = decode_chunk(path.read_bytes())
    assert len(decoded.records) == acknowledged + 1
    assert len(decoded.bad) <= 1
    assert isinstance(decoded.records[-1], Drain)
    assert decoded.records[-1].task_id == "after"


@pytest.mark.parametrize("obstacle", ["a folder", "no folder", "a file as folder"])
def test_a_path_that_cannot_be_written_is_told(tmp_path: Path, obstacle: str) -> None:
    """What the operating system refuses is one error with path and reason."""
    (tmp_path / "file").write_bytes(b"")
    path = {"a folder": tmp_path, "no folder": tmp_path / "no" / "l", "a file as folder": tmp_path / "file" / "l"}
    with pytest.raises(LedgerWriteError) as caught:
        LedgerWriter(path[obstacle]).append(DRAIN)
    assert caught.value.path == str(path[obstacle])
    what, _, next_step = caught.value.why.partition("; ")
    assert what in ("Is a directory", "No such file or directory", "Not a directory")
    assert next_step


def test_a_read_only_disk_is_told(small_disk: SmallDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger on a file system that went read-only raises; with write access back, writing goes on."""
    writer = LedgerWriter(small_disk.folder / "l.jsonl")
    writer.append(DRAIN)
    writer.close()
    with small_disk.read_only(monkeypatch), pytest.raises(LedgerWriteError, match="Read-only file system"):
        writer.append(DRAIN)
    writer.append(DRAIN)
    writer.close()
    assert len(records_in(small_disk.folder / "l.jsonl")) == 2


def test_a_worker_that_writes_imports_nothing_of_the_exporter() -> None:
    """Importing the writer brings neither prometheus_client nor watchdog, nor any room that watches."""
    code = "import sys; import preempt_exporter.ledger.writer; print(*sorted(sys.modules))"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "msgspec" in modules
    outside = {"prometheus_client", "watchdog", "yaml", "rich", "starlette"} & set(modules)
    assert not outside
    rooms = {name.split(".")[1] for name in modules if name.startswith("preempt_exporter.")}
    assert rooms == {"errors", "ledger"}
