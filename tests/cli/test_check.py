"""`check`: every bad line with its place, whatever is read from where."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preempt_exporter.cli.check import Findings, report_json, report_lines, stream_chunks
from preempt_exporter.cli.progress import watched
from preempt_exporter.clock import FixedClock
from preempt_exporter.ledger.chunk import Chunk
from preempt_exporter.ledger.records import MAX_LINE_BYTES

GOOD = b'{"event":"drain","task_id":"t-1","ts_ms":5,"action":"fail_task_not_replay"}\n'
CLI = [sys.executable, "-c", "import sys; from preempt_exporter.cli.main import main; sys.exit(main(sys.argv[1:]))"]


def chunk(path: str, offset: int, data: bytes) -> Chunk:
    return Chunk(ledger="l", path=path, offset=offset, data=data)


def check_on(stdin: bytes, *flags: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([*CLI, "check", *flags, "-"], input=stdin, capture_output=True, check=False)


def test_lines_are_numbered_per_file_over_its_chunks() -> None:
    """Line numbers count from 1 in each file, blank lines included; offsets are the file's; a BOM is fine at 0 only."""
    chunks = [
        chunk("a", 0, b"\xef\xbb\xbf" + GOOD + b"\noops\n"),
        chunk("b", 0, b"oops\n"),
        chunk("a", 500, GOOD + b"\xef\xbb\xbf" + GOOD + b"oops"),
    ]
    found = list(Findings().among(chunks))
    assert [(bad.file, bad.line, bad.offset) for bad in found] == [
        ("a", 3, 4 + len(GOOD)),
        ("b", 1, 0),
        ("a", 5, 500 + len(GOOD)),
        ("a", 6, 503 + 2 * len(GOOD)),
    ]


def test_lines_are_numbered_where_a_copy_was_read_already() -> None:
    """A file that goes on from what a rotated form of the ledger held has its own line numbers all the same."""
    chunks = [chunk("l.1", 0, GOOD * 5), chunk("other", 0, GOOD * 3), chunk("l", len(GOOD * 5), b"oops\n")]
    assert [(bad.file, bad.line) for bad in Findings().among(chunks)] == [("l", 6)]


def test_a_report_is_a_line_per_bad_line() -> None:
    """`file:line: reason: detail`, with a path that is no UTF-8 or would break the line made printable."""
    out = io.StringIO()
    findings = Findings()
    report_lines(findings.among([chunk("d/l\udcff\n\x1b[2J.jsonl", 0, GOOD + b"{}\n")]), findings, out)
    assert out.getvalue() == "d/l\\udcff\\n\\x1b[2J.jsonl:2: unknown_kind: neither `event` nor `job_id`\n"
    assert findings.summary() == "2 lines in 1 file: 1 bad (unknown_kind 1)"


@pytest.mark.parametrize("bad", [0, 1, 3])
def test_a_report_is_json_when_asked(bad: int) -> None:
    """One JSON object with every bad line and the totals, however many there are."""
    out = io.StringIO()
    findings = Findings()
    report_json(findings.among([chunk("a", 0, GOOD + b"oops\n" * bad)]), findings, out)
    report = json.loads(out.getvalue())
    assert [line["line"] for line in report["bad_lines"]] == list(range(2, 2 + bad))
    assert {key: report[key] for key in ("files", "lines", "bad")} == {"files": 1, "lines": 1 + bad, "bad": bad}
    assert report["reasons"] == ({"not_json": bad} if bad else {})
    if bad:
        assert set(report["bad_lines"][0]) == {"file", "line", "offset", "reason", "detail"}


def test_standard_input_that_is_good_is_exit_0() -> None:
    """Good lines, the last without its newline: exit 0, nothing on standard output, a summary beside it."""
    done = check_on(GOOD + GOOD.rstrip(b"\n"))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"2 lines in 1 file: 0 bad\n")


def test_standard_input_with_a_bad_line_is_exit_1() -> None:
    """A torn last line is reported with its place: exit 1."""
    done = check_on(GOOD + b"\n" + GOOD[:20])
    assert done.returncode == 1
    assert done.stdout == b"-:3: not_json: the line ends too early\n"
    assert done.stderr == b"2 lines in 1 file: 1 bad (not_json 1)\n"


