"""From whole lines of bytes to records, at the speed of msgspec and with the exactness of `exact`.

Three ways through, each refusing what it cannot judge and handing it to the next: a piece of ledger in one call, where
a cheap look proves that every line is one object; line by line; and `exact.read_exactly`, field by field.
"""

import re
from collections.abc import Callable, Iterator
from operator import call
from typing import Final

import msgspec
from msgspec import Struct, inspect

from preempt_exporter.ledger.bad_line import LINE_ERROR_REASONS, BadLine
from preempt_exporter.ledger.exact import BLANK_BYTES, MAX_NESTING, read_exactly
from preempt_exporter.ledger.records import EVENT_TYPES, MAX_LANE_BYTES, MAX_LINE_BYTES, Attempt, Event, Record
from preempt_exporter.ledger.tolerant import read_attempt_tolerantly, read_event_tolerantly

__all__ = ["LINE_ERROR_REASONS", "BadLine", "Decoded", "decode_chunk", "decode_line"]

PIECE_BYTES = 1 << 17
"""How much is decoded in one call: a bad line sends no more than this down the slower way."""

PATIENCE_LINES = 8
"""How many lines of a piece are rescued by the exact reader before the rest of the piece is read tolerantly."""

BOM: Final = b"\xef\xbb\xbf"


class Decoded(Struct, frozen=True):
    """What some whole lines held."""

    records: list[Record]
    """In file order."""
    bad: list[BadLine]
    """In file order, with their place in the data."""
    lines: int
    """All lines but blank ones, the bad ones included."""
    ignored: int = 0
    """Lines of other programs that a mapping says nothing about; natively there are none."""


def decode_chunk(data: bytes, *, at_file_start: bool = False) -> Decoded:
    """Decode whole lines; the last may lack its newline. Never raises, whatever the bytes.

    `at_file_start` says that `data` begins at offset 0 of its file, where alone a byte order mark may stand.
    """
    records: list[Record] = []
    bad: list[BadLine] = []
    start = len(BOM) if at_file_start and data.startswith(BOM) else 0
    line = 0
    while start < len(data):
        end = _piece_end(data, start)
        piece = data[start:end]
        together = _decode_together(piece)
        if together is None:
            line += _decode_one_by_one(piece, start, line, records, bad)
        else:
            records += together
            line += len(together)
        start = end
    return Decoded(records, bad, len(records) + len(bad))


def decode_line(line: bytes) -> Record | BadLine:
    """Decode one line, with or without its newline. Never raises; a blank line is `not_json`."""
    line = line.removesuffix(b"\n")
    try:
        return _decoder_for(line)(line)
    except _UNDECIDED:
        return read_exactly(line)


def _piece_end(data: bytes, start: int) -> int:
    """Where the piece from `start` ends: after the last newline within reach, or else after the next one."""
    if len(data) - start <= PIECE_BYTES:
        return len(data)
    return data.rfind(b"\n", start, start + PIECE_BYTES) + 1 or data.find(b"\n", start) + 1 or len(data)


# --- a piece in one call --------------------------------------------------------------------------------------------

