"""The same line twice: what a ledger remembers so that a repeat changes nothing but its counter (ledger.md 1)."""

from collections.abc import Sequence
from typing import cast

from msgspec import Struct, field

from preempt_exporter.ledger.records import Attempt, Record
from preempt_exporter.state.recent_ids import RecentIds

REMEMBERED_ATTEMPTS = 10_000
FORGOTTEN_TOGETHER = 1_000

AttemptName = tuple[str | None, str, str, int]
"""Run, lane, job and attempt."""


class LedgerMemory(Struct, dict=True):
    """One ledger's last ids, and its last attempt lines by name. Repeats are judged within a ledger only."""

    name: str
    ids: RecentIds = field(default_factory=RecentIds)
    attempts: list[Attempt] = field(default_factory=list)
    """The last attempt lines and, so that forgetting stays cheap, some older ones."""
    gone_since_ms: int | None = None
    """When nobody followed the ledger any more, as none of its files was left; None: it is followed."""

    def __post_init__(self) -> None:
        """What is looked up follows from the attempts, so a snapshot does without it."""
        self._newest: dict[AttemptName, Attempt] = {}
        """The last remembered attempt of a name."""
        self._earlier: dict[AttemptName, set[Attempt]] = {}
        """The others of a name that has several; no two are equal, as the second was a repeat."""
        self._ok_counts: dict[tuple[str | None, str, str], int] = {}
        """How many remembered attempts of (run, lane, job) ended `ok`."""
        for attempt in self.attempts[-REMEMBERED_ATTEMPTS:]:
            self._index(attempt, attempt_name(attempt))

    def without_repeated_ids(self, records: Sequence[Record]) -> Sequence[Record]:
        """The records whose `id` is not among the ledger's last ids; remembers theirs. Same order."""
        named: list[str | None] = [record.id for record in records]
        ids = cast(list[str], named) if None not in named else [name for name in named if name is not None]
        if not ids or self.ids.add_all_if_new(ids):
            return records
        return [record for record in records if record.id is None or self.ids.add_if_new(record.id)]

    def knows_name(self, name: AttemptName) -> bool:
        """Whether a remembered attempt has that name."""
        return name in self._newest

    def is_repeat(self, attempt: Attempt, name: AttemptName) -> bool:
        """Whether an attempt of a known name is equal to a remembered one in all fields."""
        return attempt == self._newest[name] or attempt in self._earlier.get(name, ())

    def knows_completed_job(self, name: AttemptName) -> bool:
        """Whether a remembered attempt already completed the job of that name in its lane."""
        return name[:3] in self._ok_counts

    def remember_attempt(self, attempt: Attempt, name: AttemptName) -> None:
        """Add to the last attempt lines and forget the one that is 10,000 lines back."""
        attempts = self.attempts
        attempts.append(attempt)
        self._index(attempt, name)
        if len(attempts) > REMEMBERED_ATTEMPTS:
            self._drop_from_index(attempts[-REMEMBERED_ATTEMPTS - 1])
            if len(attempts) >= REMEMBERED_ATTEMPTS + FORGOTTEN_TOGETHER:
                del attempts[:-REMEMBERED_ATTEMPTS]

    def _index(self, attempt: Attempt, name: AttemptName) -> None:
        before = self._newest.get(name)
        if before is not None:
            self._earlier.setdefault(name, set()).add(before)
        self._newest[name] = attempt
        if attempt.outcome == "ok":
            job = name[:3]
            self._ok_counts[job] = self._ok_counts.get(job, 0) + 1

    def _drop_from_index(self, oldest: Attempt) -> None:
        name = attempt_name(oldest)
        earlier = self._earlier.get(name)
        if earlier is None:
            del self._newest[name]
        else:
            earlier.remove(oldest)
            if not earlier:
                del self._earlier[name]
        if oldest.outcome == "ok":
            job = name[:3]
            if self._ok_counts[job] == 1:
                del self._ok_counts[job]
            else:
                self._ok_counts[job] -= 1


def attempt_name(attempt: Attempt) -> AttemptName:
    """What tells attempts apart; without its last part, what tells jobs of a lane apart."""
    return (attempt.run, attempt.lane, attempt.job_id, attempt.attempt)
