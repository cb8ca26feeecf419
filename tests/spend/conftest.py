"""A spend service over each of the two stores, on a clock that the test moves."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from preempt_exporter.clock import Clock, FixedClock
from preempt_exporter.spend.open_store import open_store
from preempt_exporter.spend.run_changes import OpenRun
from preempt_exporter.spend.service import SpendService
from preempt_exporter.spend.sql_store import SqlSpendStore
from tests.spend.spend_play import NOW_MS, ListSink, Play

OpenAgain = Callable[[Clock | None], SqlSpendStore]


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'spend.db'}"
    new_url: Callable[[], str] = request.getfixturevalue("new_postgres_url")
    return new_url()


@pytest.fixture
def open_again(store_url: str) -> Iterator[OpenAgain]:
    """Opens the test's store once more, as another process would; None: on the store's own clock."""
    with ExitStack() as stack:

        def open_it(clock: Clock | None) -> SqlSpendStore:
            return stack.enter_context(closing(open_store(store_url, ledger="ledger", clock=clock)))

        yield open_it


@pytest.fixture
def play(open_again: OpenAgain) -> Play:
    """A service over the store with run `r` open, without a ceiling."""
    clock = FixedClock(NOW_MS)
    store = open_again(clock)
    sink = ListSink()
    service = SpendService(store, sink)
    service.change_run(OpenRun(run="r"))
    return Play(service, store, sink, clock)
