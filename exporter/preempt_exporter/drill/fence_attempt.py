"""One worker of `drill fence`: it works, loses its slot, and comes back when nobody wants it any more."""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from preempt_exporter.spend.requests import (
    CheckpointRequest,
    CommitRequest,
    ReleaseRequest,
    RenewRequest,
    Request,
    ResumeRequest,
)
from preempt_exporter.spend.rows import Outcome
from preempt_exporter.spend.worker import WorkerLease

LEASE_MS = 60_000
CASE_MS = 1_000
SKEWS_MS = (0, 0, -120_000, -90_000, 90_000, 120_000)


class Host(Protocol):
    """What a worker has around it: the event queue, chance, the store, and a driver that hears of it."""

    def later(self, delay_ms: int, deliver: Callable[[], object]) -> None:
        """Put an event on the queue."""
        ...

    def between(self, least: int, most: int) -> int:
        """A number from `least` to `most`."""
        ...

    def chance(self, probability: float) -> bool:
        """True in this share of all cases."""
        ...

    def input_digest(self, shard: str) -> str:
        """The digest of the shard's input as it is now."""
        ...

    def ask(self, request: Request) -> Outcome:
        """Deliver a request, perhaps twice."""
        ...

    def preempted(self, shard: str) -> None:
        """The slot was taken back."""
        ...

    def gave_up(self, shard: str) -> None:
        """The worker stood down by itself."""
        ...

    def may_accept(self, shard: str) -> bool:
        """Whether the shard may be accepted now: enough other shards are left to take slots from."""
        ...

    def is_fenced(self, shard: str, epoch: int) -> bool:
        """Whether the epoch's lease is over or a higher epoch was granted."""
        ...


class FencedAttempt:
    """A worker with one lease. A doomed one loses its slot before it is done, and may come back."""

    def __init__(
        self,
        host: Host,
        lease: WorkerLease,
        *,
        input_digest: str,
        cases: int,
        tokens_per_case: int,
        doomed: bool,
        skew_ms: int,
    ) -> None:
        """`skew_ms` is how far the worker's wall clock is off; it may mislead the worker, never the store."""
        self._host = host
        self._lease = lease
        self._input_digest = input_digest
        self._cases = cases
        self._tokens_per_case = tokens_per_case
        self._skew_ms = skew_ms
        self._index = 0
        self._lost_at_case = host.between(0, cases) if doomed else None

    def begin(self) -> None:
        """Ask where to go on, and go on."""
        resumed = self._lease.resume()
        if resumed.refused:
            self._stand_down()
            return
        self._index = min(resumed.index or 0, self._cases)
        self._go_on()

    def _go_on(self) -> None:
        goal = self._cases if self._lost_at_case is None else max(self._lost_at_case, self._index)
        step = min(self._host.between(1, 15), goal - self._index)
        self._host.later(step * CASE_MS, partial(self._after, step))

    def _after(self, cases_done: int) -> None:
        self._index += cases_done
        if self._lost_at_case is not None and self._index >= self._lost_at_case:
            self._lose_the_slot()
        elif not self._believes_it_may_write():
            self._stand_down()
        elif self._index < self._cases:
            if self._report():
                self._go_on()
            else:
                self._stand_down()
        elif self._commit().refused:
            self._stand_down()

    def _believes_it_may_write(self) -> bool:
        if self._skew_ms == 0:
            return self._lease.may_write()
        # Going by its wall clock, a worker that is ahead stops too early and one that is behind works past its lease.
        return self._host.chance(0.5) if self._skew_ms > 0 else self._lease.stand_down is None

    def _report(self) -> bool:
        if self._host.chance(0.5) and self._lease.renew(LEASE_MS).refused:
            return False
        tokens = self._index * self._tokens_per_case
        found_digest = self._host.input_digest(self._lease.shard)
        if found_digest != self._input_digest:
            # It looked at its input again, which is not what it was granted: the store has to say so.
            return not self._host.ask(self._checkpoint(tokens, found_digest)).refused
        return not self._lease.checkpoint(self._index, tokens).refused

    def _checkpoint(self, tokens: int, input_digest: str) -> CheckpointRequest:
        return CheckpointRequest(
            run=self._lease.run,
            shard=self._lease.shard,
            epoch=self._lease.epoch,
            index=self._index,
            tokens=tokens,
            input_digest=input_digest,
        )

    def _commit(self) -> Outcome:
        return self._lease.commit(self._cases * self._tokens_per_case, self._artifact_digest())

    def _artifact_digest(self) -> str:
        return f"sha256:{self._lease.shard}-{self._lease.epoch}"

    def _stand_down(self) -> None:
        if self._lost_at_case is not None:
            self._lose_the_slot()
            return
        self._lease.release()
        self._host.gave_up(self._lease.shard)

    def _lose_the_slot(self) -> None:
        host, shard = self._host, self._lease.shard
        if self._index >= self._cases and host.may_accept(shard):
            self._commit()  # it landed, but the worker never heard of it
        host.preempted(shard)
        while host.chance(0.5):
            host.later(host.between(0, 3 * LEASE_MS), self._come_back)

    def _come_back(self) -> None:
        host, requests = self._host, self._late_requests()
        request = requests[host.between(0, len(requests) - 1)]
        shard = self._lease.shard
        if (
            isinstance(request, CommitRequest)
            and not host.is_fenced(shard, self._lease.epoch)
            and not host.may_accept(shard)
        ):
            # Nobody took its place yet: its commit would count, rightly, and end the drill early.
            host.later(LEASE_MS, self._come_back)
        else:
            host.ask(request)

    def _late_requests(self) -> list[Request]:
        run, shard, epoch = self._lease.run, self._lease.shard, self._lease.epoch
        all_tokens = self._cases * self._tokens_per_case
        commit = CommitRequest(
            run=run, shard=shard, epoch=epoch, tokens=all_tokens, artifact_digest=self._artifact_digest()
        )
        return [
            commit,
            commit,
            self._checkpoint(self._index * self._tokens_per_case, self._input_digest),
            RenewRequest(run=run, shard=shard, epoch=epoch, lease_ms=LEASE_MS),
            ResumeRequest(run=run, shard=shard, epoch=epoch, input_digest=self._input_digest),
            ReleaseRequest(run=run, shard=shard, epoch=epoch),
        ]
