"""Reads one line exactly as the contract says, field by field; slow, and the judge of what the fast path refuses.

Where JSON leaves a choice, this is the choice: of a key that stands twice the last one wins; null where a field is
optional means absent, and so do an empty `run`, `lane`, `host` or `id`; a float with a whole value is an integer (JSON
does not tell 1 from 1.0) except in names, where only an integer stands for its decimal string.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import DecodeError, Raw, Struct, ValidationError, defstruct, inspect

from preempt_exporter.ledger.bad_line import BadLine
from preempt_exporter.ledger.records import (
    EVENT_NAMES,
    EVENT_TYPES,
    MAX_EXACT_INTEGER,
    MAX_LINE_BYTES,
    Attempt,
    Record,
)

MAX_NESTING = 128
"""Deeper lines are refused. A fixed limit, so that a line's fate does not hang on the interpreter's own stack."""

INTEGER_NAMES: Final = frozenset({"run", "shard", "task_id", "job_id"})
"""Names that may be written as an integer."""

BLANK_BYTES: Final = b" \t\r\n\0"
"""What a line that says nothing may consist of: JSON's white space, and the NULs that a crash leaves behind."""


class Refused(Exception):
    """A line is bad; stays within this package, where it becomes a `BadLine`."""

    def __init__(self, reason: str, detail: str) -> None:
        """`reason` is one of `LINE_ERROR_REASONS`."""
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


def read_exactly(line: bytes) -> Record | BadLine:
    """The record on one line without its newline, or why there is none. Never raises, whatever the bytes.

    NUL bytes before the line are skipped; white space around it is JSON's.
    """
    try:
        return _read(line)
    except Refused as refused:
        return BadLine(reason=refused.reason, detail=refused.detail)


def nests_deeper(line: bytes, limit: int) -> bool:
    """Whether the line nests arrays and objects more than `limit` deep; brackets inside strings do not count."""
    if line.count(b"{") + line.count(b"[") <= limit:
        return False
    depth = 0
    for token in _BRACKETS_AND_STRINGS.finditer(line):
        match token.group():
            case b"{" | b"[":
                depth += 1
                if depth > limit:
                    return True
            case b"}" | b"]":
                depth -= 1
    return False


def _read(line: bytes) -> Record:
    line = line.lstrip(b"\0")
    if len(line) > MAX_LINE_BYTES:
        raise Refused("too_long", f"more than {MAX_LINE_BYTES} bytes")
    if nests_deeper(line, MAX_NESTING):
        raise Refused("too_deep", f"nested more than {MAX_NESTING} deep")
    raw = _raw_fields(line)
    kind, fields = _kind(raw)
    values: dict[str, Any] = {}
    for name, required, read in fields:
        text = bytes(getattr(raw, name))
        if not text:
            if required:
                raise Refused("missing_field", name)
            continue
        value = read(text)
        if value is not None or required:
            values[name] = value
    return kind(**values)


# --- from bytes to raw fields ---------------------------------------------------------------------------------------

# A string, or what was begun as one: it always matches, so that no line is scanned again from each of its quotes.
_STRING: Final = rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)'
_BRACKETS_AND_STRINGS: Final = re.compile(rb"[{}\[\]]|" + _STRING, re.DOTALL)
_STRINGS_AND_NO_NUMBERS: Final = re.compile(_STRING + rb"|NaN|-?Infinity", re.DOTALL)
_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)")

_ANY_JSON: Final = msgspec.json.Decoder(Raw)


def _raw_fields(line: bytes) -> Struct:
    try:
        return _RAW_FIELDS.decode(line)
    except RecursionError:
        raise Refused("too_deep", "nested deeper than the interpreter's stack") from None
    except (DecodeError, UnicodeDecodeError):
        raise _why_unreadable(line) from None


def _why_unreadable(line: bytes) -> Refused:
    """Tell apart what msgspec refuses as a whole: a valid text that is no object, and the ways to be no JSON."""
    if _is_json(line):
        return Refused("not_an_object", "the line is JSON, but not an object")
    repaired = line
    if b"\\u" in line:
        repaired = _ESCAPE.sub(lambda escape: b"\\ufffd" if escape.group(1) else escape.group(), line)
    if repaired != line and _is_json(repaired):
        return Refused("lone_surrogate", "an escape for half of a surrogate pair")
    if b"NaN" in line or b"Infinity" in line:
        repaired = _STRINGS_AND_NO_NUMBERS.sub(
            lambda token: token.group() if token.group().startswith(b'"') else b"0", repaired
        )
    if repaired != line and _is_json(repaired):
        return Refused("out_of_range", "NaN and Infinity are not numbers in JSON")
    return Refused("not_json", _syntax_error(line))


def _is_json(text: bytes) -> bool:
    try:
        _ANY_JSON.decode(text)
    except (DecodeError, RecursionError):
        return False
    return True


def _syntax_error(line: bytes) -> str:
    try:
        _ANY_JSON.decode(line)
    except DecodeError as error:
        return str(error).replace("Input data was truncated", "the line ends too early")
    except RecursionError:
        pass
    return "not a JSON text"


# --- which kind of line, and its fields -----------------------------------------------------------------------------

Reader = Callable[[bytes], Any]
FieldReader = tuple[str, bool, Reader]
"""Name, whether it is required, and what turns its JSON text into a value or raises `Refused`."""


