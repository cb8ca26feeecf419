"""Units, formats, words and sums of mapped values."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preempt_exporter.ledger.decode import BadLine
from preempt_exporter.ledger.mapping import Mapping
from preempt_exporter.ledger.records import Attempt
from preempt_exporter.settings import MappingRule, ValueSource
from tests.ledger.mappings import IDENTITY, mapping_of

LATER = 1_795_964_594_123
"""2026-11-29T15:03:14.123Z"""


def heartbeat(source: ValueSource) -> Mapping:
    """Lines that say when something was alive, at `t` in some form."""
    return Mapping(
        [
            MappingRule(
                place="test",
                files=("*",),
                event=ValueSource(constant='"heartbeat"'),
                fields={"task_id": (ValueSource(constant='"a"'),), "ts_ms": (source,)},
            )
        ]
    )


def moment_ms(unit: str | None, text: str, *, quoted: bool = False, zone_offset_s: int | None = None) -> int | str:
    """What `t` with that JSON text becomes, or the reason why it is bad."""
    source = ValueSource(path=("t",), unit=unit, quoted=quoted, zone_offset_s=zone_offset_s)
    decoded = heartbeat(source).decode(b'{"t":%s}' % text.encode())
    if decoded.bad:
        return decoded.bad[0].reason
    (record,) = decoded.records
    assert record.ts_ms is not None
    return record.ts_ms


@pytest.mark.parametrize(
    ("unit", "text", "expected"),
    [
        ("s", "1795964594", 1_795_964_594_000),
        ("s", "1795964594.123", LATER),
        ("s", "1795964594.1234567", LATER),
        ("s", "1795964594.9999", 1_795_964_595_000),
        ("s", "1.795964594123e9", LATER),
        ("ms", "1795964594123.4", LATER),
        ("us", "1795964594123000", LATER),
        ("ns", "1795964594123000001", LATER),
        ("ns", "1795964594122999999", LATER),
        ("ns", "99999999999999999999999999", "out_of_range"),
        ("min", "29932743.2353850", 1_795_964_594_123),
        ("min", "1.5", 90_000),
        ("min", "0.000025", 2),
        ("min", "0.000075", 4),
        ("min", "0.00007500000000000000000000000000000000000001", 5),
        ("min", "-1", "out_of_range"),
        ("min", "9007199254740992", "out_of_range"),
        ("h", "0.1", 360_000),
        ("h", "0.00000125", 4),
        ("h", "1e999999999", "out_of_range"),
        ("h", "1e40", "out_of_range"),
        ("h", "1e-999999999", 0),
        ("h", '"1"', "wrong_type"),
        ("s", "9007199254740.9919", 9_007_199_254_740_992),
        ("s", "9007199254740.993", "out_of_range"),
        ("s", "-1", "out_of_range"),
        ("s", "-0.0001", 0),
        ("s", "1e400", "out_of_range"),
        ("s", "1e-999999999", 0),
        ("s", "1e999999999", "out_of_range"),
        ("s", '"1795964594"', "wrong_type"),
        ("s", "true", "wrong_type"),
        ("s", "[1]", "wrong_type"),
        ("s", "null", "wrong_type"),
        (None, "1795964594123.4", "wrong_type"),
        ("h", "0e50", 0),
        ("h", "1e-9", 0),
        ("rfc3339", '"2026-11-29T15:03:14.123Z"', LATER),
        ("rfc3339", '"2026-11-29t15:03:14.123z"', LATER),
        ("rfc3339", '"2026-11-29 16:03:14.123456789+01:00"', LATER),
        ("rfc3339", '"2026-11-29T09:33:14,123-0530"', LATER),
        ("rfc3339", '"2026-11-29 16:03:14.123+01"', LATER),
        ("rfc3339", '"2026-11-29 09:33:14.123 -0530"', LATER),
        ("rfc3339", '"2026-11-29 15:03:14.123 Z"', LATER),
        ("rfc3339", '"2016-12-31T23:59:60Z"', 1_483_228_800_000),
        ("rfc3339", '"2026-11-29T15:03:14.123"', "wrong_type"),
        ("rfc3339", '"2026-11-29 15:03:14,123"', "wrong_type"),
        ("rfc3339", '"2026-11-29"', "wrong_type"),
        ("rfc3339", '"2026-02-30T00:00:00Z"', "out_of_range"),
        ("rfc3339", '"0000-01-01T00:00:00Z"', "out_of_range"),
        ("rfc3339", '"1969-12-31T23:59:59Z"', "out_of_range"),
        ("rfc3339", '"2026-11-29T24:00:00Z"', "wrong_type"),
        ("rfc3339", '"٢٠٢٦-11-29T15:03:14Z"', "wrong_type"),
        ("rfc3339", "1795964594", "wrong_type"),
    ],
)
def test_moments_in_every_unit_and_format(unit: str | None, text: str, expected: int | str) -> None:
    """Each way to write a moment becomes whole Unix milliseconds, the nearest, or the reason why it is bad."""
    assert moment_ms(unit, text) == expected


@given(
    moment=st.datetimes(min_value=datetime(1970, 1, 2), max_value=datetime(9000, 1, 1)),
    offset_minutes=st.integers(-23 * 60 - 59, 23 * 60 + 59),
)
def test_moments_with_zones_are_what_the_standard_library_says(moment: datetime, offset_minutes: int) -> None:
    """RFC 3339 in any zone agrees with `datetime`, to the millisecond."""
    there = moment.replace(tzinfo=UTC).astimezone(timezone(timedelta(minutes=offset_minutes)))
    since = there - datetime(1970, 1, 1, tzinfo=UTC)
    assert moment_ms("rfc3339", f'"{there.isoformat()}"') == round(Fraction(since // timedelta(microseconds=1), 1000))


@given(
    unit=st.sampled_from([("h", 3_600_000), ("min", 60_000)]),
    amount=st.decimals(min_value=0, max_value=10**6, allow_nan=False, allow_infinity=False, places=12),
)
def test_hours_and_minutes_are_exact(unit: tuple[str, int], amount: Decimal) -> None:
    """Whatever the fraction, the nearest millisecond, half to even, as fractions of whole numbers give it."""
    assert moment_ms(unit[0], f"{amount:f}") == round(Fraction(amount) * unit[1])


ZONES = [0, 2 * 3600, -5 * 3600 - 1800]


@pytest.mark.parametrize("zone_offset_s", ZONES)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-29 15:03:14,123", LATER),
        ("2026-11-29T15:03:14.123", LATER),
        ("2026-11-29T15:03:14", LATER - 123),
        ("2016-12-31T23:59:60", 1_483_228_800_000),
        ("2026-11-29", "wrong_type"),
        ("2026-11-29 15:03", "wrong_type"),
        ("2026-11-29 15:03:14 ", "wrong_type"),
        ("2026-11-29 15:03:14+", "wrong_type"),
        ("2026-11-29 15:03:14 CET", "wrong_type"),
        ("2026-02-30 00:00:00", "out_of_range"),
    ],
)
def test_a_moment_without_a_zone_is_in_the_one_that_was_said(
    zone_offset_s: int, text: str, expected: int | str
) -> None:
    """Python's logging and `isoformat` are moments there; what is no moment stays none."""
    if isinstance(expected, int):
        expected -= zone_offset_s * 1000
    assert moment_ms("rfc3339", f'"{text}"', zone_offset_s=zone_offset_s) == expected


