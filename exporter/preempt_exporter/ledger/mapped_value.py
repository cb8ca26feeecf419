"""Turns values of other people's lines into the JSON texts of our fields: words, units, formats, sums."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Context, Decimal
from operator import itemgetter
from typing import Any, Final, Generic, TypeVar, get_type_hints

import msgspec
from msgspec import DecodeError, ValidationError

from preempt_exporter.ledger.exact import Refused
from preempt_exporter.ledger.line_paths import FieldPath
from preempt_exporter.ledger.records import EVENT_TYPES, Attempt
from preempt_exporter.settings import ValueSource

ValueReader = Callable[[list[bytes]], bytes]
"""From a line's texts (`LinePaths.texts`) to the JSON text of one of our fields; empty where the line has none.

Raises `Refused` for a text that cannot be converted; what needs no conversion passes as it is, for the ledger's own
reader to judge.
"""

_SECONDS: Final = {
    "h": Decimal(3600),
    "min": Decimal(60),
    "s": Decimal(1),
    "ms": Decimal("1e-3"),
    "us": Decimal("1e-6"),
    "ns": Decimal("1e-9"),
    "rfc3339": Decimal(1),
}
UNITS: Final = tuple(_SECONDS)

_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ]([01]\d|2[0-3]):([0-5]\d):([0-5]\d|60)(?:[.,](\d{1,30}))?"
    r"(?: ?([Zz]|([+-])([01]\d|2[0-3])(?::?([0-5]\d))?))?",
    re.ASCII,
)
_ZONE = re.compile(r"UTC|([+-])([01]\d|2[0-3]):([0-5]\d)", re.ASCII)
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_MAX_DIGITS = 40

_EXACT = Context(prec=3 * _MAX_DIGITS, traps=[])
"""Enough digits that no sum of times is rounded; what overflows becomes infinite and is refused."""


def _field_types() -> dict[str, Any]:
    types: dict[str, Any] = {}
    for kind in (Attempt, *EVENT_TYPES):
        for name, hint in get_type_hints(kind, include_extras=True).items():
            if name in kind.__struct_fields__:
                types[name] = types.get(name, hint) | hint
    return types


FIELD_TYPES: Final = _field_types()
"""Every field that some kind of line reads, and what it may be there; null where it may be null on one of them."""


def is_time(field: str) -> bool:
    """Whether a field of ours holds a moment or a duration, and so may have a unit."""
    return field.endswith(("_ms", "_s"))


def offset_s_of(zone: str) -> int:
    """How far east of UTC a configured zone is; `ValueError` with a sentence for one that is not the same all year."""
    offset = _ZONE.fullmatch(zone)
    if offset is None:
        raise ValueError(
            f"zone '{zone}' is neither UTC nor an offset such as \"+02:00\"; where clocks change, an hour of each year "
            "would be ambiguous"
        )
    return _offset_s(offset[1], offset[2], offset[3])


def _offset_s(sign: str | None, hours: str | None, minutes: str | None) -> int:
    return (int(hours or 0) * 60 + int(minutes or 0)) * (-60 if sign == "-" else 60)


def json_text(
    field: str, word: str | None, unit: str | None = None, zone_offset_s: int | None = None, *, is_part: bool = False
) -> str:
    """The JSON text of a configured value; `ValueError` where `field` cannot hold it.

    A value with a `unit` stands for one on the line, which is converted: it has to be a number, or an RFC 3339 moment.
    As a part of a joined name any word will do, an empty one too.
    """
    if word is None:
        text = b"null"
    elif unit is not None:
        text = msgspec.json.encode(word) if unit == "rfc3339" else word.encode()
        try:
            if unit == "rfc3339":
                _moment_s(field, text, zone_offset_s)
            else:
                _decimal(field, _checked_number(word), quoted=False)
        except Refused as refused:
            raise ValueError(refused.detail) from None
        return text.decode()
    elif takes_strings(field):
        text = msgspec.json.encode(word)
        if is_part:
            return text.decode()
    elif word != word.strip():
        # White space is JSON too, but a newline (as a block of YAML ends in) would cut the native line in two.
        raise ValueError(f"{field} cannot be '{word}': {_expected(field)}")
    else:
        text = word.encode()
    try:
        msgspec.json.decode(text, type=FIELD_TYPES[field])
    except ValidationError as error:
        raise ValueError(f"{field} cannot be '{'null' if word is None else word}': {error}") from None
    except (DecodeError, UnicodeDecodeError):
        raise ValueError(f"{field} cannot be '{word}': {_expected(field)}") from None
    return text.decode()


def _expected(field: str) -> str:
    if not is_number(field):
        return "expected true or false"
    return "expected a number" + ("; a moment needs unit: rfc3339" if is_time(field) else "")


def word_of(text: bytes) -> str | None:
    """A JSON scalar as one would write it in the configuration: `done`, `200`, `true`, `null`; None for the others.

    A value that is not there is `null`; a number with a whole value is written without a fraction.
    """
    if text[:1] in (b"{", b"["):
        return None
    try:
        value = msgspec.json.decode(text or b"null")
    except DecodeError:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


Meaning = TypeVar("Meaning")


class Words(Generic[Meaning]):
    """What words of the configuration mean, looked up by values of lines: strings alike, numbers of the same value."""

    def __init__(self, meanings: Mapping[str, Meaning]) -> None:
        """`meanings` by the word as it is written; of `1` and `1.0` the one that `word_of` gives goes first."""
        self._alike = dict(meanings)
        numbers = {word_of(word.encode()): meaning for word, meaning in meanings.items() if _NUMBER.fullmatch(word)}
        self._same = {word: meaning for word, meaning in numbers.items() if word is not None} | self._alike
        self._texts = {msgspec.json.encode(word): meaning for word, meaning in meanings.items()}

    def get(self, text: bytes) -> Meaning | None:
        """What the value with that JSON text means, if anything; one that is not there has no text and is `null`."""
        meaning = self._texts.get(text)
        if meaning is None and (word := word_of(text)) is not None:
            meaning = (self._alike if text[:1] == b'"' else self._same).get(word)
        return meaning


def value_reader(field: str, sources: Sequence[ValueSource], slot: Callable[[FieldPath], int]) -> ValueReader:
    """Reads `field` from the first of `sources` that holds something; null where one is null and none holds more."""
    readers = [_reader(field, source, slot) for source in sources]
    if len(readers) == 1:
        return readers[0]

    def first(texts: list[bytes]) -> bytes:
        found = b""
        for read in readers:
            text = read(texts)
            if text not in (b"", b"null"):
                return text
            found = found or text
        return found

    return first


def paths_of(source: ValueSource) -> list[FieldPath]:
    """Every path that the source looks at."""
    below = [path for term in (*source.plus, *source.minus) for path in paths_of(term)]
    return below if source.path is None else [source.path, *below]


def _reader(field: str, source: ValueSource, slot: Callable[[FieldPath], int]) -> ValueReader:
    translated = _translator(source, slot)
    if source.plus and takes_strings(field):
        return _joiner(field, [translated, *(_translator(term, slot) for term in source.plus)])
    if not (source.unit or source.quoted or source.plus or source.minus):
        return translated
    quantity = _quantity_reader(field, source, translated, slot)

    def read(texts: list[bytes]) -> bytes:
        amount = quantity(texts)
        return amount if isinstance(amount, bytes) else _number_text(field, amount)

    return read


def _joiner(field: str, readers: Sequence[ValueReader]) -> ValueReader:
    """A name made of several values, as words; nothing where one of them is not there."""

    def read(texts: list[bytes]) -> bytes:
        words = []
        for part in readers:
            text = part(texts)
            if text in (b"", b"null"):
                return text
            word = word_of(text)
            if word is None:
                nested = text[:1] in (b"{", b"[")
                raise Refused("wrong_type" if nested else "broken_utf8", f"{field}: a part of it cannot be read")
            words.append(word)
        return msgspec.json.encode("".join(words))

    return read


def _translator(source: ValueSource, slot: Callable[[FieldPath], int]) -> ValueReader:
    """The text at the source's place, or what the configuration has in its stead, as if the line had said that."""
    constant = source.constant.encode()
    pick: ValueReader = (lambda _texts: constant) if source.path is None else itemgetter(slot(source.path))
    if not source.words and source.otherwise is None and source.missing is None:
        return pick
    words = Words({word: text.encode() for word, text in source.words.items()}) if source.words else None
    stand_in = source.words.get("null", source.missing)
    otherwise = None if source.otherwise is None else source.otherwise.encode()
    missing = None if stand_in is None else stand_in.encode()

    def read(texts: list[bytes]) -> bytes:
        text = pick(texts)
        if text in (b"", b"null"):
            return text if missing is None else missing
        ours = None if words is None else words.get(text)
        if ours is None:
            ours = otherwise
        return text if ours is None else ours

    return read


