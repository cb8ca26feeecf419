"""Finds the JSON texts that stand at known paths of an object, without looking into anything else.

A path is the keys and indexes that lead to a value, outermost first. It is written with dots between keys and each
index in brackets behind what it is taken from: `choices[0].finish_reason`, from 0, or from the end with `[-1]`. A key
that itself holds a dot or a bracket stands in double quotes: `attributes."gen_ai.usage.input_tokens"`.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, defstruct
from msgspec.structs import astuple

from preempt_exporter.ledger.exact import MAX_NESTING

FieldPath = tuple[str | int, ...]
"""A key, then keys and indexes."""

_KEY = re.compile(r'"([^"\\\x00-\x1f]+)"|([^."\[\]\\\x00-\x1f]+)')
_INDEX = re.compile(r"\[(0|-?[1-9][0-9]{0,8})\]")


def parse_path(text: str) -> FieldPath:
    """The keys and indexes of a written path; `ValueError` with a sentence for what is none."""
    steps: list[str | int] = []
    position = 0
    while key := _KEY.match(text, position):
        steps.append(key[1] or key[2])
        position = key.end()
        while index := _INDEX.match(text, position):
            steps.append(int(index[1]))
            position = index.end()
        if position == len(text) and len(steps) <= MAX_NESTING:
            return tuple(steps)
        if text[position : position + 1] != ".":
            break
        position += 1
    raise ValueError(
        f"'{text}' is not a path: keys with dots between them, an index in brackets behind its array, a key with dots "
        "or brackets in it in double quotes"
    )


def written(path: FieldPath) -> str:
    """The path as `parse_path` takes it."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{_written_key(step)}" for step in path)[1:]


def _written_key(key: str) -> str:
    return key if re.fullmatch(r'[^."\[\]]+', key) else f'"{key}"'


class LinePaths:
    """Reads the texts at several paths at once; each object and array on the way is gone through once more."""

    def __init__(self, paths: Iterable[FieldPath]) -> None:
        """Every path that `texts` is to find, none of them empty."""
        self._slots = {path: slot for slot, path in enumerate(dict.fromkeys(paths))}
        self._find = _object(_rests(self._slots, str))

    def slot(self, path: FieldPath) -> int:
        """Where in `texts` the value at `path` comes."""
        return self._slots[path]

    def texts(self, line: bytes) -> list[bytes]:
        """By slot the JSON text at each path, empty where there is none; of a key that stands twice the last counts.

        Raises what msgspec raises where the line is no JSON object.
        """
        found = [b""] * len(self._slots)
        self._find(line, found)
        return found


Slots = dict[FieldPath, int]
"""Where in a line's texts each value goes, by the path that leads to it from here."""
Step = TypeVar("Step", str, int)
Finder = Callable[[bytes, list[bytes]], None]
"""Puts the texts that are looked for in one object or array into their slots."""

_ELEMENTS = msgspec.json.Decoder(list[Raw])


def _object(by_key: dict[str, Slots]) -> Finder:
    names = {f"key{index}": key for index, key in enumerate(by_key)}
    kind = defstruct("Object", [(name, Raw, Raw(b"")) for name in names], rename=names)
    return _finder(msgspec.json.Decoder(kind), astuple, by_key.values())


def _array(by_index: dict[int, Slots]) -> Finder:
    def elements(there: list[Raw]) -> list[Raw]:
        return [there[index] if -len(there) <= index < len(there) else Raw(b"") for index in by_index]

    return _finder(_ELEMENTS, elements, by_index.values())


def _finder(
    decoder: "msgspec.json.Decoder[Any]",
    parts: Callable[[Any], Iterable[Raw]],
    rests: Iterable[Slots],
) -> Finder:
    """`parts` takes what leads on out of what was decoded; `rests` is what is looked for in each part."""
    decode = decoder.decode
    places = tuple((rest.get(()), _below(rest) or None) for rest in rests)

    def find(text: bytes, found: list[bytes]) -> None:
        for raw, (slot, below) in zip(parts(decode(text)), places, strict=True):
            value = bytes(raw)
            if slot is not None:
                found[slot] = value
            if below is not None and (find_below := below.get(value[:1])) is not None:
                find_below(value, found)

    return find


def _below(slots: Slots) -> dict[bytes, Finder]:
    """How to go on in a value, by the bracket that it begins with."""
    by_key, by_index = _rests(slots, str), _rests(slots, int)
    return ({b"{": _object(by_key)} if by_key else {}) | ({b"[": _array(by_index)} if by_index else {})


def _rests(slots: Slots, kind: type[Step]) -> dict[Step, Slots]:
    """By each first step of that kind what is looked for behind it."""
    rests: dict[Step, Slots] = {}
    for path, slot in slots.items():
        if path and isinstance(step := path[0], kind):
            rests.setdefault(step, {})[path[1:]] = slot
    return rests
