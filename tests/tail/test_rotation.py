"""Rotation in all its forms: nothing lost, nothing twice."""

import errno
import gzip
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard

from preempt_exporter.tail import seating
from preempt_exporter.tail.folders import list_entries
from preempt_exporter.tail.source import open_regular
from tests.tail.conftest import QUIET_MS, Lines, Reader, compress

Follow = Callable[..., Reader]


def rename(ledger: Path, number: int = 1) -> Path:
    rotated = ledger.with_name(f"{ledger.name}.{number}")
    ledger.rename(rotated)
    return rotated


def test_rename_rotation_reads_old_then_new(ledger: Path, lines: Lines, follow: Follow) -> None:
    """After a rename the old file's last lines come before the new file's first."""
    lines.append(ledger, 10)
    reader = follow(ledger)
    reader.poll()
    lines.append(ledger, 5)
    rename(ledger)
    lines.append(ledger, 7)
    reader.poll()
    assert reader.lines == lines.written
    assert reader.tail.stats.rotations == 1
    assert reader.tail.stats.suspected_loss == 0


def test_a_writer_that_still_holds_the_rotated_file(ledger: Path, lines: Lines, follow: Follow) -> None:
    """Lines appended to the rotated file after the rename are read, before those of the new file's same pass."""
    lines.append(ledger, 3)
    reader = follow(ledger)
    reader.poll()
    with ledger.open("ab", buffering=0) as held:
        rotated = rename(ledger)
        ledger.touch()
        reader.poll()
        for _ in range(20):
            held.write(lines.make(1))
            reader.wait(3_000)
            lines.append(ledger, 1)
            reader.poll()
    assert rotated.exists()
    assert reader.lines == lines.written


def test_an_unfinished_last_line_is_handed_out_once_the_rotated_file_is_quiet(
    ledger: Path, lines: Lines, follow: Follow
) -> None:
    """The torn last line of a rotated file waits for quiet, then comes without its newline."""
    lines.append(ledger, 3)
    with ledger.open("ab") as file:
        file.write(b'{"torn":')
    reader = follow(ledger)
    reader.poll()
    rename(ledger)
    reader.poll()
    assert reader.lines == lines.written
    assert reader.tail.stats.pending_bytes == 8
    reader.wait(QUIET_MS + 1000)
    assert reader.lines == [*lines.written, b'{"torn":']
    reader.restart()
    reader.wait(2 * QUIET_MS)
    assert reader.lines == [*lines.written, b'{"torn":']


@pytest.mark.parametrize("seen_empty", [True, False])
def test_copy_and_truncate(ledger: Path, lines: Lines, follow: Follow, seen_empty: bool) -> None:
    """The copy adds nothing, the new lines of the truncated file are read from its first byte."""
    lines.append(ledger, 10)
    reader = follow(ledger)
    reader.poll()
    shutil.copy(ledger, ledger.with_name("l.jsonl.1"))
    reader.poll()
    ledger.write_bytes(b"")
    if seen_empty:
        reader.poll()
    lines.append(ledger, 4)
    reader.wait(3 * QUIET_MS)
    assert reader.lines == lines.written
    assert reader.tail.stats.truncations == 1
    assert reader.tail.stats.suspected_loss == 0


def test_copy_and_truncate_when_the_reader_was_slow(ledger: Path, lines: Lines, follow: Follow) -> None:
    """What was unread at the truncation comes from the copy, before the new lines."""
    lines.append(ledger, 10)
    reader = follow(ledger)
    reader.poll()
    lines.append(ledger, 6)
    shutil.copy(ledger, ledger.with_name("l.jsonl.1"))
    ledger.write_bytes(lines.make(40))
    reader.wait(3 * QUIET_MS)
    assert reader.lines == lines.written
    assert reader.tail.stats.suspected_loss == 0


@pytest.mark.parametrize("kept", [1, 9, 60])
@pytest.mark.parametrize("pause_ms", [0, 500])
@pytest.mark.parametrize("restarted", [True, False])
def test_a_storm_of_copies_and_truncations(
    ledger: Path, lines: Lines, follow: Follow, kept: int, pause_ms: int, restarted: bool
) -> None:
    """More rotations than the reader remembers, before any copy was quiet long enough to be told from new content."""
    reader = follow(ledger)
    for _ in range(40):
        lines.append(ledger, 3)
        reader.poll()
        for number in range(kept - 1, 0, -1):
            older = ledger.with_name(f"l.jsonl.{number}")
            if older.exists():
                older.rename(ledger.with_name(f"l.jsonl.{number + 1}"))
        shutil.copy(ledger, ledger.with_name("l.jsonl.1"))
        reader.wait(pause_ms)
        ledger.write_bytes(b"")
        reader.poll()
    if restarted:
        reader.restart()
    reader.wait(3 * QUIET_MS)
    assert reader.lines == lines.written
    assert reader.tail.stats.suspected_loss == 0