Quantity = Callable[[list[bytes]], "Decimal | bytes"]
"""A number in our field's unit, or `null` or nothing as text."""


def _quantity_reader(
    field: str, source: ValueSource, translated: ValueReader, slot: Callable[[FieldPath], int]
) -> Quantity:
    terms = [
        (sign, _quantity_reader(field, term, _translator(term, slot), slot))
        for sign, group in ((1, source.plus), (-1, source.minus))
        for term in group
    ]
    scale = Decimal(1)
    if source.unit is not None:
        scale = _SECONDS[source.unit] / _SECONDS["ms" if field.endswith("_ms") else "s"]

    def read(texts: list[bytes]) -> Decimal | bytes:
        text = translated(texts)
        if text in (b"", b"null"):
            return text
        if source.unit == "rfc3339":
            total = _moment_s(field, text, source.zone_offset_s)
        else:
            total = _decimal(field, text, quoted=source.quoted)
        total = _EXACT.multiply(total, scale)
        for sign, term in terms:
            amount = term(texts)
            if isinstance(amount, bytes):
                return amount
            total = _EXACT.add(total, amount) if sign > 0 else _EXACT.subtract(total, amount)
        return total

    return read


def _decimal(field: str, text: bytes, *, quoted: bool) -> Decimal:
    if text[:1] == b'"' and quoted:
        number = _string(field, text)
        if not _NUMBER.fullmatch(number):
            raise Refused("wrong_type", f"{field}: expected a number, in quotes or not")
    elif text[:1] in (b"{", b"[", b'"', b"t", b"f"):
        raise Refused("wrong_type", f"{field}: expected a number")
    else:
        number = text.decode()
    value = _EXACT.create_decimal(number)
    if not value.is_finite() or (value and value.adjusted() > _MAX_DIGITS):
        raise Refused("out_of_range", f"{field}: past 2^53")
    return value if value.adjusted() > -_MAX_DIGITS else Decimal(0)


