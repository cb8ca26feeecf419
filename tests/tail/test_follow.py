"""What a tail must survive, row by row, from public reports of other projects."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from preempt_exporter.ledger.records import MAX_LINE_BYTES
from preempt_exporter.tail.batch import read_batch
from tests.tail.conftest import QUIET_MS, Lines, Reader, compress, open_descriptors

Follow = Callable[..., Reader]


def test_a_writer_flat_out(ledger: Path, lines: Lines, follow: Follow) -> None:
    """Lines of 666 bytes, written in two halves without pause while they are read, come whole and once."""
    reader = follow(ledger)
    text = [lines.make(1, 666) for _ in range(4_000)]

    def write() -> None:
        with ledger.open("ab", buffering=0) as file:
            for line in text:
                file.write(line[:333])
                file.write(line[333:])

    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive():
        reader.poll()
    writer.join()
    reader.poll()
    assert reader.lines == lines.written
    assert all(chunk.data.endswith(b"\n") for chunk in reader.chunks)


def test_half_a_line_waits_for_its_other_half(ledger: Path, follow: Follow) -> None:
    """Half a line, a restart, the other half: one line; meanwhile the half is counted as pending."""
    ledger.write_bytes(b'{"a":')
    reader = follow(ledger)
    assert reader.poll() == []
    assert reader.tail.stats.pending_bytes == 5
    reader.wait(4 * QUIET_MS)
    reader.restart()
    with ledger.open("ab") as file:
        file.write(b"1}\n")
    assert reader.poll() == [b'{"a":1}\n']
    assert reader.tail.stats.pending_bytes == 0


def test_the_last_line_of_a_deleted_file(ledger: Path, follow: Follow) -> None:
    """A file that vanishes is read to its end, its last line without newline too, and then let go."""
    ledger.write_bytes(b"a\nb\ntorn")
    reader = follow(ledger)
    reader.poll()
    with ledger.open("ab") as file:
        file.write(b" on")
    ledger.unlink()
    reader.poll()
    assert f"{ledger} (deleted)" in open_descriptors()
    reader.wait(2 * QUIET_MS)
    assert reader.lines == [b"a\n", b"b\n", b"torn on"]
    assert f"{ledger} (deleted)" not in open_descriptors()
    assert reader.tail.stats.files == 0
    assert reader.tail.stats.suspected_loss == 0


def test_an_offset_beyond_the_end(ledger: Path, lines: Lines, follow: Follow) -> None:
    """A file that is shorter than the saved offset is read from its start, and that is said."""
    lines.append(ledger, 100)
    reader = follow(ledger)
    reader.poll()
    reader.restart(lambda: ledger.write_bytes(lines.make(3)))
    reader.wait(4 * QUIET_MS)
    assert reader.lines == lines.written
    assert reader.tail.stats.truncations == 1
    assert reader.said("lost or changed what was read")
    assert reader.tail.stats.suspected_loss == 1


def test_a_file_that_shrank_to_lines_that_were_read(ledger: Path, lines: Lines, follow: Follow) -> None:
    """What is left after a cut at the end was read before: it is not read again, and what follows is."""
    lines.append(ledger, 100)
    reader = follow(ledger)
    reader.poll()
    os.truncate(ledger, len(b"".join(lines.written[:40])))
    reader.wait(2 * QUIET_MS)
    lines.append(ledger, 5)
    reader.wait(QUIET_MS)
    assert reader.lines == lines.written
    assert reader.tail.stats.truncations == 1


def test_two_rotated_forms_with_the_same_first_kilobyte(ledger: Path, follow: Follow) -> None:
    """Within a ledger, too, an equal beginning is not equal content."""
    head = b"x" * 63 + b"\n"
    ledger.with_name("l.jsonl.2").write_bytes(head * 16 + b"first\n")
    ledger.with_name("l.jsonl.1").write_bytes(head * 16 + b"b\n")
    ledger.write_bytes(head * 16 + b"cc\n")
    reader = follow(ledger)
    reader.wait(3 * QUIET_MS)
    assert len(reader.lines) == 3 * 17


def test_truncate_and_write_more_at_once(ledger: Path, lines: Lines, follow: Follow) -> None:
    """10 lines read, then truncated and 100 written before anybody looks: 110."""
    lines.append(ledger, 10)
    reader = follow(ledger)
    reader.poll()
    ledger.write_bytes(lines.make(100))
    reader.poll()
    assert reader.lines == lines.written
    assert len(reader.lines) == 110
    assert reader.tail.stats.suspected_loss == 0


def test_truncation_to_the_very_size_that_was_read(ledger: Path, lines: Lines, follow: Follow) -> None:
    """The size alone tells nothing: the bytes before the offset do."""
    lines.append(ledger, 10)
    reader = follow(ledger)
    reader.poll()
    ledger.write_bytes(lines.make(10))
    reader.poll()
    assert reader.lines == lines.written


def test_a_vanished_file_without_trace_is_suspected_loss(ledger: Path, lines: Lines, follow: Follow) -> None:
    """Deleted while down: lines may have been missed, which is counted and said once."""
    lines.append(ledger, 3)
    reader = follow(ledger)
    reader.poll()
    reader.restart(ledger.unlink)
    reader.wait(6 * QUIET_MS)
    assert reader.tail.stats.suspected_loss == 1
    assert reader.said("gone without a trace")


@pytest.mark.parametrize(("idle_ms", "suspected"), [(540_000, 1), (660_000, 0)])
def test_who_deletes_a_ledger_that_was_idle_for_long_is_clearing_up(
    tmp_path: Path, lines: Lines, follow: Follow, idle_ms: int, suspected: int
) -> None:
    """Of two files the one that is not held open: with more ledgers than descriptors there are many of them."""
    reader = follow(tmp_path, max_open_files=1)
    for name in ("a.jsonl", "b.jsonl"):
        lines.append(tmp_path / name, 3)
        reader.poll()
    reader.clock.advance(idle_ms)
    reader.poll()
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).unlink()
    reader.wait(6 * QUIET_MS)
    assert reader.tail.stats.suspected_loss == suspected


def test_the_last_lines_of_a_ledger_that_was_idle_for_long_are_found_in_its_compressed_form(
    ledger: Path, tmp_path: Path, lines: Lines, follow: Follow
) -> None:
    """Written, rotated and compressed between two looks, after a night without a line."""
    reader = follow(tmp_path, max_open_files=1)
    for path in (tmp_path / "held-open.jsonl", ledger):
        lines.append(path, 3)
        reader.poll()
    reader.clock.advance(660_000)
    reader.poll()
    lines.append(ledger, 2)
    compress(ledger, "l.jsonl.1.gz")
    reader.wait(6 * QUIET_MS)
    assert reader.lines == lines.written
    assert reader.tail.stats.suspected_loss == 0


def test_bytes_pass_untouched(ledger: Path, follow: Follow) -> None:
    """NULs, a BOM, carriage returns, blank lines and broken UTF-8 are the decoder's matter."""
    content = b"\xef\xbb\xbfa\r\n\n\0\0\0b\n\xff\xfe\n\x1b\n"
    ledger.write_bytes(content)
    reader = follow(ledger)
    reader.poll()
    assert b"".join(chunk.data for chunk in reader.chunks) == content


