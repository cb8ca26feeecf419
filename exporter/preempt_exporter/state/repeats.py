"""The same line twice: what a ledger remembers so that a repeat changes nothing but its counter (ledger.md 1)."""

from collections import deque
from collections.abc import Hashable, Sequence
from typing import TypeVar

from msgspec import Struct, field

from preempt_exporter.ledger.records import Attempt, Record

REMEMBERED_IDS = 100_000
REMEMBERED_ATTEMPTS = 10_000

_Key = TypeVar("_Key", bound=Hashable)


class LedgerMemory(Struct):
    """One ledger's last ids, and its last attempt lines with their names. Repeats are judged within a ledger only."""

    name: str
    ids: deque[str] = field(default_factory=deque)
    id_set: set[str] = field(default_factory=set)
    attempts: deque[Attempt] = field(default_factory=deque)
    attempt_counts: dict[Attempt, int] = field(default_factory=dict)
    name_counts: dict[tuple[str | None, str, str, int], int] = field(default_factory=dict)
    ok_counts: dict[tuple[str | None, str, str], int] = field(default_factory=dict)
    """How many remembered attempts of (run, lane, job) ended `ok`."""

    def without_repeated_ids(self, records: Sequence[Record]) -> Sequence[Record]:
        """The records whose `id` is not among the ledger's last ids; remembers theirs. Same order.

        A batch without any repeat, the common case, is told by set arithmetic alone: ids that are not among the
        last 100,000 before the batch and differ from each other cannot be repeats at any point within it.
        """
        ids = [record.id for record in records if record.id is not None]
        if not ids:
            return records
        seen = self.id_set
        if len(ids) <= REMEMBERED_IDS and seen.isdisjoint(ids):
            before = len(seen)
            seen.update(ids)
            if len(seen) == before + len(ids):
                self.ids.extend(ids)
                self._forget_oldest_ids()
                return records
            seen.difference_update(ids)
        return [record for record in records if record.id is None or self._is_new(record.id)]

    def _is_new(self, line_id: str) -> bool:
        if line_id in self.id_set:
            return False
        self.id_set.add(line_id)
        self.ids.append(line_id)
        self._forget_oldest_ids()
        return True

    def _forget_oldest_ids(self) -> None:
        ids, seen = self.ids, self.id_set
        for _ in range(len(ids) - REMEMBERED_IDS):
            seen.discard(ids.popleft())

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
            old = self.attempts.popleft()
            _uncount(self.attempt_counts, old)
            _uncount(self.name_counts, _name(old))
            if old.outcome == "ok":
                _uncount(self.ok_counts, _job(old))


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
