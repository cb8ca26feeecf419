"""Appending to a file that others rotate, delete, tear and fill up."""

import fcntl
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from preempt_exporter.ledger import append_file
from preempt_exporter.ledger.append_file import LOCK_WAIT_AGAIN_S, AppendFile, lock
from tests.ledger.small_disk import SmallDisk


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "l.jsonl"


@pytest.fixture
def file(path: Path) -> Iterator[AppendFile]:
    file = AppendFile(path, fsync=False, lock_wait_s=0.05)
    yield file
    file.close()


def test_a_missing_file_is_created_and_appended_to(file: AppendFile, path: Path) -> None:
    """The first append makes the file, later ones add to it."""
    file.append(b"1\n")
    file.append(b"2\n")
    assert path.read_bytes() == b"1\n2\n"


@pytest.mark.parametrize("torn", [b'{"event":"dr', b"whole but unended", b"\0\0"])
def test_a_torn_line_costs_only_itself(file: AppendFile, path: Path, torn: bytes) -> None:
    """An append after a file that does not end in a newline begins with one."""
    path.write_bytes(b"0\n" + torn)
    file.append(b"1\n")
    file.append(b"2\n")
    assert path.read_bytes() == b"0\n" + torn + b"\n1\n2\n"


def test_a_line_torn_between_two_appends_is_closed(file: AppendFile, path: Path) -> None:
    """The end is looked at before every append, not only when the file is opened."""
    file.append(b"1\n")
    with path.open("ab") as other:
        other.write(b"torn")
    file.append(b"2\n")
    assert path.read_bytes() == b"1\ntorn\n2\n"


def test_a_renamed_file_is_let_go(file: AppendFile, path: Path) -> None:
    """After a rotation by rename the next line goes to a new file under the path."""
    file.append(b"1\n")
    path.rename(path.with_suffix(".jsonl.1"))
    file.append(b"2\n")
    assert path.read_bytes() == b"2\n"
    assert path.with_suffix(".jsonl.1").read_bytes() == b"1\n"


def test_a_deleted_or_replaced_file_is_let_go(file: AppendFile, path: Path, tmp_path: Path) -> None:
    """A deleted file is created again; one that was replaced is appended to."""
    file.append(b"1\n")
    path.unlink()
    file.append(b"2\n")
    assert path.read_bytes() == b"2\n"
    (tmp_path / "new").write_bytes(b"3\n")
    (tmp_path / "new").rename(path)
    file.append(b"4\n")
    assert path.read_bytes() == b"3\n4\n"


def test_a_truncated_file_is_appended_to_at_its_new_end(file: AppendFile, path: Path) -> None:
    """Copy-and-truncate leaves no hole of NULs behind."""
    file.append(b"1\n" * 1000)
    os.truncate(path, 0)
    file.append(b"2\n")
    assert path.read_bytes() == b"2\n"


def test_no_descriptor_is_left_behind(file: AppendFile, path: Path) -> None:
    """Rotations and close() give every descriptor back."""
    before = len(list(Path("/dev/fd").iterdir()))
    for number in range(20):
        file.append(b"1\n")
        path.rename(path.with_suffix(f".{number}"))
    file.append(b"1\n")
    file.close()
    assert len(list(Path("/dev/fd").iterdir())) == before


def test_a_lock_that_is_never_released_does_not_stop_a_worker(file: AppendFile, path: Path) -> None:
    """A stopped process that holds the lock costs the wait, not the line."""
    file.append(b"1\n")
    with path.open("rb") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        file.append(b"2\n")
    assert path.read_bytes() == b"1\n2\n"


