"""Where `drill batch` keeps what a killed process must not lose: one SQLite file in a folder beside the telemetry.

Driver and workers each have a connection of their own. A killed process loses nothing that it committed and leaves
nothing half done; a power cut may take back the newest moments (`synchronous` is NORMAL, to keep the drill quick).
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from preempt_exporter.errors import StoreUnavailable

BUSY_TIMEOUT_S = 30.0

_SCHEMA = (
    "CREATE TABLE batch (run TEXT NOT NULL, began_ms INTEGER NOT NULL, draining INTEGER NOT NULL DEFAULT 0)",
    """CREATE TABLE jobs (
        position INTEGER PRIMARY KEY, job_id TEXT NOT NULL UNIQUE, job TEXT NOT NULL, digest TEXT NOT NULL,
        key TEXT NOT NULL, state TEXT NOT NULL, queued_ms INTEGER NOT NULL, reason TEXT)""",
    """CREATE TABLE attempts (
        sequence INTEGER PRIMARY KEY, job_id TEXT NOT NULL, lane TEXT NOT NULL, attempt INTEGER NOT NULL,
        queued_ms INTEGER NOT NULL, start_ms INTEGER NOT NULL, seen_ms INTEGER NOT NULL, end_ms INTEGER, outcome TEXT,
        tokens_in INTEGER NOT NULL DEFAULT 0, tokens_out INTEGER NOT NULL DEFAULT 0,
        resumed_at_bytes INTEGER, interventions INTEGER NOT NULL DEFAULT 0, told INTEGER NOT NULL DEFAULT 0,
        UNIQUE (job_id, lane, attempt))""",
    "CREATE INDEX jobs_waiting ON jobs (position) WHERE state = 'waiting'",
    "CREATE INDEX attempts_untold ON attempts (sequence) WHERE told = 0",
    """CREATE TABLE checkpoints (
        job_id TEXT NOT NULL, start INTEGER NOT NULL, text TEXT NOT NULL, PRIMARY KEY (job_id, start)) WITHOUT ROWID""",
    "CREATE TABLE keys (key TEXT PRIMARY KEY, asked INTEGER NOT NULL) WITHOUT ROWID",
    # No UNIQUE here, on purpose: that a side effect happens once is the key table's doing, and can be counted.
    """CREATE TABLE effects (
        sequence INTEGER PRIMARY KEY, key TEXT NOT NULL, job_id TEXT NOT NULL, lane TEXT NOT NULL,
        attempt INTEGER NOT NULL, ts_ms INTEGER NOT NULL, output_digest TEXT NOT NULL)""",
)


class BatchDatabase:
    """One connection. Not for use across a fork or by two threads at once."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Open `path`, made with its tables if it is not there. Raises `StoreUnavailable`."""
        self.path = path
        with self._as_unavailable():
            self.connection = sqlite3.connect(
                f"file:{quote(str(path))}?mode={'ro' if read_only else 'rwc'}",
                uri=True,
                timeout=BUSY_TIMEOUT_S,
                isolation_level=None,
            )
            self.connection.row_factory = sqlite3.Row
            if not read_only:
                self.connection.execute("PRAGMA journal_mode = WAL")
                self.connection.execute("PRAGMA synchronous = NORMAL")
                self._make_tables()

    def _make_tables(self) -> None:
        with self.changing() as connection:
            if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'effects'").fetchone() is None:
                for statement in _SCHEMA:
                    connection.execute(statement)

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, committed at the end, or rolled back where anything is raised."""
        with self._as_unavailable():
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The connection, for a SELECT."""
        with self._as_unavailable():
            yield self.connection

    @contextmanager
    def _as_unavailable(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreUnavailable(f"batch state {self.path}: {error}; nothing more is dispatched") from error

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()
