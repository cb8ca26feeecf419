"""`POST /v1/events`: lines of harnesses that decide for themselves, validated whole and appended, or refused."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from preempt_exporter.control.desk import Desk
from preempt_exporter.control.once import Begun
from preempt_exporter.control.operations import Operation
from preempt_exporter.control.problems import Problem
from preempt_exporter.gate.task_book import owner_of
from preempt_exporter.ledger.decode import decode_chunk
from preempt_exporter.ledger.records import EVENT_NAMES, EVENT_TYPES, Attempt, Record, TaskEvent

MOST_BYTES = 8 << 20
MOST_PROBLEMS_NAMED = 20
_OWN_PREFIXES = frozenset({"gate", "act", "spend"})
"""Owners and writers of lines that only this service and its gate may be."""


class AppendedAnswer(Struct, frozen=True, kw_only=True):
    """How many lines were appended; those without an id were given one."""

    appended: int


def _append(desk: Desk, names: Mapping[str, str], body: bytes) -> AppendedAnswer:
    records = _checked(desk, body)
    if records:
        desk.sink.append(*records)
    return AppendedAnswer(appended=len(records))


def _appended(desk: Desk, names: Mapping[str, str], body: Any, begun: Begun) -> AppendedAnswer | None:
    return AppendedAnswer(appended=len(begun.lines)) if begun.all_written else None


def _checked(desk: Desk, body: bytes) -> list[Record]:
    """Every line of the body, or a `Problem` with the numbers of those that are not taken; lines count from 1."""
    problems: list[dict[str, Any]] = []
    records: list[Record] = []
    for number, raw in enumerate(body.split(b"\n"), start=1):
        decoded = decode_chunk(raw, at_file_start=number == 1)
        for bad in decoded.bad:
            problems.append({"line": number, "reason": bad.reason, "detail": bad.detail})
        for record in decoded.records:
            why = _why_not(desk, record)
            if why is not None:
                problems.append({"line": number, "reason": why[0], "detail": why[1]})
        records += decoded.records
    if problems:
        problems.sort(key=lambda problem: int(problem["line"]))
        first = problems[0]
        raise Problem(
            422,
            f"line {first['line']}: {first['detail']}; nothing was appended",
            more={"line": first["line"], "lines": problems[:MOST_PROBLEMS_NAMED], "bad_lines": len(problems)},
        )
    return records


def _why_not(desk: Desk, record: Record) -> tuple[str, str] | None:
    if owner_of(record.id) in _OWN_PREFIXES:
        return "reserved_id", f"ids that begin with {owner_of(record.id)}- are the service's own"
    if isinstance(record, Attempt):
        return None
    if not isinstance(record, TaskEvent):
        word = EVENT_NAMES[EVENT_TYPES.index(type(record))]
        return "not_here", f"{word} lines are written by the service: use its own endpoint"
    if desk.gate.owns((record.run, record.task_id)):
        return "owned_task", f"task {record.task_id!r} was enqueued through /v1/tasks, which decides about it"
    return None


EVENT_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        method="POST",
        path="/v1/events",
        summary="Append attempt lines, and admission lines of tasks that the gate does not own (JSON Lines)",
        takes=None,
        answers=AppendedAnswer,
        carry_out=_append,
        recovered=_appended,
        raw=True,
        most_bytes=MOST_BYTES,
    ),
)
