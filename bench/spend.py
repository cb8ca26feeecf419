"""What the spend store costs beside its bare SQL, and how it grows: `python bench/spend.py` prints tables, never fails.

Base and peer run in turn on one machine. The peer executes exactly the statements that the store executed, recorded
from it, in the same transactions: what is left of the ratio is what deciding, encoding and checking cost.
"""

import argparse
import multiprocessing
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import count
from pathlib import Path

from preempt_exporter.spend.open_store import open_store
from preempt_exporter.spend.requests import CommitRequest, GrantRequest
from preempt_exporter.spend.run_changes import OpenRun
from preempt_exporter.spend.sql_store import SqlSpendStore
from spend_bare import BareConnections, record
from spend_rows import fill

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.postgres_server import new_schema, running_postgres

RUN = "bench"
ROUNDS = 5
WORKERS = (1, 2, 4, 8, 16)
SMALL_ROWS = 1_000
NewUrl = Callable[[], str]


def main() -> None:
    """Measure both stores and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=400, help="grant+commit pairs per round (default: 400)")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the large store (default: 1000000)")
    arguments = parser.parse_args()
    with new_urls() as stores:
        print(f"Python {platform.python_version()}; a pair is grant + commit, each synced to disk.\n")
        print("| store | what | pairs/s | bare SQL | ratio | wanted |\n| --- | --- | ---: | ---: | ---: | --- |")
        for name, new_url in stores.items():
            for with_outbox in (False, True):
                against_bare_sql(name, new_url, arguments.pairs, with_outbox)
        print("\n| store | workers | pairs/s | to one worker |\n| --- | ---: | ---: | ---: |")
        for name, new_url in stores.items():
            grow_by_workers(name, new_url(), arguments.pairs)
        print("\n| store | rows | ms per pair | to the small store |\n| --- | ---: | ---: | ---: |")
        for name, new_url in stores.items():
            grow_by_rows(name, new_url, arguments.pairs, arguments.rows)


@contextmanager
def new_urls() -> Iterator[dict[str, NewUrl]]:
    """By the name of each kind of store: a maker of empty ones."""
    with tempfile.TemporaryDirectory(prefix="spend-bench-") as folder, running_postgres(synced=True) as server:
        numbers = count()
        yield {
            "SQLite": lambda: f"sqlite:///{folder}/{next(numbers)}.db",
            "SQLite, not synced": lambda: f"sqlite:///{folder}/{next(numbers)}.db?synchronous=off",
            "PostgreSQL": lambda: new_schema(server, f"bench_{next(numbers)}"),
        }


def opened(url: str) -> SqlSpendStore:
    """The store with the bench's run open."""
    store = open_store(url, ledger="bench")
    store.change_run(OpenRun(run=RUN, budget_tokens=10**15))
    return store


def play_pairs(store: SqlSpendStore, name: str, pairs: int, with_outbox: bool) -> None:
    """So many grants and commits; with the outbox emptied after each, as the service does."""
    for number in range(pairs):
        shard = f"{name}{number}"
        store.apply(GrantRequest(run=RUN, shard=shard, tokens=100, lease_ms=600_000, input_digest="sha256:input"))
        if with_outbox:
            store.append_pending(_take)
        store.apply(CommitRequest(run=RUN, shard=shard, epoch=0, tokens=100, artifact_digest="sha256:artifact"))
        if with_outbox:
            store.append_pending(_take)


def _take(records: object) -> None:
    """A ledger that costs nothing."""


def against_bare_sql(name: str, new_url: NewUrl, pairs: int, with_outbox: bool) -> None:
    """Print how the store compares with its own statements, executed by nothing but the driver."""
    ours_s, bare_s = [], []
    for _ in range(ROUNDS):
        with closing(opened(new_url())) as store:
            ours_s.append(seconds(partial(play_pairs, store, "", pairs, with_outbox)))
        with closing(opened(new_url())) as store, record(store) as transactions:
            play_pairs(store, "", pairs, with_outbox)
        url = new_url()
        opened(url).close()
        with closing(BareConnections(url)) as bare:
            bare_s.append(seconds(partial(bare.replay, transactions)))
    ratio = statistics.median(bare / ours for ours, bare in zip(ours_s, bare_s, strict=True))
    what = "outcomes and outbox" if with_outbox else "outcomes"
    rates = [pairs / statistics.median(each) for each in (ours_s, bare_s)]
    print(f"| {name} | {what} | {rates[0]:.0f} | {rates[1]:.0f} | {ratio:.2f} | >= 0.5 |", flush=True)


def grow_by_workers(name: str, url: str, pairs: int) -> None:
    """Print pairs per second of so many processes together, each on shards of its own in one run."""
    opened(url).close()
    processes = multiprocessing.get_context("forkserver")
    alone = 0.0
    for workers in WORKERS:
        barrier = processes.Barrier(workers + 1)
        started = [
            processes.Process(target=work, args=(url, f"{workers}-{number}", pairs // workers, barrier))
            for number in range(workers)
        ]
        for process in started:
            process.start()
        barrier.wait()
        begun_s = time.monotonic()
        for process in started:
            process.join()
        rate = pairs // workers * workers / (time.monotonic() - begun_s)
        alone = alone or rate
        print(f"| {name} | {workers} | {rate:.0f} | {rate / alone:.2f} |", flush=True)


def work(url: str, name: str, pairs: int, barrier: "multiprocessing.synchronize.Barrier") -> None:
    """One worker process."""
    with closing(open_store(url, ledger=name)) as store:
        barrier.wait()
        play_pairs(store, f"{name}-", pairs, False)


def grow_by_rows(name: str, new_url: NewUrl, pairs: int, many: int) -> None:
    """Print how long a pair takes in a run that has few and many epochs, measured in turn."""
    with ExitStack() as stack:
        stores = {}
        for rows in (SMALL_ROWS, many):
            url = new_url()
            opened(url).close()
            fill(url, RUN, rows)
            stores[rows] = stack.enter_context(closing(opened(url)))
        taken_s: dict[int, list[float]] = {rows: [] for rows in stores}
        for turn in range(ROUNDS):
            for rows, store in stores.items():
                taken_s[rows].append(seconds(partial(play_pairs, store, f"new-{turn}-", pairs, True)))
    small_s, large_s = taken_s.values()
    growth = statistics.median(large / small for small, large in zip(small_s, large_s, strict=True))
    for rows, each in taken_s.items():
        ms = statistics.median(each) / pairs * 1000
        print(f"| {name} | {rows:,} | {ms:.2f} | {1.0 if rows == SMALL_ROWS else growth:.2f} |", flush=True)


def seconds(measured: Callable[[], object]) -> float:
    """How long it takes."""
    begun_s = time.perf_counter()
    measured()
    return time.perf_counter() - begun_s


if __name__ == "__main__":
    main()