@pytest.mark.parametrize("zone_offset_s", ZONES)
@pytest.mark.parametrize(
    "text", ["2026-11-29T15:03:14.123Z", "2026-11-29 15:03:14.123+00", "2026-11-29T16:03:14.123+01:00"]
)
def test_a_moment_with_a_zone_keeps_its_own(zone_offset_s: int, text: str) -> None:
    """What was said of moments without a zone means nothing for one that has it."""
    assert moment_ms("rfc3339", f'"{text}"', zone_offset_s=zone_offset_s) == LATER


@pytest.mark.parametrize(
    ("zone_offset_s", "words"), [(None, "an RFC 3339 moment with its zone"), (0, "an RFC 3339 moment")]
)
def test_a_zone_is_asked_for_only_where_none_was_said(zone_offset_s: int | None, words: str) -> None:
    """The message of a bad line names what would have been a moment there."""
    source = ValueSource(path=("t",), unit="rfc3339", zone_offset_s=zone_offset_s)
    assert heartbeat(source).decode(b'{"t":"noon"}').bad[0].detail == f"ts_ms: expected {words} (from t)"


@given(
    moment=st.datetimes(min_value=datetime(1970, 1, 2), max_value=datetime(9000, 1, 1)),
    offset_minutes=st.integers(-23 * 60 - 59, 23 * 60 + 59),
)
def test_what_isoformat_writes_without_a_zone_is_the_moment_there(moment: datetime, offset_minutes: int) -> None:
    """A zone beside the unit does what `replace(tzinfo=...)` does."""
    offset_s = offset_minutes * 60
    there = moment.replace(tzinfo=timezone(timedelta(seconds=offset_s)))
    assert moment_ms("rfc3339", f'"{moment.isoformat()}"', zone_offset_s=offset_s) == moment_ms(
        "rfc3339", f'"{there.isoformat()}"'
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [('"12.5"', 12_500), ("12.5", 12_500), ('"012"', "wrong_type"), ('"1 "', "wrong_type"), ('"NaN"', "wrong_type")],
)
def test_numbers_in_quotes_only_where_that_was_said(text: str, expected: int | str) -> None:
    """With `quoted` a number may stand in quotes, written as JSON writes it; without, that is a wrong type."""
    assert moment_ms("s", text, quoted=True) == expected


