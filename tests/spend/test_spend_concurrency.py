"""Many workers at once, on the store's own clock."""

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from preempt_exporter.clock import Clock
from preempt_exporter.ledger.records import Commit, Refuse, Reserve
from preempt_exporter.spend.requests import CommitRequest, GrantRequest, ReserveRequest
from preempt_exporter.spend.rows import Outcome
from preempt_exporter.spend.run_changes import OpenRun
from preempt_exporter.spend.service import SpendService
from preempt_exporter.spend.sql_store import SqlSpendStore
from tests.spend.spend_play import ARTIFACT, INPUT, ListSink

OpenAgain = Callable[[Clock | None], SqlSpendStore]

WORKERS = 50
FIT = 17


def on_a_barrier(work: Callable[[int], Outcome]) -> list[str]:
    """All workers at the same moment; what each was answered."""
    barrier = threading.Barrier(WORKERS)

    def worker(number: int) -> str:
        barrier.wait()
        return work(number).outcome

    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(worker, range(WORKERS)))


def test_exactly_as_many_workers_are_granted_as_the_budget_fits(open_again: OpenAgain) -> None:
    """50 workers on a barrier, two stores as two processes would open them, a budget for 17."""
    sink = ListSink()
    services = [SpendService(open_again(None), sink) for _ in range(2)]
    services[0].change_run(OpenRun(run="r", budget_tokens=FIT * 100 + 99))

    def take(number: int) -> Outcome:
        request = GrantRequest(run="r", shard=str(number), tokens=100, lease_ms=60_000, input_digest=INPUT)
        return services[number % 2].apply(request)

    answers = Counter(on_a_barrier(take))
    assert answers == {"GRANTED": FIT, "OVER_BUDGET": WORKERS - FIT}
    summary = services[0].run_summary("r")
    assert (summary.run.reserved_tokens, summary.leases_open) == (FIT * 100, FIT)
    assert Counter(type(line) for line in sink.lines[1:]) == {Reserve: FIT, Refuse: WORKERS - FIT}


def test_one_of_many_drivers_gets_the_shard(open_again: OpenAgain) -> None:
    """The same shard dispatched 50 times at once has one live lease."""
    service = SpendService(open_again(None), ListSink())
    service.change_run(OpenRun(run="r"))

    def take(number: int) -> Outcome:
        request = GrantRequest(run="r", shard="3", tokens=1, lease_ms=60_000, input_digest=INPUT, host=str(number))
        return service.apply(request)

    assert Counter(on_a_barrier(take)) == {"GRANTED": 1, "ALREADY_RESERVED": WORKERS - 1}


def test_of_many_epochs_at_once_only_the_highest_commits(open_again: OpenAgain) -> None:
    """50 attempts reserve their epochs and commit in any order: one artifact, one bill."""
    sink = ListSink()
    service = SpendService(open_again(None), sink)
    service.change_run(OpenRun(run="r", budget_tokens=100))

    def attempt(epoch: int) -> Outcome:
        request = ReserveRequest(run="r", shard="3", epoch=epoch, tokens=100, lease_ms=60_000, input_digest=INPUT)
        service.apply(request)
        return service.apply(CommitRequest(run="r", shard="3", epoch=epoch, tokens=100, artifact_digest=ARTIFACT))

    answers = Counter(on_a_barrier(attempt))
    assert answers["COMMITTED"] == 1
    assert sum(isinstance(line, Commit) for line in sink.lines) == 1
    row = service.run_summary("r").run
    assert (row.committed_tokens, row.reserved_tokens) == (100, 0)


def test_the_lines_of_two_processes_keep_the_order_of_their_transactions(open_again: OpenAgain) -> None:
    """No commit stands before its own reservation, whoever appended it."""
    sink = ListSink()
    services = [SpendService(open_again(None), sink) for _ in range(2)]
    services[0].change_run(OpenRun(run="r"))

    def pair(number: int) -> Outcome:
        shard = str(number)
        request = GrantRequest(run="r", shard=shard, tokens=1, lease_ms=60_000, input_digest=INPUT)
        services[number % 2].apply(request)
        commit = CommitRequest(run="r", shard=shard, epoch=0, tokens=1, artifact_digest=ARTIFACT)
        return services[(number + 1) % 2].apply(commit)

    assert set(on_a_barrier(pair)) == {"COMMITTED"}
    seen: set[str] = set()
    for line in sink.lines:
        if isinstance(line, Reserve):
            seen.add(line.shard)
        if isinstance(line, Commit):
            assert line.shard in seen
    assert len({line.id for line in sink.lines}) == len(sink.lines) == 2 * WORKERS + 1
