"""The last ids of a ledger, in so little memory that asking for them does not empty the processor's cache.

Writers count: nearly every id is larger than all ids before it that share all but its last characters, and so cannot
be one of them. `_Order` knows the largest of each such block and nothing else. Where ids come in another order, or
every one in a block of its own (random ones), `_Hashes` knows a number for each, not the strings. Only where such a
number was seen before, `_Places` knows the ids themselves, until the generation is full.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, Literal

import msgspec
from msgspec import Struct, field

REMEMBERED_IDS = 100_000
PACKED_IDS = 1_024
BLOCK_CHARACTERS = 4
"""Ids are of one block that differ in their last so many characters only: ten thousand numbers in a row."""
MAX_BLOCKS = REMEMBERED_IDS // 8
"""With more of them than this, knowing the blocks saves nothing over knowing the ids."""

_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(list[str]).decode


class Generation(Struct):
    """Ids in the order of their lines. Packed, as strings of their own take five times the memory."""

    packs: list[bytes] = field(default_factory=list)
    loose: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, ids: Sequence[str]) -> None:
        """Remember more of them."""
        self.loose += ids
        self.count += len(ids)
        if len(self.loose) >= PACKED_IDS:
            self.packs.append(_ENCODE(self.loose))
            self.loose = []

    def __iter__(self) -> Iterator[str]:
        """The ids, oldest first."""
        return chain(chain.from_iterable(map(_DECODE, self.packs)), self.loose)


class RecentIds(Struct, dict=True):
    """The last `REMEMBERED_IDS` ids, and as many older ones again at most, which count as forgotten."""

    previous: Generation = field(default_factory=Generation)
    current: Generation = field(default_factory=Generation)

    def __post_init__(self) -> None:
        """What is looked up follows from the ids, so a snapshot does without it."""
        generations = (self.previous, self.current)
        self._known: _Order | _Hashes | _Places = _Order.of(*generations) or _Hashes(*generations)

    @property
    def looked_up(self) -> Literal["blocks", "hashes", "ids"]:
        """What an id is looked up in: the largest of each block while that is enough, at the most all ids."""
        return self._known.what

    def add_all_if_new(self, ids: Sequence[str]) -> bool:
        """Remember the ids of a batch if none of them can be a repeat; else leave everything as it was."""
        self._turn_when_full()
        while not self._known.add_all_if_new(ids):
            if isinstance(self._known, _Places):
                return False
            closer = _Hashes if isinstance(self._known, _Order) else _Places
            self._known = closer(self.previous, self.current)
        self.current.add(ids)
        return True

    def add_if_new(self, line_id: str) -> bool:
        """Remember one id unless it is among the last ones."""
        self._turn_when_full()
        if not isinstance(self._known, _Places):
            self._known = _Places(self.previous, self.current)
        first_in_reach = self.previous.count + self.current.count - REMEMBERED_IDS
        if not self._known.add_if_new(line_id, first_in_reach):
            return False
        self.current.add((line_id,))
        return True

    def _turn_when_full(self) -> None:
        if self.current.count < REMEMBERED_IDS:
            return
        self.previous, self.current = self.current, Generation()
        if isinstance(self._known, _Places):
            self.__post_init__()
            return
        self._known.turn()
        if isinstance(self._known, _Hashes):
            self._known = _Order.of(self.previous, self.current) or self._known


class _Order:
    """The largest id of each block. What is larger is new."""

    what: Final = "blocks"

    def __init__(self) -> None:
        self._older: dict[str, str] = {}
        self._newer: dict[str, str] = {}

    @classmethod
    def of(cls, older: Iterable[str], newer: Iterable[str]) -> "_Order | None":
        """None where there are too many blocks."""
        order = cls()
        if not order._raise_to(older):
            return None
        order.turn()
        return order if order._raise_to(newer) else None

    def add_all_if_new(self, ids: Iterable[str]) -> bool:
        """Remember them if each is certain to be new. After a False the order holds no longer.

        Where one writer writes alone, two ids in a row are of one block. From then on `end` lies behind every id of
        that block, and what is as long as they are, larger than the largest and smaller than `end` is of it as well.
        """
        older, newer = self._older, self._newer
        block = largest = end = ""
        length = 0
        for line_id in ids:
            if end > line_id > largest and len(line_id) == length:
                largest = line_id
                continue
            if end:
                newer[block] = largest
                end = ""
            before, block = block, line_id[:-BLOCK_CHARACTERS]
            try:
                known = newer[block]
            except KeyError:
                known = older.get(block, "")
            if line_id <= known:
                return False
            newer[block] = line_id
            if block == before:
                largest, end, length = line_id, block + "\xff", len(line_id)
        if end:
            newer[block] = largest
        return len(newer) <= MAX_BLOCKS

    def turn(self) -> None:
        """Begin a generation."""
        self._older, self._newer = self._newer, {}

    def _raise_to(self, ids: Iterable[str]) -> bool:
        older, newer = self._older, self._newer
        for line_id in ids:
            block = line_id[:-BLOCK_CHARACTERS]
            newer[block] = max(line_id, newer.get(block) or older.get(block, ""))
            if len(newer) > MAX_BLOCKS:
                return False
        return True


class _Hashes:
    """A hash of each id. What has another than all of them is new."""

    what: Final = "hashes"

    def __init__(self, older: Iterable[str], newer: Iterable[str]) -> None:
        self._older = set(map(hash, older))
        self._newer = set(map(hash, newer))

    def add_all_if_new(self, ids: Sequence[str]) -> bool:
        """Remember all of them if each is certain to be new; else none."""
        hashes = set(map(hash, ids))
        newer = self._newer
        if len(hashes) < len(ids) or not newer.isdisjoint(hashes) or not self._older.isdisjoint(hashes):
            return False
        newer |= hashes
        return True

    def turn(self) -> None:
        """Begin a generation."""
        self._older, self._newer = self._newer, set()


class _Places:
    """Every id: of the newer ones that they are there, of the older ones their place, as some are out of reach."""

    what: Final = "ids"

    def __init__(self, older: Iterable[str], newer: Iterable[str]) -> None:
        self._older = {line_id: place for place, line_id in enumerate(older)}
        self._newer = set(newer)

    def add_all_if_new(self, ids: Sequence[str]) -> bool:
        """Remember all of them if each is in neither generation; else none."""
        newer = self._newer
        if not newer.isdisjoint(ids) or not self._older.keys().isdisjoint(ids):
            return False
        before = len(newer)
        newer.update(ids)
        if len(newer) != before + len(ids):
            newer.difference_update(ids)
            return False
        return True

    def add_if_new(self, line_id: str, first_place_in_reach: int) -> bool:
        """Remember one unless it is known, an older one from that place on."""
        if line_id in self._newer or self._older.get(line_id, -1) >= max(0, first_place_in_reach):
            return False
        self._newer.add(line_id)
        return True
