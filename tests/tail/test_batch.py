"""Batch reading: the whole history once, bounded memory, and exit status 2 where an input cannot be read."""

import errno
import gzip
import os
import shutil
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from preempt_exporter.clock import SystemClock
from preempt_exporter.errors import UnreadableInput
from preempt_exporter.ledger.records import MAX_LINE_BYTES
from preempt_exporter.tail.batch import batch_ledgers, read_batch
from preempt_exporter.tail.folders import Folders, list_entries
from tests.tail.conftest import Lines


def read(*patterns: object) -> list[bytes]:
    return [
        line
        for chunk in read_batch([str(pattern) for pattern in patterns])
        for line in chunk.data.splitlines(keepends=True)
    ]


def test_every_form_oldest_first(ledger: Path, lines: Lines) -> None:
    """A path means its rotated forms too, compressed ones among them, oldest first."""
    ledger.with_name("l.jsonl.3.zst").write_bytes(zstandard.compress(lines.make(5)))
    ledger.with_name("l.jsonl.2.gz").write_bytes(gzip.compress(lines.make(5)))
    lines.append(ledger.with_name("l.jsonl.1"), 5)
    lines.append(ledger, 5)
    assert read(ledger) == lines.written
    assert read(ledger.parent) == lines.written
    assert read(ledger.parent / "*.jsonl*") == lines.written
    assert read(*ledger.parent.iterdir(), ledger) == lines.written


def test_a_zstandard_file_that_begins_with_a_frame_without_content(ledger: Path, lines: Lines) -> None:
    """As `pzstd` writes them: the size of the next frame comes first."""
    frame = zstandard.compress(lines.make(5))
    size = b"\x50\x2a\x4d\x18\x04\0\0\0" + len(frame).to_bytes(4, "little")
    packed = ledger.with_name("x.jsonl.1.zst")
    packed.write_bytes(size + frame)
    assert read(packed) == lines.written


def test_several_zstandard_frames(ledger: Path, lines: Lines) -> None:
    """A file of several frames, as appending compressors write them, is read to its end."""
    packed = ledger.with_name("x.jsonl.zst")
    packed.write_bytes(b"".join(zstandard.compress(lines.make(5)) for _ in range(3)))
    assert read(packed) == lines.written


def test_a_form_named_alone_stands_for_itself(ledger: Path, lines: Lines) -> None:
    """Naming a rotated form reads that file only; naming several reads them in order."""
    lines.append(ledger.with_name("l.jsonl.2"), 2)
    lines.append(ledger.with_name("l.jsonl.1"), 2)
    lines.append(ledger, 2)
    assert read(ledger.with_name("l.jsonl.1")) == lines.written[2:4]
    assert read(ledger.with_name("l.jsonl.1"), ledger.with_name("l.jsonl.2")) == lines.written[:4]
    chunks = list(read_batch([str(ledger.with_name("l.jsonl.1")), str(ledger.with_name("l.jsonl.2"))]))
    assert {chunk.ledger for chunk in chunks} == {str(ledger)}


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_a_compressed_copy_beside_the_plain_file_is_read_once(ledger: Path, lines: Lines, suffix: str) -> None:
    """`gzip -k` and copies under other names add nothing."""
    plain = ledger.with_name("l.jsonl.1")
    lines.append(plain, 700)
    content = plain.read_bytes()
    packed = gzip.compress(content) if suffix == "gz" else zstandard.compress(content)
    ledger.with_name(f"l.jsonl.1.{suffix}").write_bytes(packed)
    ledger.with_name(f"l.jsonl.2.{suffix}").write_bytes(packed)
    lines.append(ledger, 3)
    assert read(ledger) == lines.written


