"""Who ends a torn last line: once, and never a line that another writer is just putting there."""

import fcntl
import os
import threading
from pathlib import Path

import pytest

from preempt_exporter.errors import LedgerWriteError, UnreadableInput
from preempt_exporter.ledger import torn_line
from preempt_exporter.ledger.append_file import AppendFile
from preempt_exporter.ledger.torn_line import end_torn_line

LONG_LINE = b"x" * 700 + b"\n"


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "l.jsonl"


@pytest.mark.parametrize(
    ("before", "after"), [(b"", b""), (b"a\n", b"a\n"), (b"a\nb", b"a\nb\n"), (b"a\r", b"a\r\n"), (b"\n\n", b"\n\n")]
)
def test_only_a_last_line_without_newline_gets_one(ledger: Path, before: bytes, after: bytes) -> None:
    """A second time changes nothing."""
    ledger.write_bytes(before)
    end_torn_line(ledger)
    end_torn_line(ledger)
    assert ledger.read_bytes() == after


def test_a_missing_ledger_stays_missing_and_a_folder_is_unreadable(ledger: Path) -> None:
    end_torn_line(ledger)
    assert not ledger.exists()
    with pytest.raises(UnreadableInput):
        end_torn_line(ledger.parent)


def test_a_torn_ledger_that_cannot_be_written_is_an_error_and_a_whole_one_is_not(
    ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading is enough where nothing is torn."""

    def only_reading(path: object, flags: int, mode: int = 0o777) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    ledger.write_bytes(b"a\n")
    monkeypatch.setattr(torn_line.os, "open", only_reading)
    end_torn_line(ledger)
    ledger.write_bytes(b"a\nb")
    with pytest.raises(LedgerWriteError):
        end_torn_line(ledger)


def test_a_ledger_that_is_rotated_between_the_two_looks_is_no_error(
    ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The torn line went with it; nothing can be written after it under this name."""
    really = os.open

    def rotated_just_before(path: Path, flags: int) -> int:
        ledger.rename(ledger.with_name("l.jsonl.1"))
        return really(path, flags)

    ledger.write_bytes(b"a\nb")
    monkeypatch.setattr(torn_line.os, "open", rotated_just_before)
    end_torn_line(ledger)
    assert not ledger.exists()


def test_a_line_that_a_writer_is_putting_there_is_left_to_it(ledger: Path) -> None:
    """Seen half-written and locked, the line is looked at again once its writer let go."""
    ledger.write_bytes(b'{"half":')
    with ledger.open("ab") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        ender = threading.Thread(target=end_torn_line, args=(ledger,))
        ender.start()
        ender.join(0.05)
        assert ender.is_alive()
        os.write(writer.fileno(), b"1}\n")
        fcntl.flock(writer, fcntl.LOCK_UN)
    ender.join()
    assert ledger.read_bytes() == b'{"half":1}\n'


def test_no_blank_line_comes_of_looking_while_others_append(ledger: Path) -> None:
    """A write across a page's end becomes visible in two steps; both the looks and the writes are real ones."""
    lines = 10_000
    writer = AppendFile(ledger, fsync=False)
    writer.append(LONG_LINE)
    child = os.fork()
    if child == 0:
        try:
            for _ in range(lines):
                writer.append(LONG_LINE)
        finally:
            os._exit(0)
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        end_torn_line(ledger)
    assert ledger.read_bytes() == LONG_LINE * (lines + 1)