ATTEMPT = """
event: attempt
fields:
  job_id: {field: name, plus: [{constant: "/"}, epoch]}
  run: {field: batch, plus: {constant: ""}}
  lane: {field: queue, values: {0: paid, true: free, "": empty}, otherwise: other}
  attempt: {field: retry, plus: {constant: 1}}
  enqueue_s: {field: begun, unit: rfc3339, minus: {field: waited, unit: ms}}
  start_s: {field: begun, unit: rfc3339}
  end_s: [{field: begun, unit: rfc3339, plus: {field: took, unit: us}}, {field: begun, unit: rfc3339}]
  outcome:
    - error.code
    - {field: status, values: {200: ok, 1.50: half, "0.0": none, 0: zero, 2e0: two}, otherwise: failed}
  tokens_in: {field: in, plus: [{field: cached, missing: 0}], missing: null}
  tokens_out: out
  interventions: {constant: 0}
"""
LINE = {
    "name": '"q"',
    "epoch": "2",
    "queue": "0",
    "retry": "0",
    "begun": '"1970-01-01T00:01:00.25Z"',
    "waited": "250",
    "took": "1500000",
    "status": "200",
    "in": "10",
    "out": "null",
}


def attempt(folder: Path, **changed: str) -> Attempt | BadLine:
    """The attempt on `LINE` with some JSON texts changed; an empty one leaves the field out."""
    texts = {name: text for name, text in (LINE | changed).items() if text}
    line = "{" + ",".join(f'"{name}":{text}' for name, text in texts.items()) + "}"
    decoded = mapping_of(folder, ATTEMPT).decode(line.encode())
    (record,) = decoded.records or decoded.bad
    assert isinstance(record, Attempt | BadLine)
    return record


def test_a_line_of_everything(tmp_path: Path) -> None:
    """Joined names, words, counts from 0, moments with durations added and taken off, and sums of tokens."""
    assert attempt(tmp_path) == Attempt(
        job_id="q/2",
        lane="paid",
        attempt=1,
        enqueue_s=60.0,
        start_s=60.25,
        end_s=61.75,
        outcome="ok",
        tokens_in=10,
        tokens_out=None,
        interventions=0,
    )


