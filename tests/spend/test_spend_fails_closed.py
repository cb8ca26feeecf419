"""A store that is read-only, locked, full or gone says so, and nothing is granted meanwhile."""

import sqlite3
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from preempt_exporter.clock import Clock, SystemClock
from preempt_exporter.errors import StoreUnavailable, UsageError
from preempt_exporter.spend.open_store import open_store
from preempt_exporter.spend.requests import CommitRequest, GrantRequest
from preempt_exporter.spend.run_changes import OpenRun
from preempt_exporter.spend.service import SpendService
from preempt_exporter.spend.sql_store import SqlSpendStore
from preempt_exporter.spend.store_postgres import PostgresSpendStore
from preempt_exporter.spend.store_sqlite import SqliteSpendStore
from tests.spend.spend_play import ARTIFACT, INPUT, LEASE_MS, ListSink, Play

OpenAgain = Callable[[Clock | None], SqlSpendStore]
GRANT = GrantRequest(run="r", shard="3", tokens=1, lease_ms=LEASE_MS, input_digest=INPUT)


def opened(path: Path, busy_timeout_ms: int = 10) -> SqliteSpendStore:
    store = SqliteSpendStore(path, clock=SystemClock(), ledger="l", busy_timeout_ms=busy_timeout_ms)
    store.change_run(OpenRun(run="r"))
    return store


def test_a_read_only_sqlite_store_answers_questions_and_grants_nothing(tmp_path: Path) -> None:
    """`mode=ro`: summaries are read, a grant is StoreUnavailable."""
    opened(tmp_path / "spend.db").close()
    with closing(open_store(f"sqlite:///{tmp_path / 'spend.db'}?mode=ro", ledger="l")) as store:
        with pytest.raises(StoreUnavailable, match="readonly"):
            store.apply(GRANT)
        assert store.run_summary("r").run.reserved_tokens == 0


def test_a_locked_sqlite_store_grants_nothing(tmp_path: Path) -> None:
    """Another process that holds the database makes a grant fail in the busy timeout, not hang."""
    with closing(opened(tmp_path / "spend.db")) as store:
        with closing(sqlite3.connect(tmp_path / "spend.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable, match="locked"):
                store.apply(GRANT)
            other.execute("ROLLBACK")
        assert store.apply(GRANT).outcome == "GRANTED"


def test_a_full_disk_grants_nothing_that_it_did_not_keep(tmp_path: Path) -> None:
    """A file that may not grow any further: what was granted before is whole, the rest is StoreUnavailable."""
    script = """
        import resource, sys
        from pathlib import Path
        from preempt_exporter.clock import SystemClock
        from preempt_exporter.errors import StoreUnavailable
        from preempt_exporter.spend.requests import GrantRequest
        from preempt_exporter.spend.run_changes import OpenRun
        from preempt_exporter.spend.store_sqlite import SqliteSpendStore
        store = SqliteSpendStore(Path(sys.argv[1]), clock=SystemClock(), ledger="l")
        store.change_run(OpenRun(run="r"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
        granted = 0
        try:
            while granted < 10_000:
                store.apply(GrantRequest(run="r", shard=str(granted), tokens=1, lease_ms=60_000, input_digest="x"))
                granted += 1
        except StoreUnavailable as error:
            print(granted, error)
    """
    path = tmp_path / "spend.db"
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), path], capture_output=True, text=True, check=True, timeout=60
    )
    granted, _, why = done.stdout.partition(" ")
    assert "nothing was granted" in why
    with closing(SqliteSpendStore(path, clock=SystemClock(), ledger="l")) as store:
        assert store.run_summary("r").leases_open == int(granted) > 0


@pytest.mark.parametrize("fate", ["deleted", "replaced"])
def test_a_sqlite_file_that_is_gone_is_noticed(tmp_path: Path, fate: str) -> None:
    """Granting from a file that nobody else sees would spend the budget twice."""
    path = tmp_path / "spend.db"
    with closing(opened(path)) as store:
        path.rename(tmp_path / "moved.db")
        if fate == "replaced":
            opened(path).close()
        with pytest.raises(StoreUnavailable, match=r"spend\.db"):
            store.apply(GRANT)