@pytest.mark.parametrize(
    "long",
    [b"x" * (MAX_LINE_BYTES - 1), b"x" * MAX_LINE_BYTES, b"x" * (MAX_LINE_BYTES + 1), b"x" * (5 << 20)],
    ids=["below", "at", "above", "far"],
)
@pytest.mark.parametrize("step", [1 << 30, 300_000], ids=["at-once", "growing"])
def test_long_lines_are_cut_alike_live_and_in_batch(ledger: Path, follow: Follow, long: bytes, step: int) -> None:
    """However a long line arrives, it comes out once, cut to one byte more than the limit, and batch agrees."""
    content = b"a\n" + long + b"\nb\n" + long + b"\nc\n"
    reader = follow(ledger)
    with ledger.open("ab", buffering=0) as file:
        for start in range(0, len(content), step):
            file.write(content[start : start + step])
            reader.poll()
            if start % 900_000 == 0:
                reader.restart()
    reader.poll()
    cut = long[: MAX_LINE_BYTES + 1] + b"\n"
    assert reader.lines == [b"a\n", cut, b"b\n", cut, b"c\n"]
    in_batch = [line for chunk in read_batch([str(ledger)]) for line in chunk.data.splitlines(keepends=True)]
    assert in_batch == reader.lines


def test_a_hole_of_nuls_is_no_line(ledger: Path, follow: Follow) -> None:
    """A writer that does not append leaves a hole of NULs after a truncation: the line behind it is not lost."""
    ledger.write_bytes(b"a\n")
    os.truncate(ledger, 5 << 20)
    with ledger.open("ab") as file:
        file.write(b"b\n")
    reader = follow(ledger)
    lines = reader.poll()
    assert lines[0] == b"a\n"
    assert [line.lstrip(b"\0") for line in lines[1:]] == [b"b\n"]
    assert len(lines[1]) <= MAX_LINE_BYTES


