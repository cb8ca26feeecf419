"""Every way for a line to be bad, and the near misses that are good."""

import time

import pytest

from preempt_exporter.ledger.decode import LINE_ERROR_REASONS, BadLine, decode_chunk, decode_line
from preempt_exporter.ledger.exact import MAX_NESTING, nests_deeper
from tests.ledger.ledger_lines import ATTEMPT, DRAIN, event

BAD_LINES: list[tuple[str, bytes]] = [
    ("too_long", b" " * (1 << 20) + DRAIN),
    ("too_deep", event(note="[" * MAX_NESTING + "]" * MAX_NESTING)),
    ("too_deep", b"[" * 100_000),
    ("too_deep", b'{"a":' * 100_000),
    ("not_json", b"oops"),
    ("not_json", DRAIN[:-1]),
    ("not_json", DRAIN + DRAIN),
    ("not_json", DRAIN + b"\0"),
    ("not_json", b"\x0b" + DRAIN),
    ("not_json", event(ts_ms="01")),
    ("not_json", event(note='"\t"')),
    ("not_json", b"{'event':'drain'}"),
    ("lone_surrogate", event(task_id='"\\ud800"')),
    ("lone_surrogate", event(note='"\\udfff\\ud800"')),
    ("lone_surrogate", event(note='{"\\uD83D":[]}')),
    ("broken_utf8", event(task_id='"?"').replace(b"?", b"\xff")),
    ("broken_utf8", event(lane='"?"').replace(b"?", b"\xed\xa0\x80")),
    ("broken_utf8", event(event='"?"').replace(b"?", b"\xc0\x80")),
    ("not_an_object", b"[1]"),
    ("not_an_object", b'"drain"'),
    ("not_an_object", b"null"),
    ("unknown_kind", b"{}"),
    ("unknown_kind", event(event='"dance"')),
    ("unknown_kind", event(event='""')),
    ("unknown_kind", event(event="")),
    ("missing_field", event(task_id="")),
    ("missing_field", event(task_id='""')),
    ("missing_field", ATTEMPT.replace(b'"tokens_in":null,', b"")),
    ("missing_field", ATTEMPT.replace(b'"free"', b'""')),
    ("missing_field", b'{"event":"lane_drain","lane":"","action":"abandon_lane"}'),
    ("missing_field", b'{"event":"run_open"}'),
    ("wrong_type", event(event="1")),
    ("wrong_type", event(task_id="null")),
    ("wrong_type", event(task_id="true")),
    ("wrong_type", event(task_id="1.0")),
    ("wrong_type", event(task_id="{}")),
    ("wrong_type", event(lane="7")),
    ("wrong_type", event(id="7")),
    ("wrong_type", event(ts_ms='"5"')),
    ("wrong_type", event(ts_ms="5.5")),
    ("wrong_type", event(ts_ms="true")),
    ("wrong_type", event(ts_ms="null")),
    ("wrong_type", ATTEMPT.replace(b"8.5", b'"8.5"')),
    ("wrong_type", ATTEMPT[:-1] + b',"idempotent":1}'),
    ("out_of_range", event(ts_ms="-1")),
    ("out_of_range", event(ts_ms="9007199254740993")),
    ("out_of_range", event(ts_ms="9007199254740993.0")),
    ("out_of_range", event(ts_ms="1e400")),
    ("out_of_range", event(ts_ms="9" * 5000)),
    ("out_of_range", event(ts_ms="NaN")),
    ("out_of_range", event(note="-Infinity")),
    ("out_of_range", event(task_id="9007199254740993")),
    ("out_of_range", ATTEMPT.replace(b'"attempt":1', b'"attempt":0')),
    ("out_of_range", ATTEMPT.replace(b"8.5", b"-1e300")),
    ("out_of_range", ATTEMPT.replace(b"8.5", b"9007199254740993")),
    ("out_of_range", b'{"event":"mode","mode":"sometimes"}'),
    ("id_too_long", event(task_id='"' + "x" * 257 + '"')),
    ("id_too_long", event(run='"' + "é" * 129 + '"')),
    ("id_too_long", event(id='"' + "\\u00e9" * 129 + '"')),
    ("id_too_long", event(host='"' + "x" * 257 + '"')),
    ("id_too_long", ATTEMPT.replace(b"b-1", "é".encode() * 129)),
    ("lane_too_long", event(lane='"' + "x" * 65 + '"')),
    ("lane_too_long", event(lane='"' + "é" * 33 + '"')),
    ("lane_too_long", ATTEMPT.replace(b"free", b"\\u00e9" * 33)),
]


