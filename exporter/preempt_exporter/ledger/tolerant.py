"""Reads what JSON writers may spell otherwise several times faster than the exact reader.

A ledger whose ids are integers, whose milliseconds are floats, or whose lines all say `"run": ""` is refused line for
line by types that know one spelling only. Here each kind of line has a looser twin that takes either; the strict type
then judges what became of it. What it refuses, or cannot judge, is for `exact`.
"""

from typing import Any, Final, get_type_hints

import msgspec
from msgspec import DecodeError, Struct, defstruct, inspect

from preempt_exporter.ledger.exact import INTEGER_NAMES
from preempt_exporter.ledger.records import EVENT_TYPES, MAX_EXACT_INTEGER, Attempt, Record


class _Twin(Struct, frozen=True):
    """How a looser record becomes a record."""

    kind: type[Record]
    integers: tuple[str, ...]
    names: tuple[str, ...]


def read_event_tolerantly(line: bytes) -> Record:
    """The event on a line of ASCII without backslashes; raises DecodeError where the exact reader must decide."""
    return _strict(_LOOSE_EVENTS.decode(line))


def read_attempt_tolerantly(line: bytes) -> Record:
    """The attempt on a line of ASCII without backslashes or `event`; raises DecodeError as for events."""
    return _strict(_LOOSE_ATTEMPTS.decode(line))


def _strict(loose: Any) -> Record:
    twin = _TWINS[type(loose)]
    for name in twin.integers:
        value = getattr(loose, name)
        if type(value) is float:
            if not value.is_integer() or abs(value) >= MAX_EXACT_INTEGER:
                raise DecodeError
            setattr(loose, name, int(value))
    for name in twin.names:
        value = getattr(loose, name)
        if type(value) is int:
            if abs(value) > MAX_EXACT_INTEGER:
                raise DecodeError
            setattr(loose, name, str(value))
        elif value == "":
            setattr(loose, name, None)
    return msgspec.convert(loose, twin.kind, from_attributes=True)


def _loose(kind: type[Record]) -> tuple[type[Struct], _Twin]:
    described = inspect.type_info(kind)
    assert isinstance(described, inspect.StructType)
    hints = get_type_hints(kind, include_extras=True)
    fields: list[tuple[str, Any] | tuple[str, Any, None]] = []
    integers: list[str] = []
    names: list[str] = []
    for field in described.fields:
        options = field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,)
        bare = [option.type if isinstance(option, inspect.Metadata) else option for option in options]
        loose: Any = hints[field.name]
        match bare[0]:
            case inspect.IntType():
                loose = int | float | None
                integers.append(field.name)
            case inspect.StrType(max_length=int()):
                loose = str | int | None if field.name in INTEGER_NAMES else str | None
                names.append(field.name)
        fields.append((field.name, loose) if field.required else (field.name, loose, None))
    config = kind.__struct_config__
    twin = defstruct(kind.__name__, fields, kw_only=True, gc=False, tag=config.tag, tag_field=config.tag_field)
    return twin, _Twin(kind, tuple(integers), tuple(names))


_LOOSE_KINDS = [_loose(kind) for kind in EVENT_TYPES]
_LOOSE_ATTEMPT = _loose(Attempt)
_TWINS: Final = dict([*_LOOSE_KINDS, _LOOSE_ATTEMPT])


def _union(kinds: list[type[Struct]]) -> Any:
    union: Any = kinds[0]
    for kind in kinds[1:]:
        union |= kind
    return union


_LOOSE_EVENTS: Final = msgspec.json.Decoder(_union([loose for loose, _ in _LOOSE_KINDS]))
_LOOSE_ATTEMPTS: Final = msgspec.json.Decoder(_LOOSE_ATTEMPT[0])