@pytest.mark.parametrize(
    ("changed", "field", "expected"),
    [
        ({"queue": "true"}, "lane", "free"),
        ({"queue": '"true"'}, "lane", "free"),
        ({"queue": "0.0"}, "lane", "paid"),
        ({"queue": '""'}, "lane", "empty"),
        ({"queue": '"\\u0030"'}, "lane", "paid"),
        ({"queue": "{}"}, "lane", "other"),
        ({"queue": "[0]"}, "lane", "other"),
        ({"status": "500"}, "outcome", "failed"),
        ({"status": "2.00e2"}, "outcome", "ok"),
        ({"status": "1.5"}, "outcome", "half"),
        ({"status": '"1.5"'}, "outcome", "failed"),
        ({"status": '"1.50"'}, "outcome", "half"),
        ({"status": "2"}, "outcome", "two"),
        ({"status": "0.0"}, "outcome", "zero"),
        ({"status": '"0.0"'}, "outcome", "none"),
        ({"error": '{"code":"oom"}'}, "outcome", "oom"),
        ({"error": "null"}, "outcome", "ok"),
        ({"error": '"text"'}, "outcome", "ok"),
        ({"error": '{"code":null}'}, "outcome", "ok"),
        ({"took": ""}, "end_s", 60.25),
        ({"cached": "5"}, "tokens_in", 15),
        ({"in": ""}, "tokens_in", None),
        ({"in": "null", "cached": "5"}, "tokens_in", None),
        ({"epoch": "true"}, "job_id", "q/true"),
        ({"batch": "17.0"}, "run", "17"),
        ({"batch": "18446744073709551615"}, "run", "18446744073709551615"),
        ({"name": '"\\ud83d\\ude00\\""'}, "job_id", '😀"/2'),
    ],
)
def test_values_by_word_in_order_and_stood_in_for(
    tmp_path: Path, changed: dict[str, str], field: str, expected: object
) -> None:
    """Words match whatever type they have; the first place that holds something counts; `missing` stands in."""
    assert getattr(attempt(tmp_path, **changed), field) == expected


@pytest.mark.parametrize(
    ("changed", "reason", "detail"),
    [
        ({"queue": ""}, "missing_field", "lane (from queue)"),
        ({"retry": "-1"}, "out_of_range", "attempt: less than 1 (from retry + constant 1)"),
        ({"retry": "0.5"}, "wrong_type", "attempt: expected a whole number (from retry + constant 1)"),
        ({"waited": ""}, "missing_field", "enqueue_s (from begun - waited)"),
        ({"status": ""}, "missing_field", "outcome (from error.code or status)"),
        ({"out": ""}, "missing_field", "tokens_out (from out)"),
        ({"out": '"5"'}, "wrong_type", "tokens_out: expected a number (from out)"),
        ({"name": "{}"}, "wrong_type", 'job_id: a part of it cannot be read (from name + constant "/" + epoch)'),
        ({"name": '"' + "x" * 255 + '"'}, "id_too_long", None),
        ({"begun": '"yesterday"'}, "wrong_type", None),
        ({"begun": '"1970-01-01 00:01:00+"'}, "wrong_type", None),
        ({"begun": '"1970-01-01 00:01:00  +00"'}, "wrong_type", None),
        ({"took": "1e300"}, "out_of_range", None),
    ],
)
def test_what_cannot_be_made_is_a_bad_line(
    tmp_path: Path, changed: dict[str, str], reason: str, detail: str | None
) -> None:
    """What is missing or cannot be converted makes the line bad, for the ledger's own reasons."""
    bad = attempt(tmp_path, **changed)
    assert isinstance(bad, BadLine)
    assert bad.reason == reason
    assert detail in (None, bad.detail)


def test_a_number_of_a_megabyte_is_refused_quickly() -> None:
    """Digits without end cost no more than reading them."""
    assert moment_ms("s", "9" * 1_000_000) == "out_of_range"
    assert moment_ms("ms", "0." + "0" * 1_000_000) == 0


def test_broken_utf_8_matters_where_it_is_read() -> None:
    """A field that is read must be UTF-8; one that is not looked at need not be."""
    mapping = Mapping([IDENTITY])
    good = b'{"event":"drain","task_id":"a","ts_ms":1,"action":"x"'
    assert len(mapping.decode(good + b',"other":"\xff"}').records) == 1
    assert mapping.decode(good + b',"lane":"\xff"}').bad[0].reason == "broken_utf8"
    joined = ValueSource(path=("action",), plus=(ValueSource(path=("other",)),))
    rule = MappingRule(place="test", files=("*",), event=IDENTITY.event, fields=IDENTITY.fields | {"action": (joined,)})
    assert Mapping([rule]).decode(good + b',"other":"\xff"}').bad[0].reason == "broken_utf8"
