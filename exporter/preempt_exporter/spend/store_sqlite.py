"""The spend store on SQLite: for workers on one host.

WAL mode; every change is `BEGIN IMMEDIATE`, so that two processes never decide over the same rows, and is synced to
disk before it is answered. Do not carry an open store across `fork`: open one in each process.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from preempt_exporter.clock import Clock
from preempt_exporter.errors import StoreUnavailable
from preempt_exporter.spend.sql_store import SqlSpendStore, new_line_id
from preempt_exporter.spend.statements import SCHEMA, SCHEMA_VERSION, Rows

BUSY_TIMEOUT_MS = 10_000
_TRY_MS = 3
"""SQLite itself waits ever longer between its tries, 100 ms in the end: of many workers most would sleep. Ask anew."""
_READ = "BEGIN"
_WRITE = "BEGIN IMMEDIATE"
_OUTBOX = """CREATE TABLE spend_outbox (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT, ledger TEXT NOT NULL, line TEXT NOT NULL)"""


class SqliteSpendStore(SqlSpendStore):
    """A `SpendStore` in one SQLite file."""

    def __init__(
        self,
        path: Path,
        *,
        clock: Clock,
        ledger: str,
        read_only: bool = False,
        survives_power_cut: bool = True,
        busy_timeout_ms: int = BUSY_TIMEOUT_MS,
        line_id: Callable[[], str] = new_line_id,
    ) -> None:
        """Open the store at `path`, made if it is not there; leases are judged by `clock`.

        `survives_power_cut` False spares the syncs, for drills; a killed process loses nothing either way.
        `busy_timeout_ms` is how long to wait for another process's transaction. Raises `StoreUnavailable`.
        """
        super().__init__(ledger=ledger, line_id=line_id)
        self._path = path
        self._clock = clock
        self._tries = max(1, busy_timeout_ms // _TRY_MS)
        self._one_at_a_time = threading.Lock()
        with self._as_unavailable():
            self._durable = self._connect(busy_timeout_ms, "FULL" if survives_power_cut else "OFF", read_only)
            # The outbox is emptied without a sync of its own: that halves the syncs per request.
            self._quick = self._connect(busy_timeout_ms, "NORMAL" if survives_power_cut else "OFF", read_only)
            if not read_only:
                self._make_schema()
            self._check_schema()
            for connection in (self._durable, self._quick):
                connection.execute(f"PRAGMA busy_timeout = {_TRY_MS}")
            self._identity = self._file_identity()

    def _connect(self, busy_timeout_ms: int, synchronous: str, read_only: bool) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"file:{quote(str(self._path))}?mode={'ro' if read_only else 'rwc'}",
            uri=True,
            timeout=busy_timeout_ms / 1000,
            isolation_level=None,
            check_same_thread=False,
        )
        if not read_only:
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        return connection

    def _make_schema(self) -> None:
        with self._transaction(self._durable) as connection:
            connection.execute(_WRITE)
            if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'spend_schema'").fetchone() is None:
                for statement in (_OUTBOX, *SCHEMA):
                    connection.execute(statement)

    def _check_schema(self) -> None:
        (version,) = self._durable.execute("SELECT version FROM spend_schema").fetchone()
        if version != SCHEMA_VERSION:
            raise StoreUnavailable(
                f"spend store {self._path} has schema {version}, this program knows {SCHEMA_VERSION}; upgrade it"
            )

    @contextmanager
    def _changing(self) -> Iterator[Rows]:
        with self._rows(self._durable, _WRITE) as rows:
            yield rows

    @contextmanager
    def _reading(self) -> Iterator[Rows]:
        with self._rows(self._durable, _READ) as rows:
            yield rows

    @contextmanager
    def _appending(self) -> Iterator[Rows]:
        with self._rows(self._quick, _WRITE) as rows:
            yield rows

    def _now_ms(self, rows: Rows) -> int:
        return self._clock.now_ms()

    @contextmanager
    def _rows(self, connection: sqlite3.Connection, begin: str) -> Iterator[Rows]:
        with self._as_unavailable(), self._one_at_a_time, self._transaction(connection):
            self._begin(connection, begin)
            if self._file_identity() != self._identity:
                raise StoreUnavailable(
                    f"spend store {self._path} was moved or replaced while it was open; start again with the right file"
                )
            yield Rows(connection, placeholder="?", lock_rows=False)

    def _begin(self, connection: sqlite3.Connection, begin: str) -> None:
        for tries_left in reversed(range(self._tries)):
            try:
                connection.execute(begin)
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or not tries_left:
                    raise

    @contextmanager
    def _transaction(self, connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _as_unavailable(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise StoreUnavailable(
                f"spend store {self._path}: {error}; nothing was granted or billed, dispatch nothing until it is back"
            ) from error

    def _file_identity(self) -> tuple[int, int]:
        status = self._path.stat()
        return status.st_dev, status.st_ino

    def close(self) -> None:
        """Close both connections."""
        with self._one_at_a_time:
            self._durable.close()
            self._quick.close()
