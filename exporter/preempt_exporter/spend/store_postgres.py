"""The spend store on PostgreSQL: for workers on many hosts.

Every change locks its run's row first and reads the database's clock after that, so that the requests of one run are
decided one after the other, each at the instant at which it is decided. Two runs do not wait for each other.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from preempt_exporter.clock import Clock
from preempt_exporter.errors import StoreUnavailable, UsageError
from preempt_exporter.spend.sql_store import SqlSpendStore, new_line_id
from preempt_exporter.spend.statements import SCHEMA, SCHEMA_VERSION, Cursor, Rows

MAX_CONNECTIONS = 16
"""How many transactions of one process run at once; the rest wait for their turn."""
CONNECT_TIMEOUT_S = 10
LOCK_TIMEOUT_MS = 10_000
STANDSTILL_TIMEOUT_MS = 10_000

_ADVISORY_CLASS = 0x7072_6565
"""Keeps our advisory locks apart from other programs' in the same database."""
_SCHEMA_KEY = 0
_OUTBOX = """CREATE TABLE spend_outbox (
    sequence BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, ledger TEXT NOT NULL, line TEXT NOT NULL)"""
# Read committed, whatever the server's default: what is read after the run's lock must be newer than the lock.
_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED"
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_NOW_MS = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"


class PostgresSpendStore(SqlSpendStore):
    """A `SpendStore` in a PostgreSQL database, in the connection's current schema."""

    def __init__(
        self,
        url: str,
        *,
        ledger: str,
        clock: Clock | None = None,
        lock_timeout_ms: int = LOCK_TIMEOUT_MS,
        standstill_timeout_ms: int = STANDSTILL_TIMEOUT_MS,
        line_id: Callable[[], str] = new_line_id,
    ) -> None:
        """Open the store at `url` (any libpq connection string), its tables made if they are not there.

        Leases are judged by the database's clock; `clock` replaces it in drills and tests. `lock_timeout_ms` is how
        long to wait for another transaction, `standstill_timeout_ms` how long one of ours may stand still before the
        server ends it. Raises `StoreUnavailable`.
        """
        super().__init__(ledger=ledger, line_id=line_id)
        self._conninfo = _patient(url)
        self._clock = clock
        self._timeouts_ms = {
            "lock_timeout": lock_timeout_ms,
            # A worker that is stopped in the middle of a transaction must not hold its run for ever.
            "idle_in_transaction_session_timeout": standstill_timeout_ms,
        }
        self._idle: list[psycopg.Connection] = []
        self._idle_lock = threading.Lock()
        self._turns = threading.BoundedSemaphore(MAX_CONNECTIONS)
        with self._as_unavailable():
            self._make_schema()

    def _connect(self) -> psycopg.Connection:
        connection = psycopg.connect(self._conninfo, autocommit=True)
        try:
            for setting, limit_ms in self._timeouts_ms.items():
                connection.execute("SELECT set_config(%s, %s, false)", [setting, f"{limit_ms}ms"])
        except BaseException:
            connection.close()
            raise
        return connection

    def _make_schema(self) -> None:
        with self._transaction(_WRITE) as connection:
            if not self._has_schema(connection):
                connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", [_ADVISORY_CLASS, _SCHEMA_KEY])
                if not self._has_schema(connection):
                    for statement in (_OUTBOX, *SCHEMA):
                        connection.execute(statement.encode())
            (version,) = connection.execute("SELECT version FROM spend_schema").fetchone() or (None,)
            if version != SCHEMA_VERSION:
                raise StoreUnavailable(
                    f"spend store has schema {version}, this program knows {SCHEMA_VERSION}; upgrade it"
                )

    def _has_schema(self, connection: psycopg.Connection) -> bool:
        (table,) = connection.execute("SELECT to_regclass('spend_schema')").fetchone() or (None,)
        return table is not None

    @contextmanager
    def _changing(self) -> Iterator[Rows]:
        with self._rows(_WRITE, lock_rows=True) as rows:
            yield rows

    @contextmanager
    def _reading(self) -> Iterator[Rows]:
        with self._rows(_READ, lock_rows=False) as rows:
            yield rows

    @contextmanager
    def _appending(self) -> Iterator[Rows]:
        with self._as_unavailable(), self._transaction(_WRITE) as connection:
            connection.execute("SET LOCAL synchronous_commit = off")
            connection.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [_ADVISORY_CLASS, self._ledger])
            yield Rows(cast(Cursor, connection), placeholder="%s", lock_rows=True)

    def _now_ms(self, rows: Rows) -> int:
        if self._clock is not None:
            return self._clock.now_ms()
        return rows.clock_ms(_NOW_MS)

    @contextmanager
    def _rows(self, begin: str, *, lock_rows: bool) -> Iterator[Rows]:
        with self._as_unavailable(), self._transaction(begin) as connection:
            yield Rows(cast(Cursor, connection), placeholder="%s", lock_rows=lock_rows)

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[psycopg.Connection]:
        with self._turns:
            connection = self._begun(begin)
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                # A connection that failed in mid-transaction is not trusted again: closing it rolls back.
                connection.close()
                raise
            with self._idle_lock:
                self._idle.append(connection)

    def _begun(self, begin: str) -> psycopg.Connection:
        with self._idle_lock:
            connection = self._idle.pop() if self._idle else None
        if connection is not None:
            try:
                connection.execute(begin.encode())
            except psycopg.OperationalError:
                # The server was restarted since; nothing was asked yet, so that a new connection may ask it.
                connection.close()
            else:
                return connection
        connection = self._connect()
        connection.execute(begin.encode())
        return connection

    @contextmanager
    def _as_unavailable(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            first_line = str(error).strip().splitlines()[:1] or [type(error).__name__]
            raise StoreUnavailable(
                f"spend store (PostgreSQL): {first_line[0]}; nothing more may be dispatched until it is back"
            ) from error

    def close(self) -> None:
        """Close the idle connections."""
        with self._idle_lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


def _patient(url: str) -> str:
    """The connection string with a bound on how long to wait for a host that does not answer, and texts in UTF-8.

    The driver otherwise follows the database's encoding or `PGCLIENTENCODING`: of SQL_ASCII, which a cluster made
    without a locale has, it returns bytes, and of LATIN1 it knows few of the names that a ledger may hold.
    """
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        # libpq quotes what it cannot read at the end of its message: the whole URL, or a password in it.
        said, _, _ = str(error).partition(': "')
        raise UsageError(f"store: {said.strip()}; give postgresql://user@host/database") from None
    return make_conninfo("", **{"connect_timeout": CONNECT_TIMEOUT_S, **given, "client_encoding": "UTF8"})
