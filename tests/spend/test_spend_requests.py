"""What may be asked: everything that a store and a reader of the ledger can keep, and nothing else."""

from pathlib import Path
from typing import Any

import pytest

from preempt_exporter.errors import UsageError
from preempt_exporter.ledger.decode import decode_line
from preempt_exporter.ledger.records import MAX_EXACT_INTEGER, Reserve
from preempt_exporter.ledger.writer import LedgerWriter
from preempt_exporter.spend.requests import GrantRequest, request_from
from preempt_exporter.spend.run_changes import OpenRun
from preempt_exporter.spend.service import SpendService
from tests.spend.spend_play import Play

GRANT: dict[str, Any] = {"tokens": 1, "lease_ms": 1, "input_digest": "sha256:x"}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"tokens": -1}, "tokens"),
        ({"tokens": MAX_EXACT_INTEGER + 1}, "tokens"),
        ({"tokens": "1"}, "tokens"),
        ({"tokens": 1.5}, "tokens"),
        ({"tokens": True}, "tokens"),
        ({"lease_ms": None}, "lease_ms"),
        ({"input_digest": ""}, "input_digest"),
        ({"input_digest": "x" * 1025}, "input_digest"),
        ({"input_digest": "é" * 600}, "input_digest"),
        ({"input_digest": "a\0b"}, "input_digest"),
        ({"host": "h" * 257}, "host"),
        ({"host": "\ud800"}, "host"),
    ],
)
def test_a_field_that_no_line_could_carry_is_refused_by_name(change: dict[str, Any], named: str) -> None:
    """Out of range, of the wrong type, too long or not Unicode: nothing reaches the store."""
    with pytest.raises(UsageError, match=named):
        request_from("grant", "r", "3", GRANT | change)


@pytest.mark.parametrize("missing", ["tokens", "lease_ms", "input_digest"])
def test_a_missing_field_is_named(missing: str) -> None:
    """The message says what to add."""
    fields = {name: value for name, value in GRANT.items() if name != missing}
    with pytest.raises(UsageError, match=missing):
        request_from("grant", "r", "3", fields)


@pytest.mark.parametrize("shard", ["", "s" * 257, "a\0b", None, 1.5, True, ["3"]])
def test_a_shard_that_has_no_name_is_refused(shard: object) -> None:
    """1 to 256 bytes, or an integer."""
    with pytest.raises(UsageError, match="shard"):
        request_from("grant", "r", shard, GRANT)


def test_an_integer_shard_is_its_decimal_string() -> None:
    """As in the ledger."""
    assert request_from("grant", "r", 3, GRANT).shard == "3"


def test_unknown_fields_are_ignored() -> None:
    """As in the ledger; GPU utilization among them."""
    assert request_from("grant", "r", "3", GRANT | {"gpu_util_lie": 0.99}) == request_from("grant", "r", "3", GRANT)


def test_the_largest_numbers_and_names_make_lines_that_a_reader_takes(play: Play, tmp_path: Path) -> None:
    """No accepted request can leave a line in the outbox that the writer refuses: it would block all that follow."""
    ledger = tmp_path / "ledger.jsonl"
    service = SpendService(play.store, LedgerWriter(ledger))
    largest = MAX_EXACT_INTEGER // 2
    play.store.apply(
        request_from(
            "reserve",
            "r",
            "s" * 256,
            {
                "epoch": largest,
                "tokens": MAX_EXACT_INTEGER,
                "lease_ms": MAX_EXACT_INTEGER,
                "input_digest": "d" * 1024,
                "host": "h" * 256,
            },
        )
    )
    play.store.apply(
        request_from(
            "checkpoint",
            "r",
            "s" * 256,
            {"epoch": largest, "index": MAX_EXACT_INTEGER, "tokens": MAX_EXACT_INTEGER, "input_digest": "d" * 1024},
        )
    )
    play.store.apply(request_from("release", "r", "s" * 256, {"epoch": largest}))
    play.store.apply(GrantRequest(run="r", shard="s" * 256, tokens=1, lease_ms=1, input_digest="x"))
    play.store.change_run(OpenRun(run="r", reason="why" * 300))
    assert service.append_pending()
    lines = [decode_line(line) for line in ledger.read_bytes().splitlines()]
    reserved = [line for line in lines if isinstance(line, Reserve)]
    assert [line.epoch for line in reserved] == [largest, largest + 1]
    assert len(lines) == 5
