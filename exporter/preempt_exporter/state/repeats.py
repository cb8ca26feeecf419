"""The same line twice: what a ledger remembers so that a repeat changes nothing but its counter (ledger.md 1)."""

from collections.abc import Sequence
from typing import cast

from msgspec import Struct, field

from preempt_exporter.ledger.records import Attempt, Record
from preempt_exporter.state.recent_ids import RecentIds

REMEMBERED_ATTEMPTS = 10_000


class LedgerMemory(Struct, dict=True):
    """One ledger's last ids, and its last attempt lines by name. Repeats are judged within a ledger only."""

    name: str
    ids: RecentIds = field(default_factory=RecentIds)
    attempts: list[Attempt] = field(default_factory=list)
    """The last attempt lines and, so that forgetting stays cheap, as many older ones again at most."""

    def __post_init__(self) -> None:
        """What is looked up follows from the attempts, so a snapshot does without it."""
        self._same_name: dict[tuple[str | None, str, str, int], tuple[Attempt, ...]] = {}
        """The remembered attempts of a name, which is (run, lane, job, attempt), in their order."""
        self._ok_counts: dict[tuple[str | None, str, str], int] = {}
        """How many remembered attempts of (run, lane, job) ended `ok`."""
        for attempt in self.attempts[-REMEMBERED_ATTEMPTS:]:
            self._index(attempt)

    def without_repeated_ids(self, records: Sequence[Record]) -> Sequence[Record]:
        """The records whose `id` is not among the ledger's last ids; remembers theirs. Same order."""
        named: list[str | None] = [record.id for record in records]
        ids = cast(list[str], named) if None not in named else [name for name in named if name is not None]
        if not ids or self.ids.add_all_if_new(ids):
            return records
        return [record for record in records if record.id is None or self.ids.add_if_new(record.id)]

    def attempts_named_like(self, attempt: Attempt) -> tuple[Attempt, ...]:
        """The remembered attempt lines with the same (`run`, `lane`, `job_id`, `attempt`)."""
        return self._same_name.get(_name(attempt), ())

    def knows_completed_job_of(self, attempt: Attempt) -> bool:
        """Whether a remembered attempt already completed the same job in the same lane."""
        return _name(attempt)[:3] in self._ok_counts

    def remember_attempt(self, attempt: Attempt) -> None:
        """Add to the last attempt lines and forget the one that is 10,000 lines back."""
        attempts = self.attempts
        attempts.append(attempt)
        self._index(attempt)
        if len(attempts) > REMEMBERED_ATTEMPTS:
            self._drop_from_index(attempts[-REMEMBERED_ATTEMPTS - 1])
            if len(attempts) == 2 * REMEMBERED_ATTEMPTS:
                del attempts[:REMEMBERED_ATTEMPTS]

    def _index(self, attempt: Attempt) -> None:
        name = _name(attempt)
        self._same_name[name] = (*self._same_name.get(name, ()), attempt)
        if attempt.outcome == "ok":
            job = name[:3]
            self._ok_counts[job] = self._ok_counts.get(job, 0) + 1

    def _drop_from_index(self, oldest: Attempt) -> None:
        name = _name(oldest)
        others = self._same_name[name][1:]
        if others:
            self._same_name[name] = others
        else:
            del self._same_name[name]
        if oldest.outcome == "ok":
            job = name[:3]
            if self._ok_counts[job] == 1:
                del self._ok_counts[job]
            else:
                self._ok_counts[job] -= 1


def _name(attempt: Attempt) -> tuple[str | None, str, str, int]:
    """What tells attempts apart; without its last part, what tells jobs of a lane apart."""
    return (attempt.run, attempt.lane, attempt.job_id, attempt.attempt)
