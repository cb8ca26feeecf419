"""Many files: links, folders, globs, permissions, descriptors, idle cost."""

import errno
import gzip
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from preempt_exporter.tail.folders import list_entries
from preempt_exporter.tail.positions import FileState
from preempt_exporter.tail.source import open_regular
from tests.tail.conftest import QUIET_MS, Lines, Reader, open_descriptors

Follow = Callable[..., Reader]


def test_read_stop_rename_start_with_a_glob_that_matches_both(ledger: Path, lines: Lines, follow: Follow) -> None:
    """A file renamed while down, old and new name both matched: no duplicate, no loss; any name will do."""
    for index, renamed in enumerate(("l.jsonl.1", "l-old.jsonl")):
        folder = ledger.parent / str(index)
        folder.mkdir()
        live = folder / "l.jsonl"
        own = Lines()
        own.append(live, 10)
        reader = follow(folder / "*")
        reader.poll()

        def rename(live: Path = live, renamed: str = renamed, own: Lines = own) -> None:
            own.append(live, 2)
            live.rename(live.with_name(renamed))
            own.append(live, 3)

        reader.restart(rename)
        reader.wait(4 * QUIET_MS)
        assert sorted(reader.lines) == sorted(own.written)
        assert reader.tail.stats.suspected_loss == 0


def test_two_ledgers_with_the_same_first_kilobyte(ledger: Path, follow: Follow) -> None:
    """Equal beginnings, or wholly equal content, in two ledgers: both are read whole."""
    other = ledger.with_name("m.jsonl")
    third = ledger.with_name("n.jsonl")
    head = b"x" * 63 + b"\n"
    ledger.write_bytes(head * 16 + b"a\n")
    other.write_bytes(head * 16 + b"b\n")
    shutil.copy(other, third)
    reader = follow(ledger.parent)
    reader.poll()
    assert len(reader.lines) == 3 * 17


def test_an_unreadable_file_is_tried_again(ledger: Path, lines: Lines, follow: Follow) -> None:
    """A file that may not be read is counted, said once, retried, and read once it may; others are read meanwhile."""
    forbidden = {str(ledger)}

    def open_file(path: str) -> int:
        if path in forbidden:
            raise PermissionError(13, "Permission denied", path)
        return open_regular(path)

    lines.append(ledger, 3)
    other = ledger.with_name("m.jsonl")
    other.write_bytes(b"m\n")
    reader = follow(ledger.parent, open_file=open_file)
    assert reader.poll() == [b"m\n"]
    assert reader.tail.caught_up()
    reader.wait(10_000)
    stats = reader.tail.stats
    assert stats.unreadable_files == 1
    assert 5 <= stats.read_errors <= 25
    assert sum("Permission denied" in notice.message for notice in reader.notices) == 1
    forbidden.clear()
    assert reader.wait(2_000) == lines.written
    assert reader.tail.stats.unreadable_files == 0
    assert reader.said("can be read again")


def test_an_unreadable_folder_among_many(tmp_path: Path, follow: Follow) -> None:
    """A folder that cannot be listed is counted and said; the others are read, and it is too once it can be."""
    forbidden = {str(tmp_path / "b")}
    for name in "abc":
        (tmp_path / name).mkdir()
        (tmp_path / name / "l.jsonl").write_bytes(name.encode() + b"\n")

    def list_folder(path: str) -> "os._ScandirIterator[str]":
        if path in forbidden:
            raise PermissionError(13, "Permission denied", path)
        return os.scandir(path)

    reader = follow(tmp_path / "*" / "*.jsonl", list_folder=list_folder)
    assert sorted(reader.poll()) == [b"a\n", b"c\n"]
    assert reader.tail.stats.unreadable_files == 1
    assert reader.said("folder cannot be listed")
    assert reader.tail.files(1) == [FileState(str(tmp_path / "b"), 0, "folder cannot be listed: Permission denied")]
    assert reader.tail.caught_up()
    forbidden.clear()
    assert reader.wait(12_000) == [b"b\n"]
    assert reader.tail.stats.unreadable_files == 0
    assert [file.error for file in reader.tail.files(10)] == [None, None, None]


