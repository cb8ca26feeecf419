"""Finds the JSON texts that stand at known paths of an object, without looking into anything else.

A path is the keys that lead to a value, outermost first. It is written with dots between keys; a key that itself holds
a dot, a quote aside, stands in double quotes: `attributes."gen_ai.usage.input_tokens"`. Arrays are not looked into.
"""

import re
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Raw, Struct, defstruct
from msgspec.structs import astuple

from preempt_exporter.ledger.exact import MAX_NESTING

FieldPath = tuple[str, ...]

_KEY = re.compile(r'"([^"\\\x00-\x1f]+)"|([^."\[\]\\\x00-\x1f]+)')


def parse_path(text: str) -> FieldPath:
    """The keys of a written path; `ValueError` with a sentence for what is none."""
    keys: list[str] = []
    position = 0
    while key := _KEY.match(text, position):
        keys.append(key[1] or key[2])
        position = key.end()
        if position == len(text) and len(keys) <= MAX_NESTING:
            return tuple(keys)
        if text[position : position + 1] != ".":
            break
        position += 1
    raise ValueError(f"'{text}' is not a path: keys with dots between them, a key with dots in it in double quotes")


def written(path: FieldPath) -> str:
    """The path as `parse_path` takes it."""
    return ".".join(key if re.fullmatch(r'[^."\[\]]+', key) else f'"{key}"' for key in path)


class _Object(Struct, frozen=True):
    """An object on the way to values."""

    decoder: "msgspec.json.Decoder[Any]"
    takes: "tuple[tuple[int | None, _Object | None], ...]"
    """For each key that is looked at: the slot of its value, and what to do with an object there."""


class LinePaths:
    """Reads the texts at several paths at once; each object on the way is gone through once more."""

    def __init__(self, paths: Iterable[FieldPath]) -> None:
        """Every path that `texts` is to find, none of them empty."""
        self._slots = {path: slot for slot, path in enumerate(dict.fromkeys(paths))}
        self._root = _object(self._slots)

    def slot(self, path: FieldPath) -> int:
        """Where in `texts` the value at `path` comes."""
        return self._slots[path]

    def texts(self, line: bytes) -> list[bytes]:
        """By slot the JSON text at each path, empty where there is none; of a key that stands twice the last counts.

        Raises what msgspec raises where the line is no JSON object.
        """
        found = [b""] * len(self._slots)
        _take(self._root, line, found)
        return found


def _take(node: _Object, text: bytes, found: list[bytes]) -> None:
    for raw, (slot, below) in zip(astuple(node.decoder.decode(text)), node.takes, strict=True):
        value = bytes(raw)
        if slot is not None:
            found[slot] = value
        if below is not None and value[:1] == b"{":
            _take(below, value, found)


def _object(slots: dict[FieldPath, int]) -> _Object:
    by_key: dict[str, dict[FieldPath, int]] = {}
    for path, slot in slots.items():
        by_key.setdefault(path[0], {})[path[1:]] = slot
    takes = tuple(
        (rests.get(()), _object(below) if (below := _without_end(rests)) else None) for rests in by_key.values()
    )
    names = {f"key{index}": key for index, key in enumerate(by_key)}
    kind = defstruct("Object", [(name, Raw, Raw(b"")) for name in names], rename=names)
    return _Object(msgspec.json.Decoder(kind), takes)


def _without_end(rests: dict[FieldPath, int]) -> dict[FieldPath, int]:
    return {rest: slot for rest, slot in rests.items() if rest}