def test_compressed_data_under_the_live_name_is_not_ledger_text(ledger: Path, follow: Follow) -> None:
    """A gzip file where a ledger should be is said and left alone."""
    ledger.write_bytes(b"\x1f\x8b\x08\x00rubbish\nmore\n")
    reader = follow(ledger)
    assert reader.poll() == []
    assert reader.said("compressed data")
    assert reader.tail.caught_up()


def test_caught_up_means_the_sizes_at_the_start(ledger: Path, lines: Lines, follow: Follow) -> None:
    """Not before every readable file is read to its size at the start, whatever is appended or vanishes meanwhile."""
    other = ledger.with_name("m.jsonl")
    gone = ledger.with_name("n.jsonl")
    shrinks = ledger.with_name("o.jsonl")
    for path in (ledger, other, gone, shrinks):
        lines.append(path, 40_000)
    reader = follow(ledger.parent)
    assert not reader.tail.caught_up()
    reader.poll(1)
    lines.append(other, 1)
    gone.unlink()
    os.truncate(shrinks, 10)
    polls = 0
    while not reader.tail.caught_up():
        polls += 1
        assert polls < 100
        reader.poll(1)
    assert polls > 5
    lines.append(ledger, 1)
    assert reader.tail.caught_up()


def test_lag_is_told_in_bytes_and_seconds(ledger: Path, lines: Lines, follow: Follow) -> None:
    """Bytes not read, the age of the oldest of them, the number of files, the room on the disk."""
    lines.append(ledger, 20_000)
    reader = follow(ledger, ledger.with_name("m.jsonl"))
    reader.tail.scan()
    size = ledger.stat().st_size
    assert reader.tail.stats.lag_bytes == size
    reader.clock.advance(7_000)
    assert reader.tail.stats.lag_seconds == pytest.approx(7, abs=0.01)
    reader.poll(1)
    assert 0 < reader.tail.stats.lag_bytes < size
    assert reader.tail.stats.lag_seconds == pytest.approx(7, abs=0.01)
    reader.poll()
    with ledger.open("ab") as file:
        file.write(b"half")
    reader.poll()
    reader.clock.advance(7_000)
    stats = reader.tail.stats
    assert (stats.lag_bytes, stats.pending_bytes, stats.lag_seconds) == (4, 4, 0)
    assert stats.files == 1
    assert stats.bytes_read == size
    assert stats.filesystem_avail_bytes is not None
    assert stats.filesystem_avail_bytes > 0


def test_positions_include_a_chunk_once_it_was_advanced_past(ledger: Path, lines: Lines, follow: Follow) -> None:
    """A kill between two chunks repeats the one in hand and none before it."""
    lines.append(ledger, 40_000)
    reader = follow(ledger)
    reader.tail.scan()
    chunks = reader.tail.read(1 << 30)
    first = next(chunks)
    second = next(chunks)
    kept = reader.stop()
    chunks.close()
    assert (first.offset, second.offset) == (0, len(first.data))
    reader.start(kept)
    reader.poll()
    assert reader.chunks[0].offset == second.offset
    assert first.data + b"".join(chunk.data for chunk in reader.chunks) == ledger.read_bytes()


def test_a_rewrite_that_size_and_time_hide(ledger: Path, lines: Lines, follow: Follow) -> None:
    """A rewrite of equal size within one tick of the file system's clock is found when the file is quiet."""
    lines.append(ledger, 3)
    reader = follow(ledger)
    reader.poll()
    before = ledger.stat()
    with ledger.open("r+b") as file:
        file.write(lines.make(3))
    os.utime(ledger, ns=(before.st_atime_ns, before.st_mtime_ns))
    reader.wait(2 * QUIET_MS)
    assert reader.lines == lines.written
