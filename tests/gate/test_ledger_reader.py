"""The gate's reader: every line once, through rotation by name and by copy, packed forms and long lines."""

import gzip
import os
import shutil
from pathlib import Path

import msgspec
import pytest

from preempt_exporter.errors import UnreadableInput
from preempt_exporter.gate.ledger_forms import forms_of
from preempt_exporter.gate.ledger_reader import LedgerReader
from preempt_exporter.ledger.records import MAX_LINE_BYTES, Heartbeat


def lines(*numbers: int) -> bytes:
    """Heartbeats that carry their number."""
    return b"".join(msgspec.json.encode(Heartbeat(task_id="t", ts_ms=n)) + b"\n" for n in numbers)


def read(reader: LedgerReader) -> list[int]:
    """The numbers of all new lines."""
    return [record.ts_ms for records in reader.read_new() for record in records if isinstance(record, Heartbeat)]


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """The live path, not yet there."""
    return tmp_path / "l.jsonl"


def append(path: Path, data: bytes) -> None:
    """Append as a writer does."""
    with path.open("ab") as file:
        file.write(data)


def test_only_new_lines_are_read(ledger: Path) -> None:
    """Nothing there, then some, then nothing new, then more; a reader from the place goes on."""
    reader = LedgerReader(ledger)
    assert read(reader) == []
    append(ledger, lines(1, 2))
    assert read(reader) == [1, 2]
    assert read(reader) == []
    append(ledger, lines(3))
    assert read(LedgerReader(ledger, reader.place)) == [3]
    assert read(reader) == [3]


def test_a_line_without_newline_waits_in_the_live_file_and_counts_in_a_rotated_one(ledger: Path) -> None:
    """Half a line is not a line yet; once the file is finished it is."""
    reader = LedgerReader(ledger)
    append(ledger, lines(1) + lines(2)[:-1])
    assert read(reader) == [1]
    ledger.rename(f"{ledger}.1")
    append(ledger, lines(3))
    assert read(reader) == [2, 3]
    assert read(reader) == []


def test_rotation_by_name_over_several_files(ledger: Path) -> None:
    """The rest of the old file, the file that came and went between, the live one."""
    reader = LedgerReader(ledger)
    append(ledger, lines(1))
    assert read(reader) == [1]
    append(ledger, lines(2))
    ledger.rename(f"{ledger}.2")
    append(ledger, lines(3))
    ledger.rename(f"{ledger}.1")
    append(ledger, lines(4))
    os.utime(f"{ledger}.2", ns=(1, 1))
    os.utime(f"{ledger}.1", ns=(1, 1))
    assert read(reader) == [2, 3, 4]


def test_rotation_by_copy(ledger: Path) -> None:
    """The copy is known by its content and adds only what was not read; so does a cut file that grew past its place."""
    reader = LedgerReader(ledger)
    append(ledger, lines(1, 2))
    assert read(reader) == [1, 2]
    append(ledger, lines(3))
    shutil.copy(ledger, f"{ledger}-20261129")
    os.truncate(ledger, 0)
    append(ledger, lines(4, 5, 6, 7))
    assert read(reader) == [3, 4, 5, 6, 7]


def test_a_copy_in_the_making_is_not_read(ledger: Path) -> None:
    """Before the live file is cut, its copy is the same content twice."""
    append(ledger, lines(1, 2, 3))
    Path(f"{ledger}.1").write_bytes(ledger.read_bytes()[:-20])
    assert read(LedgerReader(ledger)) == [1, 2, 3]


def test_a_packed_form_beside_its_plain_one_is_left_out(ledger: Path) -> None:
    """Packing leaves both for a moment; alone the packed one is read."""
    old = Path(f"{ledger}.1")
    old.write_bytes(lines(1, 2))
    packed = Path(f"{ledger}.1.gz")
    packed.write_bytes(gzip.compress(lines(1, 2)))
    append(ledger, lines(3))
    assert read(LedgerReader(ledger)) == [1, 2, 3]
    old.unlink()
    assert read(LedgerReader(ledger)) == [1, 2, 3]


def test_other_files_beside_the_ledger_are_not_its_forms(ledger: Path) -> None:
    """The switch file, the snapshot, another ledger whose name begins alike, a folder."""
    append(ledger, lines(1))
    for name in ("l.jsonl.switches", "l.jsonl.gate", "l.jsonl.switches.lock", "l.jsonl2", "l.jsonl.bak", "xl.jsonl.1"):
        (ledger.parent / name).write_bytes(lines(9))
    (ledger.parent / "l.jsonl.5").mkdir()
    assert [form.path.name for form in forms_of(ledger)] == ["l.jsonl"]


def test_a_place_that_is_nowhere_is_said_and_everything_is_read_again(ledger: Path) -> None:
    """Deleted under us: the reader says so, and its user knows what is older."""
    reader = LedgerReader(ledger)
    append(ledger, lines(1, 2))
    assert read(reader) == [1, 2]
    ledger.unlink()
    append(ledger, lines(3))
    assert reader.lost_its_place is False
    assert read(reader) == [3]
    assert reader.lost_its_place is True


def test_a_line_that_is_too_long_costs_itself_and_no_memory(ledger: Path) -> None:
    """Eight megabytes without a newline, whole and in a rotated form, between two good lines."""
    append(ledger, lines(1) + b"x" * (8 * MAX_LINE_BYTES) + b"\n" + lines(2))
    reader = LedgerReader(ledger)
    assert read(reader) == [1, 2]
    assert reader.place is not None
    assert reader.place.offset == ledger.stat().st_size
    append(ledger, lines(3))
    assert read(reader) == [3]


def test_a_byte_order_mark_at_the_start_is_no_part_of_the_line(ledger: Path) -> None:
    """Only there."""
    append(ledger, b"\xef\xbb\xbf" + lines(1))
    assert read(LedgerReader(ledger)) == [1]


def test_a_broken_packed_form_is_unreadable_and_not_passed_over(ledger: Path) -> None:
    """What it holds might be a preemption; whoever decides must know that it is missing."""
    Path(f"{ledger}.1.gz").write_bytes(gzip.compress(lines(1) * 50)[:40])
    append(ledger, lines(2))
    with pytest.raises(UnreadableInput, match=r"l\.jsonl\.1\.gz"):
        read(LedgerReader(ledger))