def test_the_middle_of_a_copy_and_truncate(ledger: Path, lines: Lines) -> None:
    """Half a copy, or a whole one, of the live file adds nothing."""
    lines.append(ledger, 700)
    content = ledger.read_bytes()
    for size in (0, 1000, 20_000, len(content)):
        ledger.with_name("l.jsonl.1").write_bytes(content[:size])
        joined = b"".join(read(ledger))
        assert joined == content


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_a_compressed_form_in_the_making_is_no_error(ledger: Path, lines: Lines, suffix: str) -> None:
    """A compressed form that ends early is passed over when the plain form goes on after it, and refused without it."""
    plain = ledger.with_name("l.jsonl.1")
    plain.write_bytes(b"".join(lines.make(1) for _ in range(20_000)))
    packed = (gzip.compress if suffix == "gz" else zstandard.compress)(plain.read_bytes())
    ledger.with_name(f"l.jsonl.1.{suffix}").write_bytes(packed[: len(packed) // 2])
    lines.append(ledger, 2)
    assert read(ledger) == lines.written
    plain.unlink()
    with pytest.raises(UnreadableInput, match=rf"l\.jsonl\.1\.{suffix}: compressed data"):
        read(ledger)


def test_a_named_path_that_is_not_there(ledger: Path) -> None:
    """A named path must exist; the error names it."""
    with pytest.raises(UnreadableInput, match=r"l\.jsonl: no such file"):
        read(ledger)


def test_empty_folder_and_glob(tmp_path: Path) -> None:
    """A folder without ledgers and a glob without matches give nothing."""
    assert read(tmp_path) == []
    assert read(tmp_path / "*.jsonl") == []
    assert read(tmp_path / "**") == []


def test_a_last_line_without_newline_is_handed_out(ledger: Path) -> None:
    """Batch reading finishes every file: the last line comes without its end."""
    ledger.write_bytes(b"a\nb")
    assert read(ledger) == [b"a\n", b"b"]


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A pipe is refused at once instead of waited for."""
    os.mkfifo(tmp_path / "l.jsonl")
    with pytest.raises(UnreadableInput, match="not a regular file"):
        read(tmp_path / "l.jsonl")


def test_one_file_under_two_names_is_read_once(ledger: Path, lines: Lines) -> None:
    """A symbolic link into the same folder does not double its target."""
    lines.append(ledger, 3)
    ledger.with_name("current.jsonl").symlink_to(ledger)
    assert read(ledger.parent) == lines.written


def test_two_ledgers_with_equal_content_count_twice(ledger: Path, lines: Lines) -> None:
    """Content is judged within a ledger only."""
    lines.append(ledger, 30)
    shutil.copy(ledger, ledger.with_name("m.jsonl"))
    assert read(ledger.parent) == lines.written * 2


def test_memory_stays_flat_whatever_the_line(ledger: Path) -> None:
    """A line of 30 MiB, plain or compressed, is cut to one byte more than the limit and costs no more than that."""
    content = b"a\n" + b"x" * (30 << 20) + b"\nb\n"
    ledger.write_bytes(content)
    ledger.with_name("m.jsonl.zst").write_bytes(zstandard.compress(content))
    for path in (ledger, ledger.with_name("m.jsonl.zst")):
        tracemalloc.start()
        try:
            got = read(path)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert [line[:1] for line in got] == [b"a", b"x", b"b"]
        assert len(got[1]) == MAX_LINE_BYTES + 2
        assert got[1].endswith(b"x\n")
        assert peak < 12 << 20


@pytest.mark.parametrize("named", ["", "/*.jsonl", "/**/l.jsonl"])
def test_a_folder_that_cannot_be_listed_is_not_an_empty_one(tmp_path: Path, named: str) -> None:
    """Named, or where a glob starts: an error that says why, instead of no lines."""

    def forbidden(path: str) -> Iterator[os.DirEntry[str]]:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    with pytest.raises(UnreadableInput, match="Permission denied"):
        list(batch_ledgers([f"{tmp_path}{named}"], Folders(SystemClock(), forbidden)))


def test_folders_that_only_a_wildcard_leads_to_are_passed_by(tmp_path: Path) -> None:
    """As a shell does: one unreadable folder among many is no reason to read none."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "l.jsonl").touch()

    def partly(path: str) -> Iterator[os.DirEntry[str]]:
        if path.endswith("/a"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return list_entries(path)

    found = batch_ledgers([f"{tmp_path}/*/*.jsonl"], Folders(SystemClock(), partly))
    assert [files.live for files in found] == [f"{tmp_path}/b/l.jsonl"]


def test_what_cannot_be_reached_is_not_called_missing(tmp_path: Path) -> None:
    """A path that is there and leads nowhere is told with the system's reason."""
    (tmp_path / "loop.jsonl").symlink_to("loop.jsonl")
    with pytest.raises(UnreadableInput, match="symbolic links"):
        list(read_batch([str(tmp_path / "loop.jsonl")]))
