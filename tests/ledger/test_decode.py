"""Chunks of ledger to records: the fast ways agree with the exact one, and nothing a line holds reaches another."""

from unittest.mock import patch

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from preempt_exporter.ledger import decode
from preempt_exporter.ledger.decode import BadLine, Decoded, decode_chunk, decode_line
from preempt_exporter.ledger.exact import MAX_NESTING, nests_deeper, read_exactly
from preempt_exporter.ledger.records import MAX_LINE_BYTES, Attempt, Drain, Record
from preempt_exporter.ledger.tolerant import read_attempt_tolerantly, read_event_tolerantly
from tests.ledger.ledger_lines import ATTEMPT, CHUNKS, DRAIN, event, line_by_line, lines, typed

TWO_KINDS = DRAIN + b"\n" + ATTEMPT + b"\n"


def agrees_with_exact_reader(data: bytes, decoded: Decoded) -> None:
    expected = list(line_by_line(data))
    records = [verdict for _, _, verdict in expected if not isinstance(verdict, BadLine)]
    bad = [
        BadLine(reason=verdict.reason, detail=verdict.detail, offset=offset, line=index)
        for index, offset, verdict in expected
        if isinstance(verdict, BadLine)
    ]
    assert [typed(record) for record in decoded.records] == [typed(record) for record in records]
    assert decoded.bad == bad
    assert decoded.lines == len(expected)


@given(data=CHUNKS, newline=st.booleans(), piece_bytes=st.integers(1, 400), patience_lines=st.integers(1, 3))
def test_a_chunk_is_read_as_its_lines_are_one_by_one(
    data: bytes, newline: bool, piece_bytes: int, patience_lines: int
) -> None:
    """However the bytes fall and wherever pieces end, the fast ways give what the exact reader gives line by line."""
    data += b"\n" if newline else b""
    with patch.object(decode, "PIECE_BYTES", piece_bytes), patch.object(decode, "PATIENCE_LINES", patience_lines):
        agrees_with_exact_reader(data, decode_chunk(data))


@given(lines())
def test_reading_tolerantly_is_exact_wherever_it_does_not_refuse(line: bytes) -> None:
    """The looser twins give the exact reader's record, or leave the line to it."""
    line = line.replace(b"\n", b" ")
    assume(line.isascii() and b"\\" not in line and not nests_deeper(line, MAX_NESTING))
    read = read_event_tolerantly if b'"event"' in line else read_attempt_tolerantly
    try:
        record = read(line)
    except msgspec.DecodeError:
        return
    exact = read_exactly(line)
    assert not isinstance(exact, BadLine)
    assert typed(record) == typed(exact)


def test_a_ledger_of_other_spellings_is_read_tolerantly_from_some_line_on() -> None:
    """Integer ids, whole floats and empty names on every line do not send every line to the exact reader."""
    strange = event(task_id="7", ts_ms="5.0", run='""') + b"\n"
    attempt = ATTEMPT.replace(b'"b-1"', b"12") + b"\n"
    with patch.object(decode, "read_exactly", wraps=read_exactly) as exact:
        decoded = decode_chunk((strange + attempt) * 500 + DRAIN + b"\n")
    assert exact.call_count == decode.PATIENCE_LINES
    assert decoded.records == [decode_line(strange), decode_line(attempt)] * 500 + [decode_line(DRAIN)]


@given(st.binary())
def test_any_bytes_are_read_without_raising(data: bytes) -> None:
    """No bytes make the decoder raise, and every line that is not blank is a record or a bad line."""
    agrees_with_exact_reader(data, decode_chunk(data))


@given(lines())
def test_one_line_is_read_as_the_exact_reader_does(line: bytes) -> None:
    """`decode_line`, which takes short cuts, gives the verdict of the exact reader."""
    line = line.replace(b"\n", b" ")
    verdict = decode_line(line + b"\n")
    agrees_with_exact_reader(
        line if line.strip(b" \t\r\0") else b"x",
        Decoded([], [verdict], 1) if isinstance(verdict, BadLine) else Decoded([verdict], [], 1),
    )