_UNDECIDED: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What the fast decoders raise for lines that only the exact way may judge."""

_EVENTS: Final = msgspec.json.Decoder(Event)
_ATTEMPTS: Final = msgspec.json.Decoder(Attempt)


_LONG_STRING: Final = re.compile(rb'"[^"]{%d}' % (MAX_LANE_BYTES + 1))
_NOT_IN_SKELETON: Final = bytes(byte for byte in range(256) if byte not in b"{}[\n")


def _decode_together(piece: bytes) -> "list[Event] | list[Attempt] | None":
    """All lines of a piece in one call, or None where that could differ from reading line by line.

    msgspec does not mind two objects on one line, or one over two. So the piece, stripped of all but braces, square
    brackets and newlines, has to be one empty object per line, for as many lines as objects were found. Then no brace
    stands inside a string, or there were fewer objects than braces; nothing is nested; and each line holds exactly one
    object from its beginning to its end. Where nothing is escaped the key `event` is spelt in one way only. Where all
    is ASCII, or no string longer than a lane may be, the types' length limits, which count characters, hold in bytes.
    """
    if b"\\" in piece or len(piece) > MAX_LINE_BYTES or not (piece.isascii() or _LONG_STRING.search(piece) is None):
        return None
    decoder: msgspec.json.Decoder[Event] | msgspec.json.Decoder[Attempt]
    decoder = _EVENTS if b'"event"' in piece else _ATTEMPTS
    try:
        together = decoder.decode_lines(piece)
    except _UNDECIDED:
        return None
    return together if piece.translate(None, _NOT_IN_SKELETON) == b"{}\n" * len(together) else None


# --- line by line ---------------------------------------------------------------------------------------------------


def _decode_one_by_one(piece: bytes, offset: int, first_line: int, records: list[Record], bad: list[BadLine]) -> int:
    """Append what each line of the piece holds; how many newlines it has.

    `offset` and `first_line` place the piece in the data.
    """
    lines = piece.split(b"\n")
    decoders = _decoders(piece, lines)
    decoded: Iterator[Record] = map(call, decoders, lines)
    index = placed = rescued = 0
    while index < len(lines):
        before = len(records)
        try:
            records.extend(decoded)
            break
        except _UNDECIDED:
            # What was appended stays, and the iterator goes on after the line that was refused.
            index += len(records) - before
        line = lines[index]
        if line.strip(BLANK_BYTES):
            judged = read_exactly(line)
            if isinstance(judged, BadLine):
                offset += sum(map(len, lines[placed:index])) + index - placed
                placed = index
                bad.append(BadLine(reason=judged.reason, detail=judged.detail, offset=offset, line=first_line + index))
            else:
                records.append(judged)
                rescued += 1
        index += 1
        if rescued == PATIENCE_LINES:
            # This writer spells its values otherwise; the iterator has not come to what changes here.
            decoders[index:] = [_TOLERANT.get(decoder, decoder) for decoder in decoders[index:]]
    return len(lines) - 1


LineDecoder = Callable[[bytes], Record]


def _decoders(piece: bytes, lines: list[bytes]) -> list[LineDecoder]:
    """For each line the fastest decoder that is exact on it."""
    if not piece.isascii() or b"\\" in piece or len(piece) > MAX_LINE_BYTES:
        return [_decoder_for(line) for line in lines]
    decoders = [_event if b'"event"' in line else _attempt for line in lines]
    if max(map(len, lines)) > 2 * MAX_NESTING:  # each level opens and closes
        for index, line in enumerate(lines):
            if line.count(b"{") + line.count(b"[") > MAX_NESTING:
                decoders[index] = _undecided
    return decoders


def _decoder_for(line: bytes) -> LineDecoder:
    if len(line) > MAX_LINE_BYTES or line.count(b"{") + line.count(b"[") > MAX_NESTING:
        return _undecided
    escaped = b"\\" in line
    if b'"event"' in line:
        return _guarded_event if escaped or not line.isascii() else _event
    if b"\\u006" in line or b"\\u007" in line:
        return _undecided  # the letters of the key `event` may be spelt so
    return _guarded_attempt if escaped or not line.isascii() else _attempt


_event: Final[LineDecoder] = _EVENTS.decode
_attempt: Final[LineDecoder] = _ATTEMPTS.decode
_TOLERANT: Final = {_event: read_event_tolerantly, _attempt: read_attempt_tolerantly}


def _undecided(_line: bytes) -> Record:
    raise msgspec.DecodeError


def _guarded_event(line: bytes) -> Record:
    return _within_byte_limits(_EVENTS.decode(line))


def _guarded_attempt(line: bytes) -> Record:
    return _within_byte_limits(_ATTEMPTS.decode(line))


def _within_byte_limits(record: Record) -> Record:
    """The record, unless a name is within its limit in characters only."""
    for name, max_bytes in _NAME_LIMITS[type(record)]:
        value = getattr(record, name)
        # No character takes more than 4 bytes.
        if value is not None and len(value) * 4 > max_bytes and len(value.encode()) > max_bytes:
            raise msgspec.DecodeError
    return record


def _name_limits(kind: type[Record]) -> tuple[tuple[str, int], ...]:
    described = inspect.type_info(kind)
    assert isinstance(described, inspect.StructType)
    limits = []
    for field in described.fields:
        options = field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,)
        for option in options:
            bare = option.type if isinstance(option, inspect.Metadata) else option
            if isinstance(bare, inspect.StrType) and bare.max_length is not None:
                limits.append((field.name, bare.max_length))
    return tuple(limits)


_NAME_LIMITS: Final = {kind: _name_limits(kind) for kind in (*EVENT_TYPES, Attempt)}