@pytest.mark.parametrize(("reason", "line"), BAD_LINES, ids=lambda value: value[:60] if value else None)
def test_a_bad_line_is_one_bad_line_of_its_reason(reason: str, line: bytes) -> None:
    """The line is refused for exactly this reason, alone and between neighbours, which are read."""
    alone = decode_line(line)
    assert isinstance(alone, BadLine)
    assert alone.reason == reason
    among = decode_chunk(DRAIN + b"\n" + line + b"\n" + DRAIN + b"\n" + ATTEMPT + b"\n")
    assert [(bad.reason, bad.line, bad.offset) for bad in among.bad] == [(reason, 1, len(DRAIN) + 1)]
    assert among.records == [decode_line(DRAIN), decode_line(DRAIN), decode_line(ATTEMPT)]


def test_every_reason_has_a_line() -> None:
    """No reason is listed that no line has, and none occurs that is not listed."""
    assert {reason for reason, _ in BAD_LINES} == set(LINE_ERROR_REASONS)


@pytest.mark.parametrize(("reason", "line"), BAD_LINES, ids=lambda value: value[:60] if value else None)
def test_details_fit_on_one_short_line_of_ascii(reason: str, line: bytes) -> None:
    """What is said about a line can be printed anywhere, however the line looks."""
    bad = decode_line(line)
    assert isinstance(bad, BadLine)
    assert bad.detail.isascii()
    assert bad.detail.isprintable()
    assert 0 < len(bad.detail) <= 120


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        pytest.param(event(task_id="42"), "task_id", "42", id="integer name"),
        pytest.param(event(task_id="9007199254740992"), "task_id", "9007199254740992", id="largest integer name"),
        pytest.param(event(task_id="-7"), "task_id", "-7", id="negative integer name"),
        pytest.param(event(task_id='"0042"'), "task_id", "0042", id="digits stay as they are"),
        pytest.param(event(run="7"), "run", "7", id="integer run"),
        pytest.param(event(run='""'), "run", None, id="empty run"),
        pytest.param(event(lane='""'), "lane", None, id="empty lane"),
        pytest.param(event(lane="null"), "lane", None, id="null lane"),
        pytest.param(event(host='""', id='""'), "id", None, id="empty id"),
        pytest.param(event(ts_ms="5.0"), "ts_ms", 5, id="whole float"),
        pytest.param(event(ts_ms="1.7959560151e12"), "ts_ms", 1795956015100, id="whole float with an exponent"),
        pytest.param(event(ts_ms="-0.0"), "ts_ms", 0, id="minus zero"),
        pytest.param(event(ts_ms="9007199254740992"), "ts_ms", 2**53, id="largest integer"),
        pytest.param(event(task_id='"' + "é" * 128 + '"'), "task_id", "é" * 128, id="256 bytes of id"),
        pytest.param(event(lane='"' + "é" * 32 + '"'), "lane", "é" * 32, id="64 bytes of lane"),
        pytest.param(event(task_id='"\\ud83d\\ude00"'), "task_id", "😀", id="a whole surrogate pair"),
        pytest.param(event(task_id='"\\\\ud800"'), "task_id", "\\ud800", id="an escaped backslash, no surrogate"),
        pytest.param(event(task_id='"\\u0000"'), "task_id", "\0", id="an escaped NUL"),
        pytest.param(event(note="1e400", gpu_util_lie="0.04"), "task_id", "t-1", id="unread fields may be anything"),
        pytest.param(event(note='"?"').replace(b"?", b"\xff"), "task_id", "t-1", id="broken UTF-8 in an unread field"),
        pytest.param(
            event(task_id="3", x="1").replace(b'"x"', b'"\xff"'), "task_id", "3", id="broken UTF-8 in its key"
        ),
        pytest.param(DRAIN[:-1] + b',"task_id":"last"}', "task_id", "last", id="the last of two keys"),
        pytest.param(DRAIN[:-1] + b',"ts_ms":"x","ts_ms":9}', "ts_ms", 9, id="the last of two keys, the first bad"),
        pytest.param(b'{"event":"x",' + DRAIN[1:], "task_id", "t-1", id="the last of two kinds"),
        pytest.param(
            event(note="[" * (MAX_NESTING - 1) + "]" * (MAX_NESTING - 1)), "task_id", "t-1", id="as deep as may be"
        ),
        pytest.param(event(note='"' + "[{" * 5000 + '"'), "task_id", "t-1", id="brackets inside a string are not deep"),
        pytest.param(ATTEMPT.replace(b"b-1", b"x").replace(b'"x"', b"12"), "job_id", "12", id="integer job"),
        pytest.param(ATTEMPT.replace(b'"attempt":1', b'"attempt":2.0'), "attempt", 2, id="whole float attempt"),
        pytest.param(ATTEMPT.replace(b"8.5", b"-3"), "start_s", -3.0, id="seconds before the clock's zero"),
    ],
)
def test_a_near_miss_is_read(line: bytes, field: str, value: object) -> None:
    """What the contract accepts in spite of its looks is read, with this value and type."""
    record = decode_line(line)
    assert not isinstance(record, BadLine), record
    assert getattr(record, field) == value
    assert type(getattr(record, field)) is type(value)
    assert decode_chunk(line + b"\n").records == [record]


