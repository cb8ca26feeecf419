"""The same line twice: what a ledger remembers so that a repeat changes nothing but its counter (ledger.md 1)."""

from collections.abc import Hashable, Sequence
from typing import TypeVar, cast

from msgspec import Struct, field

from preempt_exporter.ledger.records import Attempt, Record

REMEMBERED_IDS = 100_000
REMEMBERED_ATTEMPTS = 10_000

_Key = TypeVar("_Key", bound=Hashable)


class RecentIds(Struct):
    """The last `REMEMBERED_IDS` ids in the order of their lines.

    Two generations: what filled up is `older`, what fills is `newer`. Together they hold at least the last ids, so ids
    in neither are new, which set arithmetic tells for a whole batch; only a hit asks for the exact position.
    """

    older: list[str] = field(default_factory=list)
    newer: list[str] = field(default_factory=list)
    older_set: set[str] = field(default_factory=set)
    newer_set: set[str] = field(default_factory=set)

    def add_all_if_new(self, ids: list[str]) -> bool:
        """Remember the ids of a batch if none of them can be a repeat; else leave everything as it was."""
        newer = self.newer_set
        if not newer.isdisjoint(ids) or not self.older_set.isdisjoint(ids):
            return False
        before = len(newer)
        newer.update(ids)
        if len(newer) != before + len(ids):
            newer.difference_update(ids)
            return False
        self.newer += ids
        if len(self.newer) >= REMEMBERED_IDS:
            self._turn()
        return True

    def add_if_new(self, line_id: str) -> bool:
        """Remember one id unless it is among the last ones."""
        if line_id in self.newer_set or (line_id in self.older_set and line_id in self._older_in_reach()):
            return False
        self.newer_set.add(line_id)
        self.newer.append(line_id)
        if len(self.newer) >= REMEMBERED_IDS:
            self._turn()
        return True

    def _older_in_reach(self) -> list[str]:
        return self.older[max(0, len(self.older) + len(self.newer) - REMEMBERED_IDS) :]

    def _turn(self) -> None:
        self.older, self.older_set = self.newer, self.newer_set
        self.newer, self.newer_set = [], set()


class LedgerMemory(Struct):
    """One ledger's last ids, and its last attempt lines with their names. Repeats are judged within a ledger only."""

    name: str
    ids: RecentIds = field(default_factory=RecentIds)
    attempts: list[Attempt] = field(default_factory=list)
    """The last attempt lines and, so that forgetting stays cheap, as many older ones again at most."""
    attempt_counts: dict[Attempt, int] = field(default_factory=dict)
    name_counts: dict[tuple[str | None, str, str, int], int] = field(default_factory=dict)
    ok_counts: dict[tuple[str | None, str, str], int] = field(default_factory=dict)
    """How many remembered attempts of (run, lane, job) ended `ok`."""

    def without_repeated_ids(self, records: Sequence[Record]) -> Sequence[Record]:
        """The records whose `id` is not among the ledger's last ids; remembers theirs. Same order."""
        named: list[str | None] = [record.id for record in records]
        ids = cast(list[str], named) if None not in named else [name for name in named if name is not None]
        if not ids or self.ids.add_all_if_new(ids):
            return records
        return [record for record in records if record.id is None or self.ids.add_if_new(record.id)]

    def repeats_attempt(self, attempt: Attempt) -> bool:
        """Whether an attempt line equal in all fields is among the last remembered ones."""
        return attempt in self.attempt_counts

    def knows_name_of(self, attempt: Attempt) -> bool:
        """Whether a remembered attempt line has the same (`run`, `lane`, `job_id`, `attempt`)."""
        return _name(attempt) in self.name_counts

    def knows_completed_job_of(self, attempt: Attempt) -> bool:
        """Whether a remembered attempt already completed the same job in the same lane."""
        return _job(attempt) in self.ok_counts

    def remember_attempt(self, attempt: Attempt) -> None:
        """Add to the last attempt lines and forget the one that is 10,000 lines back."""
        self.attempts.append(attempt)
        _count(self.attempt_counts, attempt)
        _count(self.name_counts, _name(attempt))
        if attempt.outcome == "ok":
            _count(self.ok_counts, _job(attempt))
        if len(self.attempts) > REMEMBERED_ATTEMPTS:
            old = self.attempts[-REMEMBERED_ATTEMPTS - 1]
            _uncount(self.attempt_counts, old)
            _uncount(self.name_counts, _name(old))
            if old.outcome == "ok":
                _uncount(self.ok_counts, _job(old))
        if len(self.attempts) == 2 * REMEMBERED_ATTEMPTS:
            del self.attempts[:REMEMBERED_ATTEMPTS]


def _name(attempt: Attempt) -> tuple[str | None, str, str, int]:
    return (attempt.run, attempt.lane, attempt.job_id, attempt.attempt)


def _job(attempt: Attempt) -> tuple[str | None, str, str]:
    return (attempt.run, attempt.lane, attempt.job_id)


def _count(counts: dict[_Key, int], key: _Key) -> None:
    counts[key] = counts.get(key, 0) + 1


def _uncount(counts: dict[_Key, int], key: _Key) -> None:
    if counts[key] == 1:
        del counts[key]
    else:
        counts[key] -= 1
