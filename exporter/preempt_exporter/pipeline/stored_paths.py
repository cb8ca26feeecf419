"""Paths in the state file, which holds UTF-8 only, while a path may hold any byte but NUL.

A byte that is no UTF-8 is a surrogate in Python's text of a path. It is stored as NUL and its two hexadecimal digits,
which no path holds otherwise.
"""

import re
from collections.abc import Callable

from msgspec.structs import replace

from preempt_exporter.state.figures import Figures
from preempt_exporter.tail.positions import FilePosition, LedgerPositions, PastContent, Positions

Respell = Callable[[str], str]

_BYTE = re.compile("[\udc80-\udcff]")
_STORED_BYTE = re.compile("\0([89a-f][0-9a-f])")


def stored(path: str) -> str:
    """A path as the state file holds it."""
    return _BYTE.sub(lambda byte: f"\0{ord(byte.group()) - 0xDC00:02x}", path)


def restored(text: str) -> str:
    """The path that `stored` made the text of."""
    return _STORED_BYTE.sub(lambda byte: chr(0xDC00 + int(byte.group(1), 16)), text)


def figures_respelled(figures: Figures, respell: Respell) -> Figures:
    """The same figures, every path in them given to `respell`."""
    ledgers = [
        memory if (name := respell(memory.name)) == memory.name else replace(memory, name=name)  # a copy indexes anew
        for memory in figures.ledgers
    ]
    return replace(figures, ledgers=ledgers)


def positions_respelled(positions: Positions, respell: Respell) -> Positions:
    """The same positions, every path in them given to `respell`."""
    return Positions(ledgers={respell(live): _ledger(kept, respell) for live, kept in positions.ledgers.items()})


def _ledger(kept: LedgerPositions, respell: Respell) -> LedgerPositions:
    return replace(
        kept,
        files=[_file(position, respell) for position in kept.files],
        past=[_past(content, respell) for content in kept.past],
        vanished=[_past(content, respell) for content in kept.vanished],
        packed_unexplained=[respell(path) for path in kept.packed_unexplained],
    )


def _past(content: PastContent, respell: Respell) -> PastContent:
    return replace(content, position=_file(content.position, respell))


def _file(position: FilePosition, respell: Respell) -> FilePosition:
    return replace(position, path=respell(position.path), real_path=respell(position.real_path))