@pytest.mark.parametrize("down", [True, False])
@pytest.mark.parametrize("shifted", [True, False])
def test_rotated_forms_in_a_folder_that_cannot_be_listed_for_a_while(
    ledger: Path, lines: Lines, follow: Follow, down: bool, shifted: bool
) -> None:
    """However many there are, read and finished, under whatever names: they have not gone and are not read again."""
    refuses = False

    def list_folder(path: str) -> "Iterator[os.DirEntry[str]]":
        if refuses:
            raise PermissionError(errno.EACCES, "Permission denied")
        return list_entries(path)

    forms = [ledger.with_name(f"l.jsonl.{number}") for number in range(40, 0, -1)]
    for form in forms:
        lines.append(form)
    reader = follow(ledger.parent, list_folder=list_folder)
    reader.wait(2 * QUIET_MS)
    refuses = True

    def shift() -> None:
        for form in forms if shifted else ():
            form.rename(form.with_name(f"l.jsonl.{int(form.suffix[1:]) + 1}"))

    if down:
        reader.restart(shift)
    else:
        shift()
    reader.wait(6 * QUIET_MS)
    refuses = False
    reader.wait(6 * QUIET_MS)
    assert reader.lines == lines.written
    assert reader.tail.stats.suspected_loss == 0


def test_a_symbolic_link_that_moves(tmp_path: Path, lines: Lines, follow: Follow) -> None:
    """The old target is finished, the new one followed; live and over a restart."""
    targets = [tmp_path / name for name in ("one.txt", "two.txt", "three.txt")]
    link = tmp_path / "l.jsonl"
    lines.append(targets[0], 3)
    link.symlink_to(targets[0])
    reader = follow(link)
    reader.poll()
    for old, new, down in ((0, 1, False), (1, 2, True)):

        def point(old: int = old, new: int = new) -> None:
            lines.append(targets[old], 2)
            lines.append(targets[new], 3)
            fresh = tmp_path / "fresh"
            fresh.symlink_to(targets[new])
            fresh.replace(link)

        if down:
            reader.restart(point)
        else:
            point()
        reader.poll()
        assert reader.lines == lines.written
    reader.wait(3 * QUIET_MS)
    assert reader.lines == lines.written
    assert reader.tail.stats.suspected_loss == 0
    assert str(targets[0]) not in open_descriptors()


def test_a_file_and_a_folder_that_appear_later(tmp_path: Path, lines: Lines, follow: Follow) -> None:
    """Nothing has to exist at the start; what appears is read from its first byte at the next scan."""
    deep = tmp_path / "a" / "b" / "l.jsonl"
    reader = follow(deep, tmp_path / "jobs" / "*" / "x.jsonl", tmp_path / "**" / "deep.jsonl")
    reader.poll()
    assert reader.tail.caught_up()
    deep.parent.mkdir(parents=True)
    lines.append(deep, 2)
    reader.wait(1_000)
    (tmp_path / "jobs" / "7").mkdir(parents=True)
    lines.append(tmp_path / "jobs" / "7" / "x.jsonl", 2)
    reader.wait(1_000)
    lines.append(tmp_path / "jobs" / "7" / "deep.jsonl", 2)
    reader.wait(1_000)
    assert reader.lines == lines.written


def test_a_folder_that_is_renamed(tmp_path: Path, lines: Lines, follow: Follow) -> None:
    """What the old folder's files still get is read, and the new folder of that name is followed."""
    folder = tmp_path / "logs"
    folder.mkdir()
    lines.append(folder / "l.jsonl", 3)
    reader = follow(folder)
    reader.poll()
    lines.append(folder / "l.jsonl", 1)
    folder.rename(tmp_path / "old")
    folder.mkdir()
    lines.append(folder / "l.jsonl", 2)
    reader.wait(4 * QUIET_MS)
    assert reader.lines == lines.written
    assert reader.tail.stats.suspected_loss == 0


@pytest.mark.parametrize("away_ms", [1_000, 6 * QUIET_MS])
def test_a_folder_that_is_away_for_a_while(tmp_path: Path, lines: Lines, follow: Follow, away_ms: int) -> None:
    """Its compressed forms are those that were there before: they hold nothing that was not read."""
    folder = tmp_path / "logs"
    folder.mkdir()
    for number in range(1, 4):
        (folder / f"l.jsonl.{number}.gz").write_bytes(gzip.compress(b"older"))
    lines.append(folder / "l.jsonl", 3)
    reader = follow(folder / "l.jsonl")
    reader.wait(2 * QUIET_MS)
    reader.clock.advance(10**9)
    reader.poll()
    folder.rename(tmp_path / "away")
    reader.wait(away_ms)
    (tmp_path / "away").rename(folder)
    reader.wait(6 * QUIET_MS)
    lines.append(folder / "l.jsonl", 3)
    reader.wait(2 * QUIET_MS)
    assert reader.lines == lines.written
    assert reader.tail.stats.suspected_loss == 0


