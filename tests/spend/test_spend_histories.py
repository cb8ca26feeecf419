"""Any history of requests, on both stores, against a reference that sums over a plain list."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from preempt_exporter.clock import FixedClock
from preempt_exporter.ledger.records import Commit, Release, Reserve
from preempt_exporter.spend.open_store import open_store
from preempt_exporter.spend.requests import request_from
from preempt_exporter.spend.run_changes import CloseRun, OpenRun, SwitchRun
from preempt_exporter.spend.service import SpendService
from tests.spend.reference_spend import ReferenceSpend
from tests.spend.spend_play import ListSink

CASES_PER_SHARD = 4
SHARDS = st.sampled_from(["1", "1", "1", "2", "2/0-1", "2/2-3", "2/1-2", "2/0-3"])
EPOCHS = st.integers(0, 3)
TOKENS = st.sampled_from([0, 10, 10, 10, 20])
LEASES_MS = st.sampled_from([0, 100, 1000])
DIGESTS = st.sampled_from(["a", "a", "a", "b"])
ARTIFACTS = st.sampled_from(["x", "x", "y", ""])


class History(RuleBasedStateMachine):
    """One run from its opening on; each step is asked of both stores and of the reference."""

    services: ClassVar[list[SpendService]]
    sinks: ClassVar[list[ListSink]]
    clock: ClassVar[FixedClock]
    names: ClassVar[Iterator[int]] = count()

    def __init__(self) -> None:
        super().__init__()
        self.run = f"history-{next(self.names)}"
        self.reference = ReferenceSpend(CASES_PER_SHARD)
        self.budget_was_lowered = False
        self.largest_committed = 0
        for sink in self.sinks:
            sink.lines.clear()

    @initialize(budget=st.sampled_from([None, 20, 40]), charge_burned=st.booleans())
    def open(self, budget: int | None, charge_burned: bool) -> None:
        self.reference.budget, self.reference.charge_burned = budget, charge_burned
        self.change(
            OpenRun(run=self.run, budget_tokens=budget, charge_burned=charge_burned, cases_per_shard=CASES_PER_SHARD)
        )

    def change(self, change: OpenRun | CloseRun | SwitchRun) -> None:
        for service in self.services:
            service.change_run(change)

    def ask(self, expected: str, op: str, shard: str, **fields: Any) -> None:
        request = request_from(op, self.run, shard, fields)
        for service in self.services:
            outcome = service.apply(request)
            told = outcome.outcome
            if told in ("RESUME", "RESTART"):
                told += f" {outcome.index}"
            assert told == expected

    def now(self) -> ReferenceSpend:
        self.reference.now_ms = self.clock.now_ms()
        return self.reference

    @rule(shard=SHARDS, tokens=TOKENS, lease_ms=LEASES_MS, digest=DIGESTS)
    def grant(self, shard: str, tokens: int, lease_ms: int, digest: str) -> None:
        expected = self.now().reserve(shard, None, tokens, lease_ms, digest)
        self.ask(expected, "grant", shard, tokens=tokens, lease_ms=lease_ms, input_digest=digest)

    @rule(shard=SHARDS, epoch=EPOCHS, tokens=TOKENS, lease_ms=LEASES_MS, digest=DIGESTS)
    def reserve(self, shard: str, epoch: int, tokens: int, lease_ms: int, digest: str) -> None:
        expected = self.now().reserve(shard, epoch, tokens, lease_ms, digest)
        self.ask(expected, "reserve", shard, epoch=epoch, tokens=tokens, lease_ms=lease_ms, input_digest=digest)

    @rule(shard=SHARDS, epoch=EPOCHS, lease_ms=LEASES_MS)
    def renew(self, shard: str, epoch: int, lease_ms: int) -> None:
        self.ask(self.now().renew(shard, epoch, lease_ms), "renew", shard, epoch=epoch, lease_ms=lease_ms)

    @rule(shard=SHARDS, epoch=EPOCHS, index=st.integers(0, 3), tokens=TOKENS, digest=DIGESTS)
    def checkpoint(self, shard: str, epoch: int, index: int, tokens: int, digest: str) -> None:
        expected = self.now().checkpoint(shard, epoch, index, tokens, digest)
        self.ask(expected, "checkpoint", shard, epoch=epoch, index=index, tokens=tokens, input_digest=digest)

    @rule(shard=SHARDS, epoch=EPOCHS, digest=DIGESTS)
    def resume(self, shard: str, epoch: int, digest: str) -> None:
        self.ask(self.now().resume(shard, epoch, digest), "resume", shard, epoch=epoch, input_digest=digest)

    @rule(shard=SHARDS, epoch=EPOCHS, tokens=TOKENS, artifact=ARTIFACTS, at_most=st.booleans())
    def commit(self, shard: str, epoch: int, tokens: int, artifact: str, at_most: bool) -> None:
        expected = self.now().commit(shard, epoch, tokens, artifact, at_most)
        settle = "at_most" if at_most else "exact"
        self.ask(expected, "commit", shard, epoch=epoch, tokens=tokens, artifact_digest=artifact, settle=settle)

    @rule(shard=SHARDS, epoch=EPOCHS)
    def release(self, shard: str, epoch: int) -> None:
        self.ask(self.now().release(shard, epoch), "release", shard, epoch=epoch)

    @rule(shard=SHARDS, epoch=EPOCHS, artifact=st.sampled_from(["x", "y"]))
    def compensate(self, shard: str, epoch: int, artifact: str) -> None:
        expected = self.now().compensate(shard, epoch, artifact)
        self.ask(expected, "compensate", shard, epoch=epoch, artifact_digest=artifact)

    @rule()
    def reclaim(self) -> None:
        expected = self.now().reclaim()
        assert [service.reclaim_expired(self.run) for service in self.services] == [expected, expected]

    @rule(ms=st.sampled_from([1, 99, 100, 900]))
    def advance(self, ms: int) -> None:
        self.clock.advance(ms)

    @rule(budget=st.sampled_from([20, 30, 40, 60]), charge_burned=st.booleans())
    def set_budget(self, budget: int, charge_burned: bool) -> None:
        reference = self.reference
        lowered = reference.budget is None or budget < reference.budget
        self.budget_was_lowered |= lowered or (charge_burned and not reference.charge_burned)
        reference.budget, reference.charge_burned, reference.grants = budget, charge_burned, True
        self.change(OpenRun(run=self.run, budget_tokens=budget, charge_burned=charge_burned))

    @rule(switch=st.sampled_from(["stop", "resume"]))
    def switch(self, switch: Any) -> None:
        self.reference.stopped = switch == "stop"
        self.change(SwitchRun(run=self.run, switch=switch))

    @rule(reopen=st.booleans())
    def close(self, reopen: bool) -> None:
        self.reference.grants = reopen
        self.change(CloseRun(run=self.run))
        if reopen:
            self.change(OpenRun(run=self.run))

    @invariant()
    def every_store_stands_where_the_reference_does(self) -> None:
        reference = self.now()
        for service in self.services:
            summary = service.run_summary(self.run)
            row = summary.run
            assert row.committed_tokens == reference.committed()
            assert row.reserved_tokens == reference.reserved()
            assert row.burned_tokens == reference.burned()
            told = [(a.shard, a.epoch, a.artifact_digest, a.tokens) for a in summary.accepted]
            assert told == reference.accepted()
            assert list(summary.accepted_shards) == reference.accepted_shards()
            assert len({shard for shard, *_ in told}) == len(told), "one accepted artifact per shard"
            assert row.committed_tokens >= self.largest_committed, "committed only grows"
            if row.budget_tokens is not None and not self.budget_was_lowered:
                charged = row.charged_burned_tokens if row.charge_burned else 0
                assert row.committed_tokens + row.reserved_tokens + charged <= row.budget_tokens
        self.largest_committed = reference.committed()

    def teardown(self) -> None:
        """The lines alone tell the same story, the same from both stores."""
        for sink in self.sinks:
            reserved = sum(line.tokens for line in sink.lines if isinstance(line, Reserve))
            returned = sum(line.tokens for line in sink.lines if isinstance(line, Release))
            held = {(line.shard, line.epoch): line.tokens for line in sink.lines if isinstance(line, Reserve)}
            commits = [line for line in sink.lines if isinstance(line, Commit)]
            settled = sum(held[line.shard, line.epoch] for line in commits)
            assert reserved - returned - settled == self.reference.reserved()
            assert sum(line.tokens for line in commits) == self.reference.committed()
        kinds = [[type(line) for line in sink.lines] for sink in self.sinks]
        assert kinds[0] == kinds[1]


@pytest.fixture(scope="module")
def both_stores(tmp_path_factory: pytest.TempPathFactory, new_postgres_url: Callable[[], str]) -> Iterator[Path]:
    """Both stores on one clock, each with a ledger in memory."""
    folder = tmp_path_factory.mktemp("histories")
    History.clock = FixedClock(1_700_000_000_000)
    History.sinks = [ListSink(), ListSink()]
    with ExitStack() as stack:
        stores = [
            stack.enter_context(closing(open_store(url, ledger="l", clock=History.clock)))
            for url in (f"sqlite:///{folder}/spend.db?synchronous=off", new_postgres_url())
        ]
        History.services = [SpendService(store, sink) for store, sink in zip(stores, History.sinks, strict=True)]
        yield folder


def play_histories(number: int, *, derandomize: bool) -> None:
    rules = settings(
        max_examples=number,
        stateful_step_count=25,
        deadline=None,
        derandomize=derandomize,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(History, settings=rules)  # type: ignore[no-untyped-call]


def test_some_hundred_histories_agree_with_the_reference(both_stores: Path) -> None:
    """Outcomes, totals, accepted set and lines of both stores are the reference's after every step."""
    play_histories(200, derandomize=True)


@pytest.mark.soak
def test_ten_thousand_histories_agree_with_the_reference(both_stores: Path) -> None:
    """The same, longer and with new histories each time."""
    play_histories(10_000, derandomize=False)