def test_a_sqlite_store_in_a_folder_that_is_not_there_says_so(tmp_path: Path) -> None:
    """One clear error instead of a traceback."""
    with pytest.raises(StoreUnavailable, match="unable to open"):
        open_store(f"sqlite:///{tmp_path}/no/such/spend.db", ledger="l")


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    """Nothing is written over it."""
    (tmp_path / "notes.txt").write_text("not a database" * 100)
    with pytest.raises(StoreUnavailable, match="not a database"):
        open_store(f"sqlite:///{tmp_path}/notes.txt", ledger="l")
    assert (tmp_path / "notes.txt").read_text() == "not a database" * 100


def test_a_store_of_another_schema_is_refused(store_url: str) -> None:
    """A newer program's store is not written by an older one."""
    open_store(store_url, ledger="l").close()
    if store_url.startswith("sqlite"):
        with closing(sqlite3.connect(store_url.removeprefix("sqlite:///"), isolation_level=None)) as lite:
            lite.execute("UPDATE spend_schema SET version = 2")
    else:
        with psycopg.connect(store_url, autocommit=True) as connection:
            connection.execute("UPDATE spend_schema SET version = 2")
    with pytest.raises(StoreUnavailable, match="schema 2"):
        open_store(store_url, ledger="l")


def test_a_read_only_postgresql_grants_nothing(new_postgres_url: Callable[[], str]) -> None:
    """A standby, or a server in maintenance."""
    url = new_postgres_url()
    with closing(open_store(url, ledger="l")) as store:
        store.change_run(OpenRun(run="r"))
    read_only = url + "%20-cdefault_transaction_read_only%3Don"
    with closing(open_store(read_only, ledger="l")) as store:
        with pytest.raises(StoreUnavailable, match="read-only"):
            store.apply(GRANT)
        assert store.run_summary("r").run.reserved_tokens == 0


def test_a_locked_postgresql_row_grants_nothing(new_postgres_url: Callable[[], str]) -> None:
    """Another transaction that holds the run makes a grant fail in the lock timeout, not hang."""
    url = new_postgres_url()
    with closing(PostgresSpendStore(url, ledger="l", lock_timeout_ms=20)) as store:
        store.change_run(OpenRun(run="r"))
        with psycopg.connect(url) as other:
            other.execute("SELECT 1 FROM spend_runs FOR UPDATE")
            with pytest.raises(StoreUnavailable, match="lock timeout"):
                store.apply(GRANT)
        assert store.apply(GRANT).outcome == "GRANTED"


def test_a_worker_that_is_stopped_in_mid_transaction_does_not_hold_its_run(new_postgres_url: Callable[[], str]) -> None:
    """The server ends its transaction: nothing of it was kept, and others go on."""
    url = new_postgres_url()
    standing, woken = threading.Event(), threading.Event()

    def stand_still() -> str:
        standing.set()
        woken.wait(30)
        return "late"

    with (
        closing(PostgresSpendStore(url, ledger="l")) as other,
        closing(PostgresSpendStore(url, ledger="l", standstill_timeout_ms=1000, line_id=stand_still)) as stopped,
        ThreadPoolExecutor(1) as pool,
    ):
        other.change_run(OpenRun(run="r"))
        asked = pool.submit(stopped.apply, GRANT)
        assert standing.wait(30)
        assert other.apply(GRANT).outcome == "GRANTED"
        woken.set()
        with pytest.raises(StoreUnavailable):
            asked.result(30)
        assert other.run_summary("r").run.reserved_tokens == GRANT.tokens


def test_a_postgresql_that_is_not_there_says_so(tmp_path: Path) -> None:
    """One clear error instead of a traceback."""
    with pytest.raises(StoreUnavailable, match="PostgreSQL"):
        open_store(f"postgresql:///x?host={tmp_path}", ledger="l")


