"""`drill fence --event-order`: JSON Lines of spend operations, played in order in one run, time moved by hand."""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from preempt_exporter.clock import FixedClock
from preempt_exporter.errors import UsageError
from preempt_exporter.ledger.records import MAX_EXACT_INTEGER, REFUSAL_OPS, Count
from preempt_exporter.spend.requests import Request, request_from
from preempt_exporter.spend.service import SpendService


class Advance(Struct, frozen=True):
    """Move the store's clock."""

    ms: Count


class Reclaim(Struct, frozen=True):
    """Return the run's expired reservations."""


FenceEvent = Request | Advance | Reclaim


def read_events(text: bytes, *, path: str, run: str, starts_ms: int) -> list[FenceEvent]:
    """All events of a file; blank lines, CRLF and a BOM are accepted, unknown fields ignored.

    `starts_ms` is where the store's clock stands, Unix milliseconds: no moment of it may be past what a ledger line
    can say. Raises `UsageError` with the line number for the first line that is no event: nothing is played of such
    a file.
    """
    events: list[FenceEvent] = []
    now_ms = starts_ms
    for number, line in enumerate(text.removeprefix(b"\xef\xbb\xbf").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            event = _event(line, run)
            if isinstance(event, Advance):
                now_ms = _moved(now_ms, event)
        except (msgspec.ValidationError, UnicodeDecodeError, UsageError) as error:
            raise UsageError(f"{path}:{number}: {error}") from None
        events.append(event)
    return events


def _moved(now_ms: int, advance: Advance) -> int:
    if now_ms + advance.ms > MAX_EXACT_INTEGER:
        raise UsageError(f"advance moves the clock past {MAX_EXACT_INTEGER}, the last ts_ms of a ledger line")
    return now_ms + advance.ms


def _event(line: bytes, run: str) -> FenceEvent:
    try:
        fields = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(f"not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise UsageError("not a JSON object")
    op = fields.get("op")
    if op == "advance":
        return msgspec.convert(fields, Advance)
    if op == "reclaim":
        return Reclaim()
    if op not in REFUSAL_OPS:
        raise UsageError(f"unknown op {op!r}: give one of {', '.join((*REFUSAL_OPS, 'reclaim', 'advance'))}")
    return request_from(op, run, fields.get("shard"), {name: fields[name] for name in fields if name != "run"})


def play_events(
    events: Sequence[FenceEvent], service: SpendService, clock: FixedClock, *, run: str
) -> Iterator[dict[str, object]]:
    """One object per event: `op`, `shard`, `epoch`, `outcome`; `index` for RESUME, `count` for RECLAIMED."""
    for event in events:
        match event:
            case Advance():
                clock.advance(event.ms)
                yield {"op": "advance", "shard": None, "epoch": None, "outcome": "ADVANCED"}
            case Reclaim():
                count = service.reclaim_expired(run)
                yield {"op": "reclaim", "shard": None, "epoch": None, "outcome": "RECLAIMED", "count": count}
            case _:
                outcome = service.apply(event)
                told: dict[str, object] = {
                    "op": outcome.op,
                    "shard": outcome.shard,
                    "epoch": outcome.epoch,
                    "outcome": outcome.outcome,
                }
                if outcome.outcome == "RESUME":
                    told["index"] = outcome.index
                yield told
