"""`emit EVENT key=value...`: one valid ledger line from a shell."""

import difflib
import os
import re
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import inspect

from preempt_exporter.clock import Clock, SystemClock
from preempt_exporter.decide.lane_action import LANE_ACTIONS
from preempt_exporter.errors import UsageError
from preempt_exporter.gate.task_lines import FAIL_NOT_REPLAY
from preempt_exporter.ledger.bad_line import BadLine
from preempt_exporter.ledger.exact import read_exactly
from preempt_exporter.ledger.records import EVENT_NAMES, EVENT_TYPES, MAX_EXACT_INTEGER, Attempt, Record
from preempt_exporter.ledger.writer import LedgerWriter, encode_line

KINDS: dict[str, type[Record]] = {**dict(zip(EVENT_NAMES, EVENT_TYPES, strict=True)), "attempt": Attempt}

CLOSED_WORDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("drain", "action"): (FAIL_NOT_REPLAY,),
    ("lane_drain", "action"): LANE_ACTIONS,
    ("release", "reason"): ("lease_expired", "cancelled", "superseded"),
}
"""By event and field: the only words that mean something. A reader takes others too. Reasons that metrics count, with
`other` for what they do not know, are not here."""

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare flags and arguments."""
    parser.formatter_class = RawDescriptionHelpFormatter
    parser.description = (
        "Append one valid line to a ledger and print nothing. The line gets an id, and ts_ms is now unless given.\n"
        "Values are typed by their field: task_id=0042 stays a string, queue_age_ms=0042 is 42."
    )
    parser.epilog = (
        "example:\n"
        "  LEDGER_PATH=/var/lib/batch/l.jsonl preempt-exporter emit enqueue task_id=t-1 lane=free deadline_ms=3600000"
    )
    parser.add_argument("--ledger", metavar="PATH", help="the ledger to append to (default: $LEDGER_PATH)")
    parser.add_argument("--print", dest="print_line", action="store_true", help="also print the line that was appended")
    parser.add_argument("event", metavar="EVENT", help=f"{', '.join(KINDS)} (`attempt`: a line without event)")
    parser.add_argument("fields", metavar="key=value", nargs="+", help="the event's fields; which, an error says")


def run(args: Namespace) -> int:
    """Append the line; 0 once the disk has it."""
    return emit(args.event, args.fields, args.ledger, print_line=args.print_line, environ=os.environ)


def emit(
    event: str,
    fields: Sequence[str],
    ledger: str | None,
    *,
    print_line: bool = False,
    environ: Mapping[str, str],
    clock: Clock | None = None,
) -> int:
    """Append one line to `ledger`, or to what `LEDGER_PATH` names. Raises UsageError and LedgerWriteError."""
    record = record_from_words(event, fields, now_ms=(clock or SystemClock()).now_ms())
    path = ledger or environ.get("LEDGER_PATH")
    if not path:
        raise UsageError("which ledger? Set LEDGER_PATH or give --ledger PATH")
    with LedgerWriter(path) as writer:
        record = writer.with_id(record)
        writer.append(record)
    if print_line:
        sys.stdout.write(encode_line(record).decode())
    return 0


def record_from_words(event: str, fields: Sequence[str], *, now_ms: int) -> Record:
    """The record that an event's name and `key=value` words describe.

    Raises UsageError that names what is unknown, with what it is close to, missing, or no value of its field. An
    unknown key is an error, since every reader would ignore it, and a typing mistake with it; so is a word outside
    `CLOSED_WORDS`.
    """
    kind = KINDS.get(event)
    if kind is None:
        raise UsageError(f"no event {event!r}{_close_to(event, KINDS)}; known: {', '.join(KINDS)}")
    fields_of_kind = _fields(kind)
    types = {field.name: field.type for field in fields_of_kind}
    values: dict[str, Any] = {} if kind is Attempt else {"event": event}
    given: set[str] = set()
    for word in fields:
        key, equals, text = word.partition("=")
        if not equals:
            raise UsageError(f"{word!r} is not key=value; {event} has {', '.join(types)}")
        if key in given:
            raise UsageError(f"{key} is given twice; give it once")
        if key not in types:
            raise UsageError(f"{event} has no field {key!r}{_close_to(key, types)}; it has {', '.join(types)}")
        given.add(key)
        values[key] = _value(key, types[key], text)
    values.setdefault("ts_ms", now_ms)
    missing = [field.name for field in fields_of_kind if field.required and values.get(field.name, "") == ""]
    if missing:
        raise UsageError(f"{event} needs {' '.join(f'{name}=...' for name in missing)}")
    _refuse_words_without_meaning(event, values)
    try:
        line = msgspec.json.encode(values)
    except UnicodeEncodeError:
        raise UsageError("a value is not valid UTF-8") from None
    record = read_exactly(line)
    if isinstance(record, BadLine):
        raise UsageError(f"{event}: {record.detail}")
    return record


def _refuse_words_without_meaning(event: str, values: Mapping[str, Any]) -> None:
    for (of_event, key), words in CLOSED_WORDS.items():
        if event == of_event and values[key] not in words:
            known = dict.fromkeys(words)
            raise UsageError(f"{key}={values[key]}{_close_to(values[key], known)}: expected one of {', '.join(words)}")


def _fields(kind: type[Record]) -> list[inspect.Field]:
    """The fields of a kind of line, the required ones first."""
    described = inspect.type_info(kind)
    assert isinstance(described, inspect.StructType)
    return sorted(described.fields, key=lambda field: not field.required)


def _value(key: str, kind: inspect.Type, text: str) -> Any:
    options = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    bare = [option.type if isinstance(option, inspect.Metadata) else option for option in options]
    if text == "null" and any(isinstance(option, inspect.NoneType) for option in bare) and not _is_text(bare):
        return None
    match bare[0]:
        case inspect.BoolType():
            if text not in ("true", "false"):
                raise UsageError(f"{key}={text}: expected true or false")
            return text == "true"
        case inspect.IntType() | inspect.FloatType():
            return _number(key, text)
        case _:
            return text


def _number(key: str, text: str) -> int | float:
    if not _NUMBER.fullmatch(text):
        raise UsageError(f"{key}={text}: expected a number")
    value = float(text)
    if abs(value) > MAX_EXACT_INTEGER:
        raise UsageError(f"{key}: past 2^53; give {MAX_EXACT_INTEGER} at most")
    return int(text) if _INTEGER.fullmatch(text) else value


def _is_text(options: list[inspect.Type]) -> bool:
    return any(isinstance(option, inspect.StrType | inspect.LiteralType) for option in options)


def _close_to(word: str, known: Mapping[str, object]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f" (did you mean {close[0]}?)" if close else ""
