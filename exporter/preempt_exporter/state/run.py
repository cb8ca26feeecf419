"""A run: its lives, its hand-over, and what the spend lines say of its tokens."""

from msgspec import Struct, field

from preempt_exporter.ledger.records import MAX_EXACT_INTEGER
from preempt_exporter.state.life import ENDED_STATES, Life
from preempt_exporter.state.shards import MAX_SHARDS_PER_RUN, AcceptedShards
from preempt_exporter.state.totals import MAX_TOTAL

HOUR_MS = 60 * 60 * 1000
LEAVES_AFTER_CLOSE_MS = HOUR_MS
LEAVES_AFTER_SILENCE_MS = 24 * HOUR_MS
MAX_LIVE_RUNS = 100
MAX_COMPLETIONS = 20_000


class Lease(Struct, gc=False):
    """Tokens reserved for one epoch until `expires_ms`, by the spend store's clock."""

    tokens: int
    expires_ms: int


class RunCounters(Struct):
    """What of a run only ever grows."""

    committed_tokens: int = 0
    burned_tokens: int = 0
    shards_accepted: int = 0
    compensations: int = 0


class Run(Struct, kw_only=True):
    """One run, or under the name None what belongs to no run (its lives only)."""

    name: str | None
    labelled: bool
    """Whether the run has a label value of its own; the runs beyond `MAX_LIVE_RUNS` share `other`."""
    lives: dict[str, Life] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ENDED_STATES, 0))
    """How many tasks' newest life ended so, whether it is still kept or not."""
    first_ms: int = MAX_EXACT_INTEGER
    """The earliest line's moment; before the first line, later than any."""
    last_ms: int = 0
    opened_ms: int | None = None
    deadline_at_ms: int | None = None
    budget_tokens: int | None = None
    tasks: int | None = None
    cases_per_shard: int | None = None
    closed_ms: int | None = None
    stopped: bool = False
    counters: RunCounters = field(default_factory=RunCounters)
    leases: dict[tuple[str, int], Lease] = field(default_factory=dict)
    settled: dict[str, int] = field(default_factory=dict)
    """By shard, the highest epoch committed or released: a reservation read after its end opens nothing."""
    accepted: AcceptedShards = field(default_factory=AcceptedShards)
    jobs_completed: set[str] = field(default_factory=set)
    completions_ms: list[int] = field(default_factory=list)
    """When the newest tasks, jobs and shards were completed."""

    def has_left(self, now_ms: int) -> bool:
        """Whether the run's series are gone: 1 h after its close, or 24 h after its last line."""
        if self.closed_ms is not None and now_ms > self.closed_ms + LEAVES_AFTER_CLOSE_MS:
            return True
        return now_ms > self.last_ms + LEAVES_AFTER_SILENCE_MS

    def touch(self, oldest_ms: int, newest_ms: int) -> None:
        """Lines of the run were read, from these two moments and between them."""
        if oldest_ms < self.first_ms:
            self.first_ms = oldest_ms
        if newest_ms > self.last_ms:
            self.last_ms = newest_ms

    def record_completion(self, moment_ms: int) -> None:
        """A task, job or shard was completed at `moment_ms`."""
        self.completions_ms.append(moment_ms)
        if len(self.completions_ms) == 2 * MAX_COMPLETIONS:
            del self.completions_ms[:MAX_COMPLETIONS]

    def completed(self) -> int:
        """How many tasks, jobs and shards are completed."""
        return self.ended["complete"] + len(self.jobs_completed) + len(self.accepted.whole)

    def remaining(self) -> int | None:
        """The expected `tasks` less everything completed; None where nobody said how many to expect."""
        return None if self.tasks is None else max(0, self.tasks - self.completed())

    def projected_slack_s(self, now_ms: int) -> float | None:
        """Seconds to the deadline less the time that what remains will take; None while unknown.

        `remaining` is divided by the completion rate of the last hour, or of the run's age while it is younger than
        that.
        """
        remaining = self.remaining()
        if self.deadline_at_ms is None or remaining is None:
            return None
        to_deadline_s = (self.deadline_at_ms - now_ms) / 1000
        if remaining == 0:
            return to_deadline_s
        recent_ms = [moment for moment in self.completions_ms if now_ms - HOUR_MS < moment <= now_ms]
        if not recent_ms:
            return None
        since_ms = max(now_ms - HOUR_MS, self.first_ms)
        if len(recent_ms) >= MAX_COMPLETIONS:
            since_ms = max(since_ms, min(recent_ms))
        return to_deadline_s - remaining * max(1, now_ms - since_ms) / 1000 / len(recent_ms)

    def open_lease(self, shard: str, epoch: int, tokens: int, expires_ms: int) -> None:
        """A `reserve` was seen; one that was settled already (read out of order) opens nothing."""
        if epoch <= self.settled.get(shard, -1):
            return
        self.close_lease(shard, epoch)
        if len(self.leases) >= MAX_SHARDS_PER_RUN:
            return
        self.leases[shard, epoch] = Lease(tokens, expires_ms)

    def settle_lease(self, shard: str, epoch: int) -> None:
        """A `commit` or `release` was seen."""
        self.close_lease(shard, epoch)
        if len(self.settled) < MAX_SHARDS_PER_RUN or shard in self.settled:
            self.settled[shard] = max(epoch, self.settled.get(shard, -1))

    def close_lease(self, shard: str, epoch: int) -> None:
        """Return what the epoch had reserved, if anything."""
        self.leases.pop((shard, epoch), None)

    def reserved_tokens(self) -> int:
        """Tokens reserved, neither committed nor released."""
        return min(sum(lease.tokens for lease in self.leases.values()), MAX_TOTAL)

    def leases_open(self, now_ms: int) -> int:
        """Leases that are live: not expired, neither committed nor released."""
        return len(self.leases) - self.leases_overdue(now_ms)

    def leases_overdue(self, now_ms: int) -> int:
        """Leases that expired and were neither committed nor released."""
        return sum(lease.expires_ms <= now_ms for lease in self.leases.values())