def test_a_copy_is_known_after_many_other_contents_have_come_and_gone(
    ledger: Path, lines: Lines, follow: Follow
) -> None:
    """The live file is begun anew again and again before the copy of its first content was quiet long enough."""
    reader = follow(ledger)
    lines.append(ledger, 3)
    reader.poll()
    shutil.copy(ledger, ledger.with_name("l.jsonl.1"))
    for _ in range(40):
        ledger.write_bytes(b"")
        reader.poll()
        lines.append(ledger, 1)
        reader.poll()
    reader.wait(3 * QUIET_MS)
    assert reader.lines == lines.written


def test_a_copy_that_is_undecided_over_a_restart(ledger: Path, lines: Lines, follow: Follow) -> None:
    """Its content is known after the restart too, although a newer form that was waiting for quiet is deleted then."""
    reader = follow(ledger)
    for number in range(100, 120):
        lines.append(ledger, 3)
        reader.poll()
        shutil.copy(ledger, ledger.with_name(f"l.jsonl-{number:06}"))
        reader.poll()
        ledger.write_bytes(b"")
        reader.poll()
    reader.restart(ledger.with_name("l.jsonl-000119").unlink)
    reader.wait(3 * QUIET_MS)
    assert reader.lines == lines.written


def test_a_copy_is_judged_while_the_live_file_needs_the_only_descriptor(
    ledger: Path, lines: Lines, follow: Follow
) -> None:
    """What a file is held against is opened beside it, not in its place."""
    reader = follow(ledger, max_open_files=1)
    lines.append(ledger, 3)
    reader.poll()
    shutil.copy(ledger, ledger.with_name("l.jsonl.1"))
    reader.poll()
    reader.clock.advance(2 * QUIET_MS)
    lines.append(ledger, 3)
    reader.poll()
    assert reader.lines == lines.written
    assert reader.tail.stats.read_errors == 0


def test_a_copy_that_is_written_over_the_copy_before(ledger: Path, lines: Lines, follow: Follow) -> None:
    """It is a copy found now, whatever its inode held: the live file, seen empty before, may hold what it holds."""
    reader = follow(ledger)
    copy = ledger.with_name("l.jsonl.1")
    for count in (10, 6, 0, 8):
        lines.append(ledger, count)
        shutil.copyfile(ledger, copy)
        reader.poll()
        assert reader.lines == lines.written
        ledger.write_bytes(b"")
        reader.wait(3 * QUIET_MS)
    assert reader.lines == lines.written
    assert reader.tail.stats.suspected_loss == 0


def test_the_copied_file_vanishes_while_its_copy_is_being_read(ledger: Path, lines: Lines, follow: Follow) -> None:
    """Found empty before its copy was found, the live file is still the later of the two once it has lost its name."""
    ledger.touch()
    reader = follow(ledger)
    reader.poll()
    lines.append(ledger, 2, size=70_000)
    shutil.copy(ledger, ledger.with_name("l.jsonl.1"))
    ledger.write_bytes(b"")
    lines.append(ledger, 1)
    reader.poll(1)
    assert len(reader.lines) == 1
    ledger.unlink()
    reader.wait(3 * QUIET_MS)
    assert reader.lines == lines.written


def test_a_copy_that_grows_while_it_is_looked_at(ledger: Path, lines: Lines, follow: Follow) -> None:
    """A copy in the making is not read, whether it is seen whole, in part, or at the same time as the original."""
    lines.append(ledger, 300)
    content = ledger.read_bytes()
    reader = follow(ledger)
    reader.poll()
    with ledger.with_name("l.jsonl.1").open("wb", buffering=0) as copy:
        for start in range(0, len(content), 1_700):
            copy.write(content[start : start + 1_700])
            reader.wait(500)
    ledger.write_bytes(b"")
    lines.append(ledger, 2)
    reader.wait(3 * QUIET_MS)
    assert reader.lines == lines.written


def test_a_cold_start_in_the_middle_of_a_copy(ledger: Path, lines: Lines, follow: Follow) -> None:
    """Started while the copy is half made, the tail reads each line once."""
    lines.append(ledger, 300)
    content = ledger.read_bytes()
    with ledger.with_name("l.jsonl.1").open("wb", buffering=0) as copy:
        copy.write(content[:7_777])
        reader = follow(ledger)
        reader.poll()
        assert reader.lines == lines.written
        copy.write(content[7_777:])
        reader.wait(3 * QUIET_MS)
    ledger.write_bytes(b"")
    lines.append(ledger, 2)
    reader.wait(3 * QUIET_MS)
    assert reader.lines == lines.written


def test_same_lines_again_after_copy_and_truncate(ledger: Path, follow: Follow) -> None:
    """Once a copy has taken the old content along, equal lines in the truncated file are new ones."""
    ledger.write_bytes(b"same\n" * 3)
    reader = follow(ledger)
    reader.poll()
    shutil.copy(ledger, ledger.with_name("l.jsonl.1"))
    reader.wait(2 * QUIET_MS)
    ledger.write_bytes(b"same\n" * 2)
    reader.wait(2 * QUIET_MS)
    assert reader.lines == [b"same\n"] * 5


def test_same_lines_again_after_a_rename(ledger: Path, follow: Follow) -> None:
    """A new live file beside the renamed one holds new lines, even if they look the same."""
    ledger.write_bytes(b"same\n")
    reader = follow(ledger)
    reader.poll()
    rename(ledger)
    ledger.write_bytes(b"same\n")
    assert reader.poll() == [b"same\n"]


