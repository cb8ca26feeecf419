"""Attempts out of chunks: repeats dropped, bad lines placed, windows per lane."""

import msgspec

from preempt_exporter.ledger.chunk import Chunk
from preempt_exporter.ledger.records import Attempt, Heartbeat, Preempt, Record
from preempt_exporter.state.telemetry import BAD_LINES_NAMED, LaneTelemetry, Telemetry


def attempt(job_id: str, lane: str = "free", **more: object) -> Attempt:
    """One ok attempt of 1 s wait and 10 s run."""
    fields: dict[str, object] = {
        "job_id": job_id,
        "lane": lane,
        "attempt": 1,
        "enqueue_s": 0.0,
        "start_s": 1.0,
        "end_s": 11.0,
        "outcome": "ok",
        "tokens_in": 10,
        "tokens_out": 1,
        "interventions": 0,
    }
    return Attempt(**(fields | more))  # type: ignore[arg-type]


def lines(*records: Record | bytes) -> bytes:
    """The records as ledger lines, bytes as they are."""
    return b"".join((r if isinstance(r, bytes) else msgspec.json.encode(r)) + b"\n" for r in records)


def chunk(data: bytes, *, ledger: str = "l", path: str = "l", offset: int = 0) -> Chunk:
    """A chunk of one ledger."""
    return Chunk(ledger=ledger, path=path, offset=offset, data=data)


def test_a_repeat_is_dropped_within_its_ledger_only() -> None:
    """Equal attempt lines and repeated ids count once; in another ledger they count again."""
    twice = lines(attempt("a"), attempt("a"), attempt("b", id="x"), attempt("c", id="x"), attempt("a", attempt=2))
    telemetry = Telemetry([chunk(twice), chunk(lines(attempt("a")), ledger="other", path="other")])
    assert [(a.job_id, a.attempt) for a in telemetry] == [("a", 1), ("b", 1), ("a", 2), ("a", 1)]
    assert (telemetry.attempts, telemetry.repeats, telemetry.lines) == (4, 2, 6)


def test_bad_lines_are_placed_by_line_over_chunks_and_files() -> None:
    """Line numbers go on from chunk to chunk of one file and start anew in the next; blank lines have numbers too."""
    first = lines(attempt("a"), b"", b"{")
    second = lines(attempt("b"), b'{"event":"nope"}')
    telemetry = Telemetry([chunk(first), chunk(second, offset=len(first)), chunk(lines(b"?"), path="l.1")])
    assert len(list(telemetry)) == 2
    assert telemetry.bad_lines == 3
    assert [(bad.path, bad.line) for bad in telemetry.named_bad_lines] == [("l", 3), ("l", 5), ("l.1", 1)]


def test_all_bad_lines_are_counted_and_the_first_are_named() -> None:
    """A file of nothing but garbage stays cheap to report."""
    telemetry = Telemetry([chunk(lines(*[b"?"] * (BAD_LINES_NAMED + 30)))])
    assert list(telemetry) == []
    assert (telemetry.bad_lines, len(telemetry.named_bad_lines)) == (BAD_LINES_NAMED + 30, BAD_LINES_NAMED)


def test_a_byte_order_mark_is_read_at_the_start_of_a_file() -> None:
    """The first attempt of a file with a BOM counts; in the middle of a file a BOM spoils its line."""
    marked = b"\xef\xbb\xbf" + lines(attempt("a"))
    assert len(list(Telemetry([chunk(marked)]))) == 1
    assert len(list(Telemetry([chunk(marked, offset=10)]))) == 0


def test_preemptions_by_host_take_the_larger_of_both_kinds_of_line() -> None:
    """A loss told by an event and by an attempt line is one loss."""
    event = Preempt(task_id="t", ts_ms=1, wasted_tokens=1, restart_tokens=1, preempts=1, host="h1")
    telemetry = Telemetry(
        [
            chunk(
                lines(
                    event,
                    Heartbeat(task_id="t", ts_ms=2, host="h1"),
                    attempt("a", outcome="preempted", host="h1"),
                    attempt("b", outcome="preempted", host="h1"),
                    attempt("c", outcome="preempted"),
                    attempt("d", host="h2"),
                )
            )
        ]
    )
    assert len(list(telemetry)) == 4
    assert telemetry.preempts_by_host() == {"h1": 2}


def test_the_last_attempts_are_those_of_each_lane() -> None:
    """`last=2` keeps two of each lane, however the lanes interleave."""
    lanes = LaneTelemetry(last=2)
    for number in range(5):
        lanes.add(attempt(str(number), "free"))
    lanes.add(attempt("z", "paid"))
    free, paid = (lane.figures(margin_s=0) for lane in lanes.accumulators())
    assert (free.lane, free.attempts, paid.lane, paid.attempts) == ("free", 2, "paid", 1)


def test_lanes_come_in_the_routers_order_then_as_they_appeared() -> None:
    """Lanes that are only configured do not appear, and those only measured come last."""
    lanes = LaneTelemetry()
    for lane in ("spot", "paid", "free"):
        lanes.add(attempt("a", lane))
    assert [lane.lane for lane in lanes.accumulators(order=["free", "gone", "paid"])] == ["free", "paid", "spot"]