def test_json_leaves_standard_error_alone() -> None:
    """With --json standard output is one JSON object and standard error is empty."""
    done = check_on(b"oops\n", "--json")
    assert (done.returncode, done.stderr) == (1, b"")
    assert json.loads(done.stdout)["bad"] == 1


def test_standard_input_that_is_closed_is_exit_2() -> None:
    """Nothing to read from is one line and exit 2, no traceback."""
    with Path(os.devnull).open("wb") as write_only:
        done = subprocess.run([*CLI, "check", "-"], stdin=write_only, capture_output=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(b"preempt-exporter check: standard input: ")
    assert done.stderr.count(b"\n") == 1


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    """`check ... | head -1` ends without a traceback."""
    process = subprocess.Popen(
        [*CLI, "check", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    _, errors = process.communicate(b"oops\n" * 100_000)
    assert b"Traceback" not in errors
    assert process.returncode == 0


class Trickle:
    """A stream that gives what it holds in given portions."""

    def __init__(self, portions: list[bytes]) -> None:
        self._portions = iter(portions)

    def read1(self, size: int, /) -> bytes:
        return next((portion[:size] for portion in self._portions if portion), b"")


@given(st.lists(st.sampled_from([b"a", b"\n", b"bc\n", b"\r\n", b"\0", b"d\ne"]), max_size=30))
def test_a_stream_is_cut_at_line_ends_only(portions: list[bytes]) -> None:
    """However a stream trickles in, chunks are whole lines, contiguous, and together all of it."""
    chunks = list(stream_chunks(Trickle(portions), "-"))
    assert b"".join(piece.data for piece in chunks) == b"".join(portions)
    assert all(piece.data.endswith(b"\n") for piece in chunks[:-1])
    offset = 0
    for piece in chunks:
        assert piece.offset == offset
        offset += len(piece.data)


def test_an_endless_line_is_cut_and_takes_no_memory() -> None:
    """A line of 8 MiB is one bad line; the lines after it have their right offset and number."""
    portions = [GOOD, *[b"x" * (1 << 19)] * 16, b"x\n" + GOOD, b"oops\n"]
    chunks = list(stream_chunks(Trickle(portions), "-"))
    assert max(len(piece.data) for piece in chunks) <= MAX_LINE_BYTES + 2
    found = list(Findings().among(chunks))
    assert [(bad.reason, bad.line) for bad in found] == [("too_long", 2), ("not_json", 4)]
    assert found[1].offset == len(b"".join(portions)) - len(b"oops\n")


def test_a_hole_of_nuls_before_a_line_takes_nothing_with_it() -> None:
    """NULs longer than a line may be, as a writer without O_APPEND leaves them, do not spoil the line after them."""
    portions = [*[b"\0" * (1 << 19)] * 5, GOOD, b"oops\n"]
    chunks = list(stream_chunks(Trickle(portions), "-"))
    findings = Findings()
    assert [bad.line for bad in findings.among(chunks)] == [2]
    assert findings.lines == 2


class Screen(io.StringIO):
    """Standard error of a person, or of a pipe."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.mark.parametrize(
    ("is_terminal", "step_ms", "is_shown"), [(True, 300, True), (True, 1, False), (False, 300, False)]
)
def test_progress_is_shown_to_who_waits(is_terminal: bool, step_ms: int, is_shown: bool) -> None:
    """Only on a terminal, and only where reading takes longer than a second; the chunks pass unchanged."""
    screen = Screen(is_terminal=is_terminal)
    clock = FixedClock(0)

    def slow_chunks() -> Iterator[Chunk]:
        for number in range(10):
            clock.advance(step_ms)
            yield chunk("l.jsonl", number, b"\n")

    passed = list(watched(slow_chunks(), clock=clock, terminal=screen))
    assert [piece.offset for piece in passed] == list(range(10))
    assert ("read" in screen.getvalue()) is is_shown