def test_rotation_while_down(ledger: Path, lines: Lines, follow: Follow) -> None:
    """Renamed twice while nobody looked: the remainder, then the middle file whole, then the live one."""
    lines.append(ledger, 10)
    reader = follow(ledger)
    reader.poll()

    def rotate_twice() -> None:
        lines.append(ledger, 3)
        rename(ledger)
        lines.append(ledger, 50)
        rename(ledger.with_name("l.jsonl.1"), 1)
        ledger.with_name("l.jsonl.1.1").rename(ledger.with_name("l.jsonl.2"))
        rename(ledger)
        lines.append(ledger, 2)

    reader.restart(rotate_twice)
    reader.wait(3 * QUIET_MS)
    assert reader.lines == lines.written
    assert reader.tail.stats.suspected_loss == 0


def test_copy_and_truncate_while_down(ledger: Path, lines: Lines, follow: Follow) -> None:
    """The remainder is found in the copy by content, though neither device nor inode match."""
    lines.append(ledger, 10)
    reader = follow(ledger)
    reader.poll()

    def rotate() -> None:
        lines.append(ledger, 3)
        shutil.copy(ledger, ledger.with_name("l.jsonl.1"))
        ledger.write_bytes(lines.make(50))

    reader.restart(rotate)
    reader.wait(3 * QUIET_MS)
    assert reader.lines == lines.written
    assert reader.tail.stats.suspected_loss == 0


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_compression_while_down(ledger: Path, lines: Lines, follow: Follow, suffix: str) -> None:
    """The remainder of a file that was rotated and compressed meanwhile is read from the compressed form, once."""
    lines.append(ledger, 5_000)
    reader = follow(ledger)
    reader.poll()

    def rotate() -> None:
        lines.append(ledger, 3_000)
        packed = ledger.with_name(f"l.jsonl.1.{suffix}")
        content = ledger.read_bytes()
        packed.write_bytes(gzip.compress(content) if suffix == "gz" else zstandard.compress(content))
        ledger.unlink()
        lines.append(ledger, 2)

    reader.restart(rotate)
    reader.wait(4 * QUIET_MS)
    assert reader.lines == lines.written
    assert reader.tail.stats.suspected_loss == 0
    reader.restart()
    reader.wait(4 * QUIET_MS)
    assert reader.lines == lines.written


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_a_restart_while_the_rotated_file_is_being_compressed(
    ledger: Path, lines: Lines, follow: Follow, suffix: str
) -> None:
    """What the half-written form does not hold yet is waited for, and no line of it is taken for a torn one."""
    lines.append(ledger, 5_000)
    reader = follow(ledger)
    reader.poll()
    packed = ledger.with_name(f"l.jsonl.1.{suffix}")
    whole = b""

    def begin_to_compress() -> None:
        nonlocal whole
        lines.append(ledger, 30_000)
        whole = (gzip.compress if suffix == "gz" else zstandard.compress)(ledger.read_bytes())
        packed.write_bytes(whole[: len(whole) * 2 // 3])
        ledger.unlink()
        lines.append(ledger, 2)

    reader.restart(begin_to_compress)
    reader.wait(QUIET_MS)
    packed.write_bytes(whole)
    reader.wait(4 * QUIET_MS)
    assert sorted(reader.lines) == sorted(lines.written)
    assert reader.tail.stats.suspected_loss == 0


def test_two_compressed_remainders_are_read_oldest_first(ledger: Path, lines: Lines, follow: Follow) -> None:
    """Also when the names are looked at again in the middle of the first."""
    lines.append(ledger, 10)
    rotated = rename(ledger)
    lines.append(ledger, 10)
    reader = follow(ledger)
    reader.poll()
    assert len(reader.lines) == 20
    older = lines.make(10, size=70_000)
    newer = lines.make(10, size=70_000)

    def compress_both() -> None:
        compress(rotated, "l.jsonl.2.gz", late=older)
        compress(ledger, "l.jsonl.1.gz", late=newer)

    reader.restart(compress_both)
    while len(reader.lines) < 24:
        reader.poll(1)
    ledger.touch()
    reader.wait(3 * QUIET_MS)
    assert reader.lines == lines.written


def test_a_compressed_remainder_that_appears_while_an_older_one_is_read(
    ledger: Path, lines: Lines, follow: Follow
) -> None:
    """It has its turn after that."""
    lines.append(ledger, 10)
    rotated = rename(ledger)
    lines.append(ledger, 10)
    reader = follow(ledger)
    reader.poll()
    older, newer = rotated.read_bytes() + lines.make(10, size=70_000), ledger.read_bytes() + lines.make(10, size=70_000)

    def compress_the_older() -> None:
        ledger.with_name("l.jsonl.2.gz").write_bytes(gzip.compress(older))
        rotated.unlink()
        ledger.unlink()

    reader.restart(compress_the_older)
    while len(reader.lines) < 24:
        reader.poll(1)
    ledger.with_name("l.jsonl.1.gz").write_bytes(gzip.compress(newer))
    reader.clock.advance(1_000)
    while len(reader.lines) < 40:
        reader.poll(1)
        reader.clock.advance(1_000)
    assert reader.lines == lines.written


@pytest.mark.parametrize("suffix", ["gz", "zst"])
@pytest.mark.parametrize("pause_ms", [500, QUIET_MS - 1_000])
def test_a_compressed_form_that_grows_frame_by_frame(
    ledger: Path, lines: Lines, follow: Follow, suffix: str, pause_ms: int
) -> None:
    """Between two frames it looks whole; what it ends with there is half a line and not the last one."""
    lines.append(ledger, 50, size=3_000)
    reader = follow(ledger)
    reader.poll()
    packed = ledger.with_name(f"l.jsonl.1.{suffix}")
    frames: list[bytes] = []

    def begin_to_compress() -> None:
        lines.append(ledger, 100, size=3_000)
        content = ledger.read_bytes()
        compress = gzip.compress if suffix == "gz" else zstandard.compress
        frames.extend(compress(content[start : start + 100_000]) for start in range(0, len(content), 100_000))
        packed.write_bytes(b"".join(frames[:2]))
        ledger.unlink()

    reader.restart(begin_to_compress)
    for count in range(2, len(frames) + 1):
        packed.write_bytes(b"".join(frames[:count]))
        reader.wait(pause_ms)
    reader.wait(4 * QUIET_MS)
    assert reader.lines == lines.written
    assert reader.tail.stats.suspected_loss == 0


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_a_compressed_form_that_breaks_off_for_good_is_given_up_and_said(
    ledger: Path, lines: Lines, follow: Follow, suffix: str
) -> None:
    """It is unpacked once, not twice a second for ever, and what it does not hold is suspected loss."""
    lines.append(ledger, 100)
    opened: list[str] = []

    def noted(path: str) -> int:
        opened.append(path)
        return open_regular(path)

    reader = follow(ledger, open_file=noted)
    reader.poll()
    packed = ledger.with_name(f"l.jsonl.1.{suffix}")

    def compress_a_part() -> None:
        noise = (hashlib.sha256(b"%d" % number).hexdigest() for number in range(9_000))
        content = ledger.read_bytes() + b"".join(b"%s\n" % word.encode() for word in noise)
        packed.write_bytes((gzip.compress if suffix == "gz" else zstandard.compress)(content)[:-7])
        ledger.unlink()

    reader.restart(compress_a_part)
    reader.wait(6 * QUIET_MS)
    assert len(lines.written) < len(reader.lines) < 9_100
    assert opened.count(str(packed)) == 1
    assert reader.tail.stats.suspected_loss == 1
    assert reader.tail.stats.read_errors == 1
    assert not reader.tail.has_more()


def test_compressed_forms_that_cannot_be_opened_are_tried_again(ledger: Path, lines: Lines, follow: Follow) -> None:
    """However long that takes, and for every file that is owed; a gauge shows it, and nothing is taken for lost."""
    lines.append(ledger, 100)
    older = rename(ledger, 2)
    lines.append(ledger, 100)
    refused: set[str] = set()

    def refuse(path: str) -> int:
        if path in refused:
            raise PermissionError(errno.EACCES, "Permission denied")
        return open_regular(path)

    reader = follow(ledger, open_file=refuse)
    reader.poll()

    def rotate() -> None:
        lines.append(ledger, 50)
        for plain, packed in ((older, "l.jsonl.2.gz"), (ledger, "l.jsonl.1.gz")):
            compress(plain, packed)
            refused.add(str(ledger.with_name(packed)))

    reader.restart(rotate)
    reader.wait(6 * QUIET_MS)
    assert reader.tail.stats.unreadable_files == 2
    assert {file.path for file in reader.tail.files(9)} == refused
    assert 50 <= reader.tail.stats.read_errors <= 62
    assert sum("cannot be read" in notice.message for notice in reader.notices) == 2
    refused.clear()
    reader.wait(2 * QUIET_MS)
    assert reader.lines == lines.written
    assert reader.tail.stats.unreadable_files == 0
    assert reader.tail.stats.suspected_loss == 0


def test_compressed_forms_in_a_folder_that_cannot_be_listed_for_a_while(
    ledger: Path, lines: Lines, follow: Follow
) -> None:
    """What is not seen for that reason has not gone: a remainder is waited for, old forms are no new ones after it."""
    is_listed = True

    def list_folder(path: str) -> Iterator[os.DirEntry[str]]:
        if not is_listed:
            raise OSError(errno.EMFILE, "Too many open files")
        return list_entries(path)

    ledger.with_name("l.jsonl.2.gz").write_bytes(gzip.compress(b'{"never":"seen"}\n'))
    lines.append(ledger, 100)
    reader = follow(ledger, list_folder=list_folder)
    reader.poll()

    def rotate() -> None:
        nonlocal is_listed
        lines.append(ledger, 50)
        compress(ledger, "l.jsonl.1.gz")
        is_listed = False

    reader.restart(rotate)
    reader.wait(6 * QUIET_MS)
    is_listed = True
    reader.wait(6 * QUIET_MS)
    assert reader.lines == lines.written
    is_listed = False
    reader.wait(6 * QUIET_MS)
    is_listed = True
    reader.wait(6 * QUIET_MS)
    assert reader.tail.stats.suspected_loss == 0


def test_compressed_forms_that_cannot_be_reached_for_a_while(
    ledger: Path, lines: Lines, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that may be listed and not entered: the forms are no new ones when it may."""
    really = os.stat

    def refuse(path: str, *args: object, **options: object) -> os.stat_result:
        if str(path).endswith(".gz"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return really(path, *args, **options)  # type: ignore[arg-type]

    ledger.with_name("l.jsonl.2.gz").write_bytes(gzip.compress(b'{"never":"seen"}\n'))
    lines.append(ledger, 100)
    reader = follow(ledger)
    reader.poll()
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", refuse)
        rename(ledger)
        lines.append(ledger, 50)
        reader.wait(QUIET_MS)
    rename(ledger, 3)
    lines.append(ledger, 50)
    reader.wait(6 * QUIET_MS)
    assert sorted(reader.lines) == sorted(lines.written)
    assert reader.tail.stats.suspected_loss == 0


def test_compression_of_a_finished_file_adds_nothing(ledger: Path, lines: Lines, follow: Follow) -> None:
    """A rotated file that was read to its end may be compressed without a word."""
    lines.append(ledger, 100)
    reader = follow(ledger)
    reader.poll()
    rotated = rename(ledger)
    lines.append(ledger, 3)
    reader.wait(2 * QUIET_MS)
    packed = ledger.with_name("l.jsonl.1.gz")
    packed.write_bytes(gzip.compress(rotated.read_bytes()))
    reader.wait(QUIET_MS)
    rotated.unlink()
    reader.wait(4 * QUIET_MS)
    assert reader.lines == lines.written
    assert reader.tail.stats.suspected_loss == 0


def test_a_compressed_form_that_stands_beside_its_plain_file_keeps_nobody_awake(
    ledger: Path, lines: Lines, follow: Follow
) -> None:
    """`gzip -k`: nothing is searched for and no state written again and again; the plain file may go at any time."""
    lines.append(ledger, 10)
    reader = follow(ledger)
    reader.poll()
    rotated = rename(ledger)
    lines.append(ledger, 3)
    reader.wait(2 * QUIET_MS)
    ledger.with_name("l.jsonl.1.gz").write_bytes(gzip.compress(rotated.read_bytes()))
    reader.wait(6 * QUIET_MS)
    assert not settling(reader)
    rotated.unlink()
    reader.wait(6 * QUIET_MS)
    assert not settling(reader)
    assert reader.lines == lines.written
    assert reader.tail.stats.suspected_loss == 0


def settling(reader: Reader) -> bool:
    """Whether any file is looked at on every scan."""
    return reader.tail.state_version()[1]


def test_a_remainder_found_after_a_second_restart_explains_its_own_compressed_form_only(
    ledger: Path, lines: Lines, follow: Follow
) -> None:
    """A form of a file that nobody saw, which appears later, is still suspected."""
    lines.append(ledger, 10)
    reader = follow(ledger)
    reader.poll()
    whole = ledger.read_bytes() + lines.make(5)
    reader.restart(ledger.unlink)
    reader.poll()
    packed = ledger.with_name("l.jsonl.2.gz")
    reader.restart(lambda: packed.write_bytes(gzip.compress(whole)))
    reader.wait(2 * QUIET_MS)
    assert reader.lines == lines.written
    ledger.with_name("l.jsonl.1.gz").write_bytes(gzip.compress(b'{"never":"seen"}\n'))
    reader.wait(4 * QUIET_MS)
    assert reader.tail.stats.suspected_loss == 1


def test_rotations_without_a_pause_do_not_add_up_for_ever(
    ledger: Path, lines: Lines, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is always a copy that is undecided, and yet not everything that ever left is remembered."""
    monkeypatch.setattr(seating, "KEPT_AT_MOST", 30)
    reader = follow(ledger)
    for _ in range(60):
        lines.append(ledger, 3)
        reader.poll()
        shutil.copy(ledger, ledger.with_name("l.jsonl.1"))
        ledger.write_bytes(b"")
        reader.wait(1_000)
    assert len(reader.tail.positions().ledgers[str(ledger)].past) < 35
    assert reader.lines == lines.written


def test_a_compressed_file_that_nobody_read_is_suspected_loss(ledger: Path, lines: Lines, follow: Follow) -> None:
    """Two rotations with compression while down: the middle file was never seen plain, and that is said."""
    lines.append(ledger, 10)
    reader = follow(ledger)
    reader.poll()

    def rotate_twice() -> None:
        ledger.with_name("l.jsonl.2.gz").write_bytes(gzip.compress(ledger.read_bytes()))
        ledger.with_name("l.jsonl.1.gz").write_bytes(gzip.compress(b'{"never":"seen"}\n'))
        ledger.unlink()
        lines.append(ledger, 2)

    reader.restart(rotate_twice)
    reader.wait(4 * QUIET_MS)
    assert reader.lines == lines.written
    assert reader.tail.stats.suspected_loss == 1
    assert reader.said("compressed form of no file that was read")


def test_a_restart_does_not_forget_an_unexplained_compressed_form(ledger: Path, lines: Lines, follow: Follow) -> None:
    """Written, rotated and compressed between two looks, then restarted within seconds: still suspected, once."""
    lines.append(ledger, 10)
    reader = follow(ledger)
    reader.poll()
    ledger.with_name("l.jsonl.1.gz").write_bytes(gzip.compress(b'{"never":"seen"}\n'))
    lines.append(ledger, 2)
    reader.poll()
    reader.restart()
    reader.wait(4 * QUIET_MS)
    reader.restart()
    reader.wait(4 * QUIET_MS)
    assert reader.lines == lines.written
    assert sum("compressed form of no file that was read" in notice.message for notice in reader.notices) == 1


def test_rewrite_and_replace_with_other_content(ledger: Path, lines: Lines, follow: Follow) -> None:
    """A new file put in place over the old one is read whole; what the old one still held comes first."""
    lines.append(ledger, 10)
    reader = follow(ledger)
    reader.poll()
    lines.append(ledger, 2)
    fresh = ledger.with_name("fresh")
    lines.append(fresh, 30)
    fresh.replace(ledger)
    reader.wait(3 * QUIET_MS)
    assert reader.lines == lines.written


def test_rewrite_and_replace_with_the_same_content_and_more(ledger: Path, lines: Lines, follow: Follow) -> None:
    """A replacement that begins with everything that was read goes on where the old file was left."""
    lines.append(ledger, 10)
    reader = follow(ledger)
    reader.poll()
    fresh = ledger.with_name("fresh")
    shutil.copy(ledger, fresh)
    lines.append(fresh, 3)
    fresh.replace(ledger)
    reader.wait(3 * QUIET_MS)
    assert reader.lines == lines.written


@pytest.mark.parametrize("kept", [1, 5, 40, 900])
def test_rewrite_and_replace_with_the_old_lines_cut_off(ledger: Path, lines: Lines, follow: Follow, kept: int) -> None:
    """`tail -n kept` written back over the ledger repeats lines that were read: only what follows them is new."""
    lines.append(ledger, 1000)
    reader = follow(ledger)
    reader.poll()
    fresh = ledger.with_name("fresh")
    fresh.write_bytes(b"".join(lines.written[-kept:]))
    lines.append(fresh, 3)
    fresh.replace(ledger)
    reader.wait(3 * QUIET_MS)
    assert reader.lines == lines.written


def test_names_that_come_back(ledger: Path, lines: Lines, follow: Follow) -> None:
    """A rotated file moved away and back under its name is not read again; a new file of that name is."""
    lines.append(ledger, 50)
    reader = follow(ledger)
    reader.poll()
    rotated = rename(ledger)
    lines.append(ledger, 1)
    reader.wait(2 * QUIET_MS)
    away = ledger.with_name("away")
    rotated.rename(away)
    reader.wait(2 * QUIET_MS)
    away.rename(rotated)
    reader.wait(2 * QUIET_MS)
    assert reader.lines == lines.written
    rotated.unlink()
    reader.wait(2 * QUIET_MS)
    lines.append(rotated, 4)
    reader.wait(2 * QUIET_MS)
    assert reader.lines == lines.written


def test_rotated_forms_are_read_oldest_first(ledger: Path, lines: Lines, follow: Follow) -> None:
    """At a cold start counted forms are read from the highest number down, then the live file."""
    for number in (11, 10, 9, 2, 1):
        lines.append(ledger.with_name(f"l.jsonl.{number}"), 3)
    lines.append(ledger, 3)
    reader = follow(ledger)
    reader.poll()
    assert reader.lines == lines.written


def test_dated_forms_are_read_oldest_first(ledger: Path, lines: Lines, follow: Follow) -> None:
    """Dated forms are read by date, then the live file."""
    for date in (20251231, 20260101, 20260215):
        lines.append(ledger.with_name(f"l.jsonl-{date}"), 3)
    lines.append(ledger, 3)
    reader = follow(ledger)
    reader.poll()
    assert reader.lines == lines.written


def test_a_form_that_begins_alike_and_then_differs_is_read_whole(ledger: Path, lines: Lines, follow: Follow) -> None:
    """A form that is so far a prefix of what was read waits; once it differs all of it is new."""
    lines.append(ledger, 10)
    reader = follow(ledger)
    reader.poll()
    form = ledger.with_name("l.jsonl.1")
    form.write_bytes(b"".join(lines.written[:3]))
    reader.wait(2_000)
    assert len(reader.lines) == 10
    with form.open("ab") as file:
        file.write(lines.make(2))
    reader.wait(3 * QUIET_MS)
    assert reader.lines == lines.written[:10] + lines.written[:3] + lines.written[10:]


def test_two_copies_between_two_looks(ledger: Path, lines: Lines, follow: Follow) -> None:
    """Copied and truncated twice while nobody looked, the second copy half made: still in order, still once."""
    lines.append(ledger, 1)
    reader = follow(ledger)
    reader.poll()
    lines.append(ledger, 1)
    shutil.copy(ledger, ledger.with_name("l.jsonl.2"))
    ledger.write_bytes(lines.make(2))
    content = ledger.read_bytes()
    ledger.with_name("l.jsonl.1").write_bytes(content[: len(content) // 2])
    reader.poll()
    ledger.with_name("l.jsonl.1").write_bytes(content)
    reader.wait(3 * QUIET_MS)
    assert reader.lines == lines.written


def test_a_new_file_with_the_name_and_inode_of_a_finished_one(ledger: Path, lines: Lines, follow: Follow) -> None:
    """Even where the file system gives name and inode again, the new content is read."""
    lines.append(ledger, 50)
    reader = follow(ledger)
    reader.poll()
    rotated = rename(ledger)
    reader.wait(3 * QUIET_MS)
    reader.clock.advance(10**12)
    reader.poll()
    rotated.unlink()
    lines.append(rotated, 20)
    reader.wait(3 * QUIET_MS)
    assert reader.lines == lines.written


def test_a_replaced_file_whose_replacement_was_compressed_while_down(
    ledger: Path, lines: Lines, follow: Follow
) -> None:
    """Where two vanished files share a beginning, the compressed form goes on after the longer one."""
    lines.append(ledger, 6)
    reader = follow(ledger)
    reader.poll()
    fresh = ledger.with_name("fresh")
    shutil.copy(ledger, fresh)
    lines.append(fresh, 4)
    fresh.replace(ledger)
    reader.poll()

    def pack() -> None:
        lines.append(ledger, 2)
        compress(ledger, "l.jsonl.1.gz")

    reader.restart(pack)
    reader.wait(4 * QUIET_MS)
    assert reader.lines == lines.written
    assert reader.tail.stats.suspected_loss == 0


def test_a_rewrite_that_ends_alike_is_noticed(ledger: Path, follow: Follow) -> None:
    """The same bytes before the offset do not make another file of it the same: the head tells."""
    same = b"x" * 63 + b"\n"
    ledger.write_bytes(b"a" * 63 + b"\n" + same * 40)
    reader = follow(ledger)
    reader.poll()
    ledger.write_bytes(b"b" * 63 + b"\n" + same * 40)
    reader.poll()
    assert len(reader.lines) == 2 * 41


def test_half_a_copy_and_its_original_both_gone(ledger: Path, lines: Lines, follow: Follow) -> None:
    """Of two vanished files that share their content only the one that was read further is finished."""
    lines.append(ledger, 300)
    content = ledger.read_bytes()
    copy = ledger.with_name("l.jsonl.1")
    copy.write_bytes(content[:6_000])
    reader = follow(ledger)
    reader.poll()

    def pack() -> None:
        lines.append(ledger, 2)
        copy.unlink()
        compress(ledger, "l.jsonl.1.gz")

    reader.restart(pack)
    reader.wait(4 * QUIET_MS)
    assert reader.lines == lines.written
    assert reader.tail.stats.suspected_loss == 0


def test_truncated_then_renamed_then_its_successor_deleted(ledger: Path, lines: Lines, follow: Follow) -> None:
    """A file truncated and renamed between two looks is still older than the live file beside it, even deleted."""
    lines.append(ledger, 5)
    reader = follow(ledger)
    reader.poll()
    shutil.copy(ledger, ledger.with_name("l.jsonl.2"))
    ledger.write_bytes(lines.make(2))
    rename(ledger)
    lines.append(ledger, 8)
    reader.poll(1)
    ledger.unlink()
    reader.wait(4 * QUIET_MS)
    assert reader.lines == lines.written


def test_a_copy_that_got_the_inode_of_an_empty_rotated_file(ledger: Path, lines: Lines, follow: Follow) -> None:
    """A rotated file that ended empty vouches for nothing: a copy in its place adds nothing."""
    ledger.touch()
    reader = follow(ledger)
    reader.poll()
    rotated = rename(ledger)
    reader.wait(3 * QUIET_MS)
    lines.append(ledger, 25)
    reader.poll()
    rotated.write_bytes(ledger.read_bytes())
    ledger.write_bytes(b"")
    reader.wait(3 * QUIET_MS)
    assert reader.lines == lines.written


def test_replaced_and_then_copied_while_down(ledger: Path, lines: Lines, follow: Follow) -> None:
    """Half a copy of a replacement goes on after the replaced file, and so does the live file: neither is doubled."""
    lines.append(ledger, 1)
    reader = follow(ledger)
    reader.poll()

    def replace_and_copy() -> None:
        ledger.rename(ledger.parent.parent / f"{ledger.parent.name}-kept")
        ledger.write_bytes(lines.written[0] + lines.make(4))
        content = ledger.read_bytes()
        ledger.with_name("l.jsonl.1").write_bytes(content[: len(content) // 2])

    reader.restart(replace_and_copy)
    reader.poll()
    ledger.with_name("l.jsonl.1").write_bytes(ledger.read_bytes())
    reader.wait(3 * QUIET_MS)
    assert reader.lines == lines.written


@pytest.mark.parametrize("restarted", [False, True])
def test_compressing_what_was_read_arouses_no_suspicion(
    ledger: Path, lines: Lines, follow: Follow, restarted: bool
) -> None:
    """A rotated file that is compressed at once, or after a restart, was read to its end: nothing is suspected."""
    lines.append(ledger, 5)
    reader = follow(ledger)
    reader.poll()
    lines.append(ledger, 3)
    rotated = rename(ledger)
    lines.append(ledger, 2)
    if restarted:
        reader.wait(2 * QUIET_MS)
        reader.restart()
        reader.poll()
    compress(rotated, f"{rotated.name}.gz")
    reader.wait(5 * QUIET_MS)
    assert reader.lines == lines.written
    assert reader.tail.stats.suspected_loss == 0


def test_a_remainder_among_many_compressed_forms(ledger: Path, lines: Lines, follow: Follow) -> None:
    """What is owed is not forgotten because more forms than are remembered are compressed at once."""
    forms = [ledger.with_name(f"l.jsonl.{number}") for number in range(30, 0, -1)]
    for form in forms:
        lines.append(form, 2)
    reader = follow(ledger)
    reader.poll()
    late = lines.make(2)

    def compress_all() -> None:
        for form in forms:
            compress(form, f"{form.name}.gz", late=late if form is forms[0] else b"")

    reader.restart(compress_all)
    reader.wait(5 * QUIET_MS)
    assert reader.lines == lines.written


def test_a_compressed_form_of_a_file_that_a_late_reader_has_not_finished(
    ledger: Path, lines: Lines, follow: Follow
) -> None:
    """A reader that was held up for long first ends what it has open, and then looks what became of it."""
    lines.append(ledger, 3)
    reader = follow(ledger)
    reader.poll()
    copy = ledger.with_name("l.jsonl.1")
    shutil.copy(ledger, copy)
    reader.poll()
    ledger.write_bytes(b"")
    reader.poll()
    compress(copy, f"{copy.name}.gz")
    for _ in range(4):
        reader.clock.advance(4 * QUIET_MS)
        reader.poll()
    assert reader.lines == lines.written
    assert reader.tail.stats.suspected_loss == 0


@pytest.mark.parametrize("size", [0, 2])
def test_compressing_many_forms_at_once_arouses_no_suspicion(
    ledger: Path, lines: Lines, follow: Follow, size: int
) -> None:
    """However many they are, and if nothing was ever in them: each compressed form is one of a file that was read."""
    forms = [ledger.with_name(f"l.jsonl.{number}") for number in range(30, 0, -1)]
    for form in forms:
        form.touch()
        lines.append(form, size)
    reader = follow(ledger)
    reader.wait(3 * QUIET_MS)
    for form in forms:
        compress(form, f"{form.name}.gz")
    reader.wait(5 * QUIET_MS)
    assert reader.lines == lines.written
    assert reader.tail.stats.suspected_loss == 0


def test_a_rotation_seen_half_way_is_counted(ledger: Path, lines: Lines, follow: Follow) -> None:
    """A look between the rename and the new file does not hide that one took the other's place."""
    lines.append(ledger, 3)
    reader = follow(ledger)
    reader.poll()
    rename(ledger)
    reader.poll()
    lines.append(ledger, 2)
    reader.wait(1_000)
    assert reader.lines == lines.written
    assert reader.tail.stats.rotations == 1


def test_a_copy_in_the_making_that_got_the_inode_of_an_older_copy_while_down(
    ledger: Path, lines: Lines, follow: Follow
) -> None:
    """An inode alone does not make a form of whose content nothing is known the one that was seen before the restart.

    Stopped seconds after a copy-and-truncate; started again in the middle of the next one.
    """
    copy = ledger.with_name("l.jsonl.1")
    lines.append(ledger, 10)
    reader = follow(ledger)
    reader.poll()
    shutil.copyfile(ledger, copy)
    reader.poll()
    ledger.write_bytes(b"")
    reader.poll()

    def copy_half() -> None:
        lines.append(ledger, 6)
        copy.write_bytes(ledger.read_bytes()[: 3 * 60])

    reader.restart(copy_half)
    reader.poll()
    shutil.copyfile(ledger, copy)
    reader.wait(2 * QUIET_MS)
    assert reader.lines == lines.written


def test_replaced_twice_with_a_restart_between_and_the_first_inode_again(
    ledger: Path, lines: Lines, follow: Follow, tmp_path: Path
) -> None:
    """A file that got a known inode may hold lines that another file brought since: they are not read twice."""
    first, second = tmp_path / "first", tmp_path / "second"
    lines.append(ledger, 5)
    reader = follow(ledger)
    reader.poll()
    first.hardlink_to(ledger)
    second.write_bytes(ledger.read_bytes() + lines.make(4))
    second.replace(ledger)
    reader.poll()

    def replace_again() -> None:
        first.write_bytes(ledger.read_bytes() + lines.make(3))
        first.replace(ledger)

    reader.restart(replace_again)
    reader.wait(2 * QUIET_MS)
    assert reader.lines == lines.written
    assert reader.tail.stats.suspected_loss == 0