@given(lines(), st.sampled_from([DRAIN, ATTEMPT]), st.sampled_from([b"\n", b"\r\n"]))
def test_a_line_changes_nothing_about_its_neighbours(line: bytes, neighbour: bytes, newline: bytes) -> None:
    """Whatever stands between two good lines, both are read, and as they always are."""
    decoded = decode_chunk(neighbour + newline + line + b"\n" + neighbour + newline)
    good = decode_line(neighbour)
    assert decoded.records[0] == good
    assert decoded.records[-1] == good
    assert decoded.lines == 2 + sum(1 for _ in line_by_line(line))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b'{"event":"mode","mode":"normal"}{"event":"mode","mode":"normal"}\n', id="two on a line"),
        pytest.param(
            b'{"event":"mode","mode":"normal"}{"event":"mode",\n"mode":"normal"}\n', id="as many objects as lines"
        ),
        pytest.param(b'{"event":"mode",\n"mode":"normal"}\n', id="one over two lines"),
        pytest.param(b'{"event":"mode","mode":\n{"event":"mode","mode":"normal"}\n', id="torn, then whole"),
        pytest.param(b'{"event":"mode","mode":"normal","by":"}\n{"}\n', id="a newline inside a string"),
        pytest.param(
            b'{"event":"mode","mode":"normal"}\n{"event":"mode",\n"mode":"normal"}{"event":"mode","mode":"normal"}\n',
            id="balanced over three lines",
        ),
    ],
)
def test_objects_and_lines_must_coincide(data: bytes) -> None:
    """msgspec alone would take objects that share a line or span two; each such line is bad instead."""
    decoded = decode_chunk(data)
    assert decoded.bad
    agrees_with_exact_reader(data, decoded)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(ATTEMPT[:-1] + b',"meta":{"event":"drain"}}', id="nested"),
        pytest.param(ATTEMPT[:-1] + b',"note":"\\"event\\""}', id="in a string"),
        pytest.param(ATTEMPT[:-1] + b',"event":null}', id="null is absent"),
    ],
)
def test_an_event_that_is_no_top_level_field_leaves_an_attempt_an_attempt(line: bytes) -> None:
    """Only a top-level `event` makes a line an event."""
    assert isinstance(decode_line(line), Attempt)
    assert [type(record) for record in decode_chunk(line + b"\n" + TWO_KINDS).records] == [Attempt, Drain, Attempt]


def test_an_escaped_event_key_is_an_event_key() -> None:
    """A key spelt with escapes is the same key, even where the line would pass for an attempt."""
    both = ATTEMPT[:-1] + b',"\\u0065vent":"drain","task_id":"t","ts_ms":1,"action":"fail"}'
    assert isinstance(decode_line(both), Drain)
    assert [type(record) for record in decode_chunk(both + b"\n").records] == [Drain]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(b"", b"\n", id="newline"),
        pytest.param(b"", b"", id="no newline at the end"),
        pytest.param(b"", b"\r\n", id="CRLF"),
        pytest.param(b"\0\0\0", b"\n", id="NULs before the line"),
        pytest.param(b"\0" * (MAX_LINE_BYTES + 1), b"\n", id="more NULs than a line may have bytes"),
        pytest.param(b"\n\r\n \t\n\0\0\n", b"\n \n", id="blank lines"),
        pytest.param(b"  ", b"  \n", id="white space around"),
    ],
)
def test_what_surrounds_a_line_is_accepted(before: bytes, after: bytes) -> None:
    """CRLF, blank lines, NULs before a line and a missing last newline change nothing and are not counted."""
    assert decode_chunk(before + DRAIN + after) == Decoded([decode_line(DRAIN)], [], 1)  # type: ignore[list-item]


def test_a_byte_order_mark_is_accepted_at_the_start_of_a_file_only() -> None:
    """A BOM at offset 0 is skipped; in the middle of a file it makes its line bad; offsets count it."""
    marked = b"\xef\xbb\xbf" + DRAIN + b"\noops\n"
    at_start = decode_chunk(marked, at_file_start=True)
    assert at_start.records == [decode_line(DRAIN)]
    assert [(bad.reason, bad.offset, bad.line) for bad in at_start.bad] == [("not_json", 3 + len(DRAIN) + 1, 1)]
    assert [bad.line for bad in decode_chunk(marked).bad] == [0, 1]
    assert decode_chunk(b"\xef\xbb\xbf", at_file_start=True) == Decoded([], [], 0)


def test_bad_lines_know_their_place() -> None:
    """Offset and index point at the line in the data, blank lines included, over several pieces."""
    data = (DRAIN + b"\n\n") * 4000 + b"oops\n" + (ATTEMPT + b"\r\n") * 3000 + b'{"event":1}\n' + DRAIN
    decoded = decode_chunk(data)
    assert len(decoded.records) == 7001
    assert decoded.lines == 7003
    assert [(bad.offset, bad.line) for bad in decoded.bad] == [
        (data.index(b"oops"), 8000),
        (data.index(b'{"event":1'), 11001),
    ]


def test_records_keep_the_order_of_the_file() -> None:
    """Attempts and events that alternate come out in file order."""
    data = b"".join(
        event(task_id=f'"{number}"') + b"\n" + ATTEMPT.replace(b"b-1", b"%d" % number) + b"\n" for number in range(2000)
    )
    names = [name_of(record) for record in decode_chunk(data).records]
    assert names == [str(number) for number in range(2000) for _ in range(2)]


def name_of(record: Record) -> str:
    assert isinstance(record, Drain | Attempt)
    return record.task_id if isinstance(record, Drain) else record.job_id


def test_the_longest_line_is_read_and_one_byte_more_is_not() -> None:
    """A line of exactly 1 MiB is good, a longer one is bad; the lines around it are untouched."""
    longest = event(note='"' + "x" * (MAX_LINE_BYTES - len(event(note='""'))) + '"')
    assert len(longest) == MAX_LINE_BYTES
    assert decode_chunk(longest).lines == len(decode_chunk(longest).records) == 1
    decoded = decode_chunk(DRAIN + b"\n" + longest + b" \n" + DRAIN + b"\n")
    assert decoded.records == [decode_line(DRAIN)] * 2
    assert [(bad.reason, bad.line) for bad in decoded.bad] == [("too_long", 1)]
