"""Accepted shards of a run: whole ones, and ones whose accepted parts cover every case once (ledger.md 4)."""

import re
from collections.abc import Iterable

from msgspec import Struct, field

from preempt_exporter.ledger.records import MAX_EXACT_INTEGER

MAX_SHARDS_PER_RUN = 1_000_000
"""How many names a run remembers; beyond that a shard counts each time it is committed."""

_PART = re.compile(r"(.+)/([0-9]{1,256})-([0-9]{1,256})", re.DOTALL)


def part_of(shard: str) -> tuple[str, int, int] | None:
    """The whole shard, first and last case that a part's name (`3/30-49`) gives; None for a whole shard.

    Cases in reverse or past 2^53 are none: a name that looks so is a whole shard's.
    """
    match = _PART.fullmatch(shard)
    if match is None:
        return None
    first, last = int(match[2]), int(match[3])
    return (match[1], first, last) if first <= last <= MAX_EXACT_INTEGER else None


class AcceptedShards(Struct, dict=True):
    """Which shards and parts are accepted now, and by which epoch (None: by parts that cover the whole)."""

    whole: dict[str, int | None] = field(default_factory=dict)
    parts: dict[str, dict[tuple[int, int], int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """By whole shard the cases of its parts in sum: only where they are as many as it has is a closer look due."""
        self._cases = {whole: sum(map(_length, parts)) for whole, parts in self.parts.items()}

    def accept(self, shard: str, epoch: int, cases_per_shard: int | None) -> int:
        """A commit of `shard` was seen; how many whole shards it made accepted (0 or 1)."""
        part = part_of(shard)
        if part is None:
            return self._accept_whole(shard, epoch)
        whole, first, last = part
        if len(self.parts) < MAX_SHARDS_PER_RUN or whole in self.parts:
            parts = self.parts.setdefault(whole, {})
            if (first, last) not in parts:
                self._cases[whole] = self._cases.get(whole, 0) + _length((first, last))
            parts[first, last] = epoch
        return self._accept_if_covered(whole, cases_per_shard)

    def accept_covered(self, cases_per_shard: int | None) -> int:
        """The run's `cases_per_shard` became known or changed; how many whole shards that made accepted."""
        return sum(self._accept_if_covered(whole, cases_per_shard) for whole in self.parts)

    def take_back(self, shard: str, epoch: int) -> None:
        """A `compensate` was seen: what that epoch brought is accepted no longer, nor the whole that it is part of."""
        part = part_of(shard)
        if part is None:
            if self.whole.get(shard) == epoch:
                del self.whole[shard]
            return
        whole, first, last = part
        parts = self.parts.get(whole, {})
        if parts.get((first, last)) == epoch:
            del parts[first, last]
            self._cases[whole] -= _length((first, last))
            self.whole.pop(whole, None)

    def _accept_if_covered(self, whole: str, cases_per_shard: int | None) -> int:
        if cases_per_shard is None or self._cases.get(whole) != cases_per_shard:
            return 0
        return self._accept_whole(whole, None) if _covers_each_once(self.parts[whole], cases_per_shard) else 0

    def _accept_whole(self, shard: str, epoch: int | None) -> int:
        is_new = shard not in self.whole
        if not is_new or len(self.whole) < MAX_SHARDS_PER_RUN:
            self.whole[shard] = epoch
        return int(is_new)


def _length(part: tuple[int, int]) -> int:
    first, last = part
    return last - first + 1


def _covers_each_once(parts: Iterable[tuple[int, int]], cases: int) -> bool:
    """Whether the closed ranges hold each of the cases 0 to `cases` - 1 exactly once."""
    next_case = 0
    for first, last in sorted(parts):
        if first != next_case:
            return False
        next_case = last + 1
    return next_case == cases and cases > 0