def test_a_last_of_two_kinds_decides() -> None:
    """Where `event` stands twice the last one is the line's kind, and where it is unknown the line is bad."""
    bad = decode_line(DRAIN[:-1] + b',"event":"dance"}')
    assert isinstance(bad, BadLine)
    assert bad.reason == "unknown_kind"


@pytest.mark.parametrize(
    ("line", "depth"),
    [(b"{}", 1), (b'{"a":[{}]}', 3), (b'{"a":"[[[\\"["}', 1), (b"[][]", 1), (b'"[', 0), (b'"[\\', 0), (b"]][", 0)],
)
def test_nesting_counts_brackets_outside_strings(line: bytes, depth: int) -> None:
    """Nesting is the deepest level of brackets that stand outside strings."""
    assert not nests_deeper(line, depth)
    assert depth == 0 or nests_deeper(line, depth - 1)


@pytest.mark.parametrize(
    "line",
    [
        b'"' + b'\\"' * 500_000,
        b'NaN "' + b'\\"' * 500_000 + b"\\",
        b"[" * MAX_NESTING + b'"' + b'\\"' * 500_000 + b"\\",
        b"\\ud800" * 150_000,
        event(ts_ms="9" * 1_000_000),
        event(ts_ms="1" + "0" * 1_000_000 + "e-1000000"),
        event(ts_ms="0." + "0" * 1_000_000 + "1"),
        event(note="[" + "[]," * 300_000 + "[]]", ts_ms="x"),
        event(note='"' + "{" * 1_000_000),
        b" " * (1 << 20) + b"x",
        b"\0" * (1 << 20) + b"x",
    ],
    ids=range(11),
)
def test_no_line_takes_long(line: bytes) -> None:
    """The longest lines cost time in proportion: a megabyte of the worst takes less than 2 s of processor time."""
    before = time.process_time()
    assert decode_chunk(line).lines == 1
    assert time.process_time() - before < 2
