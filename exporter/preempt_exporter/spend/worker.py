"""What runs on the preemptible side: a handle on one lease that knows when to stand down.

The store judges leases by its own clock; the handle only keeps an honest worker from working for nothing. It counts
from the moment *before* the grant was asked for, on a clock that never goes back, and stops a margin early, so that
wall clocks that are off change nothing. A host that was suspended may find `may_write()` true too long: its commit is
refused all the same.
"""

from types import TracebackType
from typing import Protocol, Self

from preempt_exporter.clock import Clock
from preempt_exporter.errors import StoreUnavailable
from preempt_exporter.spend.requests import (
    CheckpointRequest,
    CommitRequest,
    ReleaseRequest,
    RenewRequest,
    Request,
    ResumeRequest,
)
from preempt_exporter.spend.rows import Outcome

MARGIN_MS = 2_000
"""How long before its lease's end a worker stops writing; at most a tenth of the lease."""

_STAND_DOWN = frozenset({"STALE_EPOCH", "LEASE_EXPIRED", "UNRESERVED_SPEND", "ALREADY_COMMITTED", "SHARD_ACCEPTED"})


class Spend(Protocol):
    """Whoever carries requests out: the service in this process, or a client of the control service."""

    def apply(self, request: Request) -> Outcome:
        """Carry out one request. Raises `StoreUnavailable`."""
        ...


class WorkerLease:
    """One epoch of one shard in a worker's hands. Use it in a `with`: leaving without a commit gives it back."""

    def __init__(
        self,
        spend: Spend,
        granted: Outcome,
        *,
        lease_ms: int,
        input_digest: str,
        asked_at_s: float,
        clock: Clock,
        margin_ms: int = MARGIN_MS,
    ) -> None:
        """`granted` is GRANTED or RESERVED; `asked_at_s` is `clock.monotonic_s()` from before it was asked for."""
        if granted.refused or granted.epoch is None:
            raise ValueError(f"not a grant: {granted}")
        self._spend = spend
        self.run = granted.run
        self.shard = granted.shard
        self._host = granted.host
        self.epoch = granted.epoch
        self._input_digest = input_digest
        self._clock = clock
        self._margin_ms = margin_ms
        self._over = False
        self._writable_until_s = self._end(asked_at_s, lease_ms)
        self.stand_down: Outcome | None = None
        """The refusal that told this worker to stop; None while none did."""

    def may_write(self) -> bool:
        """Whether work is still worth doing: no refusal told it to stand down, and the lease is not nearly over."""
        return not self._over and self.stand_down is None and self._clock.monotonic_s() < self._writable_until_s

    def renew(self, lease_ms: int) -> Outcome:
        """Ask for `lease_ms` from now."""
        asked_at_s = self._clock.monotonic_s()
        outcome = self._ask(
            RenewRequest(run=self.run, shard=self.shard, epoch=self.epoch, host=self._host, lease_ms=lease_ms)
        )
        if not outcome.refused:
            self._writable_until_s = self._end(asked_at_s, lease_ms)
        return outcome

    def checkpoint(self, index: int, tokens: int, payload_digest: str | None = None) -> Outcome:
        """Report progress up to case `index`, having used `tokens`."""
        return self._ask(
            CheckpointRequest(
                run=self.run,
                shard=self.shard,
                epoch=self.epoch,
                host=self._host,
                index=index,
                tokens=tokens,
                input_digest=self._input_digest,
                payload_digest=payload_digest,
            )
        )

    def resume(self) -> Outcome:
        """Ask where to go on: `RESUME` at `index`, or `RESTART`."""
        return self._ask(
            ResumeRequest(
                run=self.run, shard=self.shard, epoch=self.epoch, host=self._host, input_digest=self._input_digest
            )
        )

    def commit(self, tokens: int, artifact_digest: str) -> Outcome:
        """Hand the artifact over. Safe to repeat when the answer was lost: it is then `ALREADY_COMMITTED`."""
        request = CommitRequest(
            run=self.run,
            shard=self.shard,
            epoch=self.epoch,
            host=self._host,
            tokens=tokens,
            artifact_digest=artifact_digest,
        )
        outcome = self._ask(request)
        self._over = self._over or not outcome.refused
        return outcome

    def release(self) -> Outcome:
        """Give the reservation back unspent."""
        outcome = self._ask(ReleaseRequest(run=self.run, shard=self.shard, epoch=self.epoch, host=self._host))
        self._over = True
        return outcome

    def __enter__(self) -> Self:
        """Hold the lease."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the reservation back unless it was committed or fenced off; the lease's end does it otherwise."""
        if self._over or self.stand_down is not None:
            return
        try:
            self.release()
        except StoreUnavailable:
            self._over = True

    def _ask(self, request: Request) -> Outcome:
        outcome = self._spend.apply(request)
        if outcome.refused and outcome.outcome in _STAND_DOWN:
            self.stand_down = outcome
        return outcome

    def _end(self, asked_at_s: float, lease_ms: int) -> float:
        return asked_at_s + (lease_ms - min(self._margin_ms, lease_ms // 10)) / 1000