def _moment_s(field: str, text: bytes, zone_offset_s: int | None) -> Decimal:
    """Unix seconds of an RFC 3339 moment with its zone or else that one; a leap second is the second after."""
    moment = _RFC3339.fullmatch(_string(field, text)) if text[:1] == b'"' else None
    offset_s = zone_offset_s
    if moment is not None and moment[8]:
        offset_s = _offset_s(moment[9], moment[10], moment[11]) if moment[9] else 0
    if moment is None or offset_s is None:
        with_zone = " with its zone" if zone_offset_s is None else ""
        raise Refused("wrong_type", f"{field}: expected an RFC 3339 moment{with_zone}")
    year, month, day, hour, minute, second = (int(moment[group]) for group in range(1, 7))
    try:
        days = date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError:
        raise Refused("out_of_range", f"{field}: no such day") from None
    seconds = ((days * 24 + hour) * 60 + minute) * 60 + second - offset_s
    return _EXACT.add(Decimal(seconds), Decimal(f"0.{moment[7] or '0'}"))


def _checked_number(word: str) -> bytes:
    if not _NUMBER.fullmatch(word):
        raise ValueError(f"'{word}' is not a number")
    return word.encode()


def _string(field: str, text: bytes) -> str:
    try:
        value = msgspec.json.decode(text)
    except ValidationError:
        raise Refused("wrong_type", field) from None
    except DecodeError:
        raise Refused("broken_utf8", field) from None
    return str(value)


def _number_text(field: str, amount: Decimal) -> bytes:
    """As the field is written: whole milliseconds, the nearest, half to even; seconds as a float; a count exactly."""
    if field.endswith("_s"):
        seconds = float(amount)
        return repr(seconds if math.isfinite(seconds) else 0.0).encode()
    if field.endswith("_ms") or amount == amount.to_integral_value():
        return str(int(amount.to_integral_value())).encode()
    return str(amount).encode()


def is_number(field: str) -> bool:
    """Whether a field of ours holds a number, and so may be quoted on the line, added up or taken off."""
    try:
        msgspec.convert(1, FIELD_TYPES[field])
    except ValidationError:
        return False
    return True


def takes_strings(field: str) -> bool:
    """Whether a field of ours is a name or a word, and so may be joined of several."""
    try:
        msgspec.convert("normal" if field == "mode" else "x", FIELD_TYPES[field])
    except ValidationError:
        return False
    return True