def test_who_holds_the_lock_for_ever_is_waited_for_once_and_not_for_each_line(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise one stopped process would make every other writer take seconds for a line."""
    waits_s: list[float] = []

    def lock_and_tell(descriptor: int, wait_s: float) -> bool:
        waits_s.append(wait_s)
        return lock(descriptor, wait_s)

    monkeypatch.setattr(append_file, "lock", lock_and_tell)
    file = AppendFile(path, fsync=False, lock_wait_s=0.1)
    file.append(b"0\n")
    with path.open("rb") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        for number in (b"1\n", b"2\n", b"3\n"):
            file.append(number)
    for number in (b"4\n", b"5\n"):
        file.append(number)
    file.close()
    assert waits_s == [0.1, 0.1, LOCK_WAIT_AGAIN_S, LOCK_WAIT_AGAIN_S, LOCK_WAIT_AGAIN_S, 0.1]
    assert path.read_bytes() == b"0\n1\n2\n3\n4\n5\n"


def test_a_signal_handler_may_append_in_the_middle_of_an_append(
    file: AppendFile, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An append within an append, as a signal handler does it, neither deadlocks nor tears a line."""
    write = os.write
    interrupted = False

    def write_interrupted(descriptor: int, lines: bytes) -> int:
        nonlocal interrupted
        if not interrupted:
            interrupted = True
            path.rename(path.with_suffix(".1"))
            file.append(b"from the handler\n")
        return write(descriptor, lines)

    monkeypatch.setattr(os, "write", write_interrupted)
    file.append(b"1\n")
    file.append(b"2\n")
    assert path.read_bytes() == b"from the handler\n2\n"
    assert path.with_suffix(".1").read_bytes() == b"1\n"


def test_a_short_write_is_completed(file: AppendFile, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that took only a part goes on where it stopped."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, lines: write(descriptor, lines[:3]))
    file.append(b"0123456789\n")
    assert path.read_bytes() == b"0123456789\n"


def test_a_short_write_is_not_completed_behind_the_lines_of_others(
    file: AppendFile, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where another writer came in between, the rest would be a line of rubbish: it is an error instead."""
    write = os.write

    def write_a_part(descriptor: int, lines: bytes) -> int:
        written = write(descriptor, lines[:3])
        with path.open("ab") as other:
            other.write(b"\nother\n")
        return written

    monkeypatch.setattr(os, "write", write_a_part)
    with pytest.raises(OSError, match="part"):
        file.append(b"0123456789\n")
    assert path.read_bytes() == b"012\nother\n"


def test_a_full_disk_is_an_error_and_its_torn_line_costs_only_itself(small_disk: SmallDisk) -> None:
    """When the disk is full an append raises; once there is room again, the torn line is closed and stays alone."""
    path = small_disk.folder / "l.jsonl"
    file = AppendFile(path, fsync=True)
    line = b"x" * 999 + b"\n"
    whole = 0
    with pytest.raises(OSError, match=r"No space left|File too large"), small_disk.limited():
        while whole < 10_000:
            file.append(line)
            whole += 1
    small_disk.make_room()
    file.append(b"after\n")
    file.close()
    lines = path.read_bytes().split(b"\n")
    assert lines[:whole] == [line[:-1]] * whole
    assert lines[-2:] == [b"after", b""]
    assert len(lines) in (whole + 2, whole + 3)


def test_a_fork_in_the_middle_of_an_append_can_append(file: AppendFile, path: Path) -> None:
    """A child forked while another thread held the file's guard is not stuck with it."""
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with file._guard:
            held.set()
            release.wait(10)

    file.append(b"1\n")
    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(10)
    child = os.fork()
    if child == 0:
        signal.alarm(10)  # a child that is stuck ends, and not with status 0
        try:
            file.append(b"child\n")
        finally:
            os._exit(0)
    release.set()
    holder.join()
    assert os.waitpid(child, 0)[1] == 0
    assert path.read_bytes() == b"1\nchild\n"


def test_a_file_that_may_be_written_but_not_read_gets_whole_lines(
    file: AppendFile, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without leave to read, an append begins with a newline, since it cannot see whether it has to."""
    really_open = os.open

    def open_write_only(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_RDWR:
            raise PermissionError(13, "Permission denied")
        return really_open(path, flags, mode)

    path.write_bytes(b"torn")
    monkeypatch.setattr(os, "open", open_write_only)
    file.append(b"1\n")
    assert path.read_bytes() == b"torn\n1\n"