def test_a_connection_that_the_server_dropped_between_two_requests_is_replaced(
    new_postgres_url: Callable[[], str],
) -> None:
    """A restart of the server costs one reconnect, not one refused grant."""
    url = new_postgres_url()
    with closing(open_store(url, ledger="l")) as store:
        store.change_run(OpenRun(run="r"))
        drop_other_connections(url)
        assert store.apply(GRANT).outcome == "GRANTED"


def drop_other_connections(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite:///a?mode=rw",
        "sqlite:///a%00b",
        "sqlite:///a#b",
        "mysql://h/d",
        "postgresql://[::1/d",
        "postgresql://h/d?nope=1",
        "spend.db",
        "",
    ],
)
def test_a_url_that_names_no_store_is_a_usage_error(url: str) -> None:
    """Said by name, before anything is opened."""
    with pytest.raises(UsageError):
        open_store(url, ledger="l")


def test_an_absolute_path_with_a_slash_too_few_is_told_from_a_relative_one(tmp_path: Path) -> None:
    """`sqlite:///tmp/…` is relative, as everywhere; where it can only be meant otherwise, the message says how."""
    with pytest.raises(UsageError, match=f"sqlite:///{tmp_path}/spend.db"):
        open_store(f"sqlite://{tmp_path}/spend.db", ledger="l")


@pytest.mark.parametrize(
    "url",
    [
        "postgre://user:secret@host/db",
        "postgresql://user:secret@[::1/db",
        "postgresql://user:secret@[::1]x/db",
        "postgresql://user:secret%zz@host/db",
        "postgresql://user:secret\u2100@host/db",
    ],
)
def test_a_password_is_not_repeated_in_an_error(url: str) -> None:
    """Whatever is mistyped, the message does not print the secret."""
    with pytest.raises(UsageError) as caught:
        open_store(url, ledger="l")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "UTF8"])
def test_a_database_of_any_encoding_keeps_every_name(
    encoding: str, new_postgres_url: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster made without a locale is SQL_ASCII: names come back as text, whatever the environment says."""
    monkeypatch.setenv("PGCLIENTENCODING", "SQL_ASCII")
    server, database = new_postgres_url(), f"encoded_{encoding.lower()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {database} TEMPLATE template0 ENCODING {encoding} LOCALE 'C'")
    url = f"{server}&dbname={database}".replace("search_path%3D", "search_path%3Dpublic,")
    sink = ListSink()
    with closing(open_store(url, ledger="l")) as store:
        service = SpendService(store, sink)
        service.change_run(OpenRun(run="読"))
        grant = GrantRequest(run="読", shard="日é", tokens=1, lease_ms=LEASE_MS, input_digest=INPUT, host="hé")
        assert service.apply(grant).outcome == "GRANTED"
        commit = CommitRequest(run="読", shard="日é", epoch=0, tokens=1, artifact_digest=ARTIFACT)
        assert service.apply(commit).outcome == "COMMITTED"
        assert service.run_summary("読").accepted_shards == ("日é",)
    assert [line.run for line in sink.lines] == ["読"] * 3


def test_a_cancelled_caller_leaks_no_reservation_past_its_lease(play: Play) -> None:
    """Whoever vanished between grant and commit holds the budget to the end of the lease and no longer."""
    play.open(budget_tokens=100)
    play.do("grant", shard="1")
    play.clock.advance(LEASE_MS)
    assert play.do("grant", shard="2") == "GRANTED"


def test_nothing_is_dispatched_when_the_store_is_gone(tmp_path: Path) -> None:
    """The error passes through the service, and no line is written for what did not happen."""
    path = tmp_path / "spend.db"
    sink = ListSink()
    with closing(opened(path)) as store:
        service = SpendService(store, sink)
        path.unlink()
        for request in (GRANT, CommitRequest(run="r", shard="3", epoch=0, tokens=1, artifact_digest=ARTIFACT)):
            with pytest.raises(StoreUnavailable):
                service.apply(request)
    assert len(sink.lines) == 1
