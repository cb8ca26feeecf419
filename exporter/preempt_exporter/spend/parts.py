"""Parts of a shard: `3/30-49` names cases 30 to 49 of shard `3`, counted from 0; both ends belong to it."""

import re
from collections.abc import Iterable

from msgspec import Struct

from preempt_exporter.errors import UsageError
from preempt_exporter.ledger.records import MAX_EXACT_INTEGER

_PART = re.compile(r"(?P<base>.+)/(?P<first>[0-9]{1,256})-(?P<last>[0-9]{1,256})", re.DOTALL)


class Cases(Struct, frozen=True):
    """A run of cases of one shard, both ends included."""

    first: int
    last: int

    def overlaps(self, other: "Cases | None") -> bool:
        """Whether a case belongs to both; None is the whole shard, which every part overlaps."""
        return other is None or (self.first <= other.last and other.first <= self.last)


class ShardName(Struct, frozen=True):
    """What a shard's name says: the shard that it is, or is a part of, and which cases (None: all)."""

    base: str
    cases: Cases | None = None

    def overlaps(self, other: "ShardName") -> bool:
        """Whether the two name a case in common."""
        if self.base != other.base:
            return False
        return self.cases is None or self.cases.overlaps(other.cases)


def read_shard_name(shard: str) -> ShardName:
    """Take a shard's name apart.

    Raises `UsageError` for cases in reverse or past 2^53 and for a part of a part, whose cases would have two names:
    mistakes that would let a case be billed twice.
    """
    match = _PART.fullmatch(shard)
    if match is None:
        return ShardName(shard)
    first, last = int(match["first"]), int(match["last"])
    if first > last or last > MAX_EXACT_INTEGER:
        raise UsageError(f"shard {shard!r} names no cases: write two counts, the lower first, as in 3/30-49")
    if _PART.fullmatch(match["base"]):
        raise UsageError(f"shard {shard!r} is a part of a part: name the shard's own cases, as in 3/30-49")
    return ShardName(match["base"], Cases(first, last))


def cover_the_shard(parts: Iterable[Cases], cases_per_shard: int) -> bool:
    """Whether the parts hold each of the cases 0 to `cases_per_shard` - 1 once, and no other."""
    next_case = 0
    for part in sorted(parts, key=lambda part: part.first):
        if part.first != next_case:
            return False
        next_case = part.last + 1
    return next_case == cases_per_shard > 0