def _kind(raw: Struct) -> tuple[Callable[..., Record], tuple[FieldReader, ...]]:
    text = bytes(raw.event)  # type: ignore[attr-defined]
    if text in (b"", b"null"):
        if not raw.job_id:  # type: ignore[attr-defined]
            raise Refused("unknown_kind", "neither `event` nor `job_id`")
        return Attempt, _ATTEMPT_FIELDS
    name = _scalar("event", text)
    if not isinstance(name, str):
        raise Refused("wrong_type", "event: expected a string")
    try:
        return _EVENTS[name]
    except KeyError:
        raise Refused("unknown_kind", f"event: {shortened(name)} is not known") from None


def _scalar(field: str, text: bytes) -> Any:
    """The value of a JSON text that is known to be well formed; arrays and objects are not looked into."""
    if text[:1] in b"{[":
        raise Refused("wrong_type", f"{field}: {'an object' if text[:1] == b'{' else 'an array'}")
    try:
        return msgspec.json.decode(text)
    except ValidationError:
        raise Refused("out_of_range", f"{field}: too large a number") from None
    except DecodeError:
        raise Refused("broken_utf8", field) from None


def shortened(text: str) -> str:
    """Words of a line as an error message may quote them: ASCII, in quotes, a few bytes at most."""
    return ascii(text if len(text) <= 40 else text[:40] + "…").replace("\\u2026", "…")


def _number(field: str, text: bytes) -> int | float:
    value = _scalar(field, text)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refused("wrong_type", f"{field}: expected a number")
    return value


def _read_integer(text: bytes, *, field: str, least: int) -> int:
    value = _number(field, text)
    if isinstance(value, float):
        if not value.is_integer():
            raise Refused("wrong_type", f"{field}: expected a whole number")
        if abs(value) >= MAX_EXACT_INTEGER:
            raise Refused("out_of_range", f"{field}: past 2^53")
        value = int(value)
    if value > MAX_EXACT_INTEGER or value < -MAX_EXACT_INTEGER:
        raise Refused("out_of_range", f"{field}: past 2^53")
    if value < least:
        raise Refused("out_of_range", f"{field}: less than {least}")
    return value


def _read_float(text: bytes, *, field: str) -> float:
    value = _number(field, text)
    if not -MAX_EXACT_INTEGER < value < MAX_EXACT_INTEGER:
        raise Refused("out_of_range", f"{field}: 2^53 or past it")
    return float(value)


def _read_string(text: bytes, *, field: str) -> str:
    value = _scalar(field, text)
    if not isinstance(value, str):
        raise Refused("wrong_type", f"{field}: expected a string")
    return value


def _read_name(text: bytes, *, field: str, max_bytes: int, required: bool) -> str | None:
    value = _scalar(field, text)
    if field in INTEGER_NAMES and isinstance(value, int) and not isinstance(value, bool):
        if abs(value) > MAX_EXACT_INTEGER:
            raise Refused("out_of_range", f"{field}: past 2^53; write it as a string")
        return str(value)
    if not isinstance(value, str):
        raise Refused("wrong_type", f"{field}: expected a string")
    if len(value.encode()) > max_bytes:
        raise Refused("lane_too_long" if field == "lane" else "id_too_long", f"{field}: more than {max_bytes} bytes")
    if not value:
        if required:
            raise Refused("missing_field", f"{field}: empty")
        return None
    return value


def _read_bool(text: bytes, *, field: str) -> bool:
    if text not in (b"true", b"false"):
        raise Refused("wrong_type", f"{field}: expected true or false")
    return text == b"true"


def _read_word(text: bytes, *, field: str, words: tuple[str, ...]) -> str:
    value = _read_string(text, field=field)
    if value not in words:
        raise Refused("out_of_range", f"{field}: expected one of {', '.join(words)}")
    return value


def _read_nullable(text: bytes, *, read: Reader) -> Any:
    return None if text == b"null" else read(text)


def _reader(field: inspect.Field) -> FieldReader:
    kind = field.type
    nullable = isinstance(kind, inspect.UnionType)
    if isinstance(kind, inspect.UnionType):
        kind = next(option for option in kind.types if not isinstance(option, inspect.NoneType))
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    read: Reader
    match kind:
        case inspect.IntType(ge=int(least)):
            read = partial(_read_integer, field=field.name, least=least)
        case inspect.FloatType():
            read = partial(_read_float, field=field.name)
        case inspect.BoolType():
            read = partial(_read_bool, field=field.name)
        case inspect.LiteralType(values=words):
            read = partial(_read_word, field=field.name, words=tuple(str(word) for word in words))
        case inspect.StrType(max_length=int(max_bytes)):
            read = partial(_read_name, field=field.name, max_bytes=max_bytes, required=field.required)
        case inspect.StrType():
            read = partial(_read_string, field=field.name)
        case _:
            raise TypeError(f"no way to read {field.name}: {kind}")
    return field.name, field.required, partial(_read_nullable, read=read) if nullable else read


def _readers(kind: type[Record]) -> tuple[FieldReader, ...]:
    described = inspect.type_info(kind)
    assert isinstance(described, inspect.StructType)
    return tuple(_reader(field) for field in described.fields)


_ATTEMPT_FIELDS: Final = _readers(Attempt)
_EVENTS: Final = {name: (kind, _readers(kind)) for name, kind in zip(EVENT_NAMES, EVENT_TYPES, strict=True)}
_RAW_FIELDS: Final = msgspec.json.Decoder(
    defstruct(
        "RawFields",
        [
            (name, Raw, Raw(b""))
            for name in dict.fromkeys(
                ["event", *(name for kind in (Attempt, *EVENT_TYPES) for name in kind.__struct_fields__)]
            )
        ],
    )
)
"""Every field that any kind of line reads, as its bytes; what no kind reads is skipped, its encoding unchecked."""
