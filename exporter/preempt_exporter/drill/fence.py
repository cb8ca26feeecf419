"""`drill fence`: one run against a deterministic event queue that preempts, resurrects, duplicates and skews.

A driver grants shards; workers checkpoint and commit; the host takes their slots back. Everything is an event with a
due time on one queue, drawn from one seeded generator, so that a seed names an interleaving. What a preempted worker
still does when it comes back is the point: nothing of it may count.
"""

import heapq
import random
from collections.abc import Callable
from functools import partial

from preempt_exporter.clock import FixedClock
from preempt_exporter.drill.fence_attempt import CASE_MS, LEASE_MS, SKEWS_MS, FencedAttempt
from preempt_exporter.drill.fence_report import FenceReport, FenceTerms, report_on
from preempt_exporter.ledger.records import Record
from preempt_exporter.spend.requests import GrantRequest, Request, ReserveRequest
from preempt_exporter.spend.rows import Outcome
from preempt_exporter.spend.run_changes import CloseRun, OpenRun
from preempt_exporter.spend.service import SpendService
from preempt_exporter.spend.worker import WorkerLease

MAX_EVENTS_PER_PREEMPTION = 500


class FenceDrill:
    """One drill: call `play` once."""

    def __init__(
        self,
        terms: FenceTerms,
        service: SpendService,
        clock: FixedClock,
        *,
        run: str,
        randomness: random.Random,
        on_preemption: Callable[[int], None] = lambda count: None,
    ) -> None:
        """`service` is over a store that goes by `clock`; `on_preemption` hears how many there have been."""
        self.terms = terms
        self.service = service
        self.clock = clock
        self.run = run
        self.randomness = randomness
        self.preemptions = 0
        self._on_preemption = on_preemption
        self._to_doom = terms.preemptions
        self._queue: list[tuple[int, int, Callable[[], object]]] = []
        self._scheduled = 0
        self._fixture = dict.fromkeys(terms.shard_names, 0)
        self._highest = dict.fromkeys(terms.shard_names, -1)
        self._lease_ends_ms: dict[tuple[str, int], int] = {}
        self._held = True
        self._committed_tokens = 0

    def play(self, lines: list[Record]) -> FenceReport:
        """Deliver every event; `lines` is where the service's sink collects."""
        self.service.change_run(
            OpenRun(run=self.run, budget_tokens=self.terms.budget_tokens, cases_per_shard=self.terms.cases)
        )
        for shard in self.terms.shard_names:
            self.later(0, partial(self._dispatch, shard))
        limit = MAX_EVENTS_PER_PREEMPTION * (self.terms.preemptions + self.terms.shards + 1)
        for _ in range(limit):
            if not self._queue:
                break
            due_ms, _, deliver = heapq.heappop(self._queue)
            self.clock.advance(max(0, due_ms - self.clock.now_ms()))
            deliver()
            self._check()
        self.service.reclaim_expired(self.run)
        self.service.change_run(CloseRun(run=self.run))
        summary = self.service.run_summary(self.run)
        held = self._held and not self._queue
        return report_on(self.terms, summary, lines, preemptions=self.preemptions, held=held)

    def later(self, delay_ms: int, deliver: Callable[[], object]) -> None:
        """Put an event on the queue; events due at once are delivered in any order."""
        self._scheduled += 1
        order = self.randomness.randrange(1 << 30)
        heapq.heappush(self._queue, (self.clock.now_ms() + delay_ms, (order << 32) + self._scheduled, deliver))

    def between(self, least: int, most: int) -> int:
        """A number from `least` to `most`."""
        return self.randomness.randint(least, most)

    def chance(self, probability: float) -> bool:
        """True in this share of all cases."""
        return self.randomness.random() < probability

    def ask(self, request: Request) -> Outcome:
        """Deliver a request, and now and then the same one again, much later."""
        if self.chance(0.2):
            self.later(self.between(0, 3 * LEASE_MS), partial(self._deliver, request))
        return self._deliver(request)

    apply = ask
    """The drill is what the workers' handles talk to."""

    def _deliver(self, request: Request) -> Outcome:
        outcome = self.service.apply(request)
        if not outcome.refused and outcome.epoch is not None:
            self._highest[outcome.shard] = max(self._highest[outcome.shard], outcome.epoch)
            if outcome.lease_expires_ms is not None:
                self._lease_ends_ms[outcome.shard, outcome.epoch] = outcome.lease_expires_ms
        return outcome

    def input_digest(self, shard: str) -> str:
        """The digest of the shard's input as it is now."""
        return f"sha256:input-{shard}-{self._fixture[shard]}"

    def _change_fixture(self, shard: str) -> None:
        self._fixture[shard] += 1

    def _dispatch(self, shard: str) -> None:
        if self.service.shard_accepted(self.run, shard):
            return
        if self._to_doom and self.chance(0.1):
            self.later(self.between(0, LEASE_MS), partial(self._change_fixture, shard))
        asked_at_s = self.clock.monotonic_s()
        host = f"host-{self.between(0, 9)}"
        epoch = self._highest[shard] + 1
        grant = GrantRequest(
            run=self.run,
            shard=shard,
            host=host,
            tokens=self.terms.shard_tokens,
            lease_ms=LEASE_MS,
            input_digest=self.input_digest(shard),
        )
        numbers_it_itself = epoch > 0 and self.chance(0.3)
        granted = self.ask(numbered(grant, epoch) if numbers_it_itself else grant)
        if granted.refused:
            self._try_later(shard, granted)
            return
        lease = WorkerLease(
            self,
            granted,
            lease_ms=LEASE_MS,
            input_digest=grant.input_digest,
            asked_at_s=asked_at_s,
            clock=self.clock,
        )
        doomed = self._to_doom > 0
        self._to_doom -= doomed
        attempt = FencedAttempt(
            self,
            lease,
            input_digest=grant.input_digest,
            cases=self.terms.cases,
            tokens_per_case=self.terms.tokens_per_case,
            doomed=doomed,
            skew_ms=self.randomness.choice(SKEWS_MS),
        )
        self.later(self.between(1, CASE_MS), attempt.begin)

    def _try_later(self, shard: str, refused: Outcome) -> None:
        if refused.holder_epoch is not None:
            self._highest[shard] = max(self._highest[shard], refused.holder_epoch)
        starved = refused.outcome == "OVER_BUDGET" and self.service.run_summary(self.run).run.reserved_tokens == 0
        if not starved:
            self.later(self.between(LEASE_MS // 10, LEASE_MS), partial(self._dispatch, shard))

    def preempted(self, shard: str) -> None:
        """The host took a slot back; the driver notices some time after, the lease's end at the latest."""
        self.preemptions += 1
        self._on_preemption(self.preemptions)
        self.later(self.between(0, LEASE_MS), partial(self._dispatch, shard))

    def gave_up(self, shard: str) -> None:
        """A worker stood down by itself; the driver dispatches the shard again if it has to."""
        self.later(self.between(0, CASE_MS), partial(self._dispatch, shard))

    def may_accept(self, shard: str) -> bool:
        """Whether accepting the shard leaves another one to deliver the remaining preemptions to."""
        if self._to_doom > self.terms.preemptions // 4:
            return False
        others = [other for other in self.terms.shard_names if other != shard]
        return self._to_doom == 0 or any(not self.service.shard_accepted(self.run, other) for other in others)

    def is_fenced(self, shard: str, epoch: int) -> bool:
        """Whether the epoch's lease is over or a higher epoch was granted."""
        return epoch < self._highest[shard] or self.clock.now_ms() >= self._lease_ends_ms.get((shard, epoch), 0)

    def _check(self) -> None:
        run = self.service.run_summary(self.run).run
        within = run.committed_tokens + run.reserved_tokens <= self.terms.budget_tokens
        only_grows = run.committed_tokens >= self._committed_tokens
        self._committed_tokens = run.committed_tokens
        self._held = self._held and within and only_grows


def numbered(grant: GrantRequest, epoch: int) -> ReserveRequest:
    """The same reservation under an epoch that the driver numbered itself."""
    return ReserveRequest(
        run=grant.run,
        shard=grant.shard,
        host=grant.host,
        epoch=epoch,
        tokens=grant.tokens,
        lease_ms=grant.lease_ms,
        input_digest=grant.input_digest,
    )