def test_a_folder_renamed_within_a_glob(tmp_path: Path, lines: Lines, follow: Follow) -> None:
    """A file that moves with its folder to another ledger's name keeps its position."""
    (tmp_path / "run1").mkdir()
    lines.append(tmp_path / "run1" / "l.jsonl", 3)
    reader = follow(tmp_path / "*" / "l.jsonl")
    reader.poll()
    (tmp_path / "run1").rename(tmp_path / "run2")
    lines.append(tmp_path / "run2" / "l.jsonl", 3)
    reader.wait(4 * QUIET_MS)
    reader.restart(lambda: (tmp_path / "run2").rename(tmp_path / "run3"))
    lines.append(tmp_path / "run3" / "l.jsonl", 3)
    reader.wait(4 * QUIET_MS)
    assert reader.lines == lines.written
    assert reader.tail.stats.suspected_loss == 0


def test_one_file_under_two_names_is_read_once(ledger: Path, lines: Lines, follow: Follow) -> None:
    """A link beside its target is the same file, not equal content."""
    lines.append(ledger, 3)
    ledger.with_name("current.jsonl").symlink_to(ledger)
    reader = follow(ledger.parent)
    reader.poll()
    reader.wait(2 * QUIET_MS)
    assert reader.lines == lines.written
    assert reader.said("the same file as one of")


@pytest.mark.parametrize("down", [True, False])
def test_an_inode_that_another_ledger_got(tmp_path: Path, follow: Follow, down: bool) -> None:
    """The file that has it is no sequel of what was read under it: each ledger keeps what it knows of its own."""
    first, second, fresh = (tmp_path / name for name in ("b.jsonl", "a.jsonl", "fresh"))
    of_first = [f"first {number}\n".encode() for number in range(8)]
    of_second = [f"second {number}\n".encode() for number in range(8)]
    first.write_bytes(b"".join(of_first[:5]))
    (tmp_path / "c.jsonl").write_bytes(b"another\n")
    reader = follow(tmp_path, max_open_files=1)
    reader.poll()

    def replace() -> None:
        fresh.write_bytes(b"".join(of_first))
        first.rename(second)
        second.write_bytes(b"".join(of_second))
        fresh.replace(first)

    if down:
        reader.restart(replace)
    else:
        replace()
    reader.wait(3 * QUIET_MS)
    for ledger, lines in ((first, of_first), (second, of_second)):
        chunks = [chunk for chunk in reader.chunks if chunk.ledger == str(ledger)]
        assert b"".join(chunk.data for chunk in chunks) == b"".join(lines)
    assert reader.tail.stats.truncations == 0


def test_one_busy_ledger_does_not_starve_the_others(ledger: Path, lines: Lines, follow: Follow) -> None:
    """With a budget, a later ledger has its turn after one more read, not after the first one's end."""
    lines.append(ledger, 200_000)
    ledger.with_name("m.jsonl").write_bytes(b"m\n")
    reader = follow(ledger.parent)
    reader.poll(1)
    reader.poll(1)
    assert b"m\n" in reader.lines
    assert len(reader.lines) < 100_000


def test_a_limit_on_descriptors(tmp_path: Path, follow: Follow) -> None:
    """However many files there are, no more than the limit are held open, and all are read and followed."""
    for number in range(300):
        (tmp_path / f"{number:03}.jsonl").write_bytes(b"a\n")
    reader = follow(tmp_path, max_open_files=16)
    reader.poll()
    assert len(reader.lines) == 300
    assert sum(name.startswith(str(tmp_path)) for name in open_descriptors()) <= 16
    for number in range(300):
        with (tmp_path / f"{number:03}.jsonl").open("ab") as file:
            file.write(b"b\n")
    reader.wait(15_000)
    assert len(reader.lines) == 600
    (tmp_path / "000.jsonl").rename(tmp_path / "000.jsonl.1")
    (tmp_path / "000.jsonl").write_bytes(b"c\n")
    reader.wait(15_000)
    assert len(reader.lines) == 601


def test_an_idle_tail_of_thousands_of_files_looks_at_few(tmp_path: Path, follow: Follow) -> None:
    """Once idle, a scan costs a bounded number of looks, so that ten scans a second stay below 1 % of a core."""
    for number in range(3_000):
        (tmp_path / f"{number}.jsonl").write_bytes(b"a\n")
    reader = follow(tmp_path)
    reader.clock.advance(10**12)
    reader.poll()
    for _ in range(3):
        reader.clock.advance(11_000)
        reader.poll()
    assert len(reader.lines) == 3_000
    looks = 0
    real_stat = os.stat

    def counted(*arguments: object, **options: object) -> os.stat_result:
        nonlocal looks
        looks += 1
        return real_stat(*arguments, **options)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "stat", counted)
        for _ in range(50):
            reader.clock.advance(100)
            reader.poll()
    assert 1_000 < looks < 6_000
    with (tmp_path / "2999.jsonl").open("ab") as file:
        file.write(b"b\n")
    reader.tail.scan({str(tmp_path / "2999.jsonl")})
    assert [chunk.data for chunk in reader.tail.read(1 << 20)] == [b"b\n"]
