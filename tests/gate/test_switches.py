"""The switch file: read by all, changed as a whole, told to the ledger."""

import os
import threading
from pathlib import Path

import pytest

from preempt_exporter.errors import LedgerWriteError, UnreadableInput, UsageError
from preempt_exporter.gate.switches import SwitchFile
from preempt_exporter.ledger.records import LaneDrain, LaneResume, Mode, Record, RunResume, RunStop


class Listed:
    """A sink that keeps what it was given."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def append(self, *records: Record) -> None:
        """Keep them."""
        self.records += records


class Refusing:
    """A sink on a full disk."""

    def append(self, *records: Record) -> None:
        """Write none."""
        raise LedgerWriteError("l", "no space left on device")


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A ledger that is not there yet."""
    return tmp_path / "l.jsonl"


def test_every_switch_is_seen_by_others_and_told_to_the_ledger(ledger: Path) -> None:
    """Lane, run and mode, there and back; another reader of the same file sees each change."""
    sink, ours, theirs = Listed(), SwitchFile(ledger), SwitchFile(ledger)
    assert theirs.read().lane_action("free") is None
    ours.change(LaneDrain(lane="free", action="abandon_lane", by="alice", reason="reclaimed", ts_ms=5), sink)
    switch = theirs.read().lanes["free"]
    assert (switch.action, switch.by, switch.reason, switch.ts_ms) == ("abandon_lane", "alice", "reclaimed", 5)
    ours.change(RunStop(run="r"), sink)
    ours.change(Mode(mode="reject_preempt_budget"), sink)
    now = theirs.read()
    assert (now.mode, list(now.stopped_runs), now.lane_actions()) == (
        "reject_preempt_budget",
        ["r"],
        {"free": "abandon_lane"},
    )
    theirs.change(LaneResume(lane="free"), sink)
    theirs.change(RunResume(run="r"), sink)
    theirs.change(Mode(mode="normal"), sink)
    now = ours.read()
    assert (now.mode, now.stopped_runs, now.lanes) == ("normal", {}, {})
    assert [type(record).__name__ for record in sink.records] == [
        "LaneDrain",
        "RunStop",
        "Mode",
        "LaneResume",
        "RunResume",
        "Mode",
    ]


def test_a_switch_survives_a_restart(ledger: Path) -> None:
    """It is on disk, not in a process."""
    SwitchFile(ledger).change(LaneDrain(lane="free", action="drain_and_reject"), Listed())
    assert SwitchFile(ledger).read().lane_action("free") == "drain_and_reject"


def test_what_the_ledger_refuses_is_not_switched(ledger: Path) -> None:
    """A full disk: nothing is switched, and nothing is left beside the ledger but the lock."""
    switches = SwitchFile(ledger)
    with pytest.raises(LedgerWriteError):
        switches.change(LaneDrain(lane="free", action="drain_and_reject"), Refusing())
    assert switches.read().lanes == {}
    assert [path.name for path in ledger.parent.iterdir()] == ["l.jsonl.switches.lock"]


def test_an_action_that_does_not_exist_is_refused_before_anything(ledger: Path) -> None:
    """The message lists those that do."""
    sink = Listed()
    with pytest.raises(UsageError, match="drain_and_reject"):
        SwitchFile(ledger).change(LaneDrain(lane="free", action="scale_out"), sink)
    assert sink.records == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"mode":"loose"}', b"\xff", b'{"lanes":{"free":3}}'])
def test_a_file_that_is_no_switch_file_is_an_error_and_no_open_door(ledger: Path, content: bytes) -> None:
    """Whoever asks must admit nothing."""
    switches = SwitchFile(ledger)
    switches.path.write_bytes(content)
    with pytest.raises(UnreadableInput, match=r"l\.jsonl\.switches"):
        switches.read()


def test_a_folder_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    """The folder of the ledger is gone."""
    with pytest.raises(LedgerWriteError):
        SwitchFile(tmp_path / "gone" / "l.jsonl").change(Mode(mode="normal"), Listed())


def test_changes_from_many_threads_and_files_are_all_kept(ledger: Path) -> None:
    """Each read, change and write runs alone; no lane is lost, no half file is ever read."""
    sink = Listed()
    stop = threading.Event()
    seen: list[BaseException] = []

    def watch() -> None:
        reader = SwitchFile(ledger)
        while not stop.is_set():
            try:
                reader.read()
            except BaseException as error:
                seen.append(error)
                return

    def drain(first: int) -> None:
        switches = SwitchFile(ledger)
        for number in range(first, first + 10):
            switches.change(LaneDrain(lane=f"lane-{number}", action="reject_enqueue"), sink)

    watcher = threading.Thread(target=watch)
    watcher.start()
    workers = [threading.Thread(target=drain, args=(first,)) for first in range(0, 40, 10)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    stop.set()
    watcher.join()
    assert seen == []
    assert len(SwitchFile(ledger).read().lanes) == 40
    assert len(sink.records) == 40


def test_a_change_within_the_same_moment_is_seen(ledger: Path) -> None:
    """The file is told apart by more than its time."""
    reader, writer, sink = SwitchFile(ledger), SwitchFile(ledger), Listed()
    writer.change(Mode(mode="normal"), sink)
    assert reader.read().mode == "normal"
    moment = reader.path.stat().st_mtime_ns
    writer.change(Mode(mode="reject_preempt_budget"), sink)
    os.utime(writer.path, ns=(moment, moment))
    assert reader.read().mode == "reject_preempt_budget"


def test_a_lock_that_root_made_locks_for_everyone(ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An `act` run as root leaves a lock file that the service may only read; the service switches all the same."""
    sink = Listed()
    SwitchFile(ledger).change(LaneDrain(lane="free", action="reject_enqueue"), sink)
    really_open = os.open

    def only_root_may_write_the_lock(path: str, flags: int, mode: int = 0o777) -> int:
        if str(path).endswith(".lock") and flags & os.O_RDWR:
            raise PermissionError(13, "Permission denied")
        return really_open(path, flags, mode)

    monkeypatch.setattr(os, "open", only_root_may_write_the_lock)
    SwitchFile(ledger).change(LaneResume(lane="free"), sink)
    assert SwitchFile(ledger).read().lanes == {}
