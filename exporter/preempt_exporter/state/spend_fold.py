"""Spend events: what a run's tokens are reserved, committed and burnt for (ledger.md 4)."""

from preempt_exporter.ledger.records import (
    REFUSAL_OPS,
    REFUSAL_REASONS,
    Commit,
    Compensate,
    Refuse,
    Release,
    Renew,
    Reserve,
    SpendEvent,
)
from preempt_exporter.state.figures import Figures
from preempt_exporter.state.lane import OTHER
from preempt_exporter.state.run import Run
from preempt_exporter.state.totals import total


def fold_spend(figures: Figures, event: SpendEvent, moment_ms: int, now_ms: int) -> None:
    """Apply one spend event of `moment_ms`, read at `now_ms`. The store decided it; here it is only counted."""
    run = figures.run(event.run, now_ms)
    run.touch(moment_ms, moment_ms)
    match event:
        case Reserve():
            run.open_lease(event.shard, event.epoch, event.tokens, event.lease_expires_ms)
        case Renew():
            lease = run.leases.get((event.shard, event.epoch))
            if lease is not None:
                lease.expires_ms = event.lease_expires_ms
        case Commit():
            _commit(figures, run, event, moment_ms)
        case Release():
            run.settle_lease(event.shard, event.epoch)
            for counters in figures.counters_of(run):
                counters.burned_tokens = total(counters.burned_tokens, event.burned_tokens or 0)
        case Refuse():
            op = event.op if event.op in REFUSAL_OPS else OTHER
            figures.refusals[op][event.reason if event.reason in REFUSAL_REASONS else OTHER] += 1
        case Compensate():
            run.accepted.take_back(event.shard, event.epoch)
            for counters in figures.counters_of(run):
                counters.compensations += 1
        case _:
            pass  # shard_checkpoint and resume move no tokens


def accept_newly_covered(figures: Figures, run: Run, moment_ms: int) -> None:
    """The run's `cases_per_shard` changed: shards whose parts now cover them all are accepted."""
    for _ in range(run.accepted.accept_covered(run.cases_per_shard)):
        _count_accepted(figures, run, moment_ms)


def _commit(figures: Figures, run: Run, event: Commit, moment_ms: int) -> None:
    run.settle_lease(event.shard, event.epoch)
    for counters in figures.counters_of(run):
        counters.committed_tokens = total(counters.committed_tokens, event.tokens)
    for _ in range(run.accepted.accept(event.shard, event.epoch, run.cases_per_shard)):
        _count_accepted(figures, run, moment_ms)


def _count_accepted(figures: Figures, run: Run, moment_ms: int) -> None:
    run.record_completion(moment_ms)
    for counters in figures.counters_of(run):
        counters.shards_accepted += 1
