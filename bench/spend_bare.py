"""The peer of the spend bench: the statements that a store executed, with their values, and nothing around them."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import psycopg

from preempt_exporter.spend import store_postgres, store_sqlite
from preempt_exporter.spend.sql_store import SqlSpendStore
from preempt_exporter.spend.statements import Rows

Statements = list[tuple[str, tuple[Any, ...]]]


@contextmanager
def record(store: SqlSpendStore) -> Iterator[list[Statements]]:
    """Collect the transactions that the store runs meanwhile, each as its statements."""
    transactions: list[Statements] = []

    class Recorded(Rows):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            transactions.append([])

        def _run(self, statement: str, *parameters: object) -> Any:
            transactions[-1].append((statement, parameters))
            return super()._run(statement, *parameters)

    module = store_sqlite if isinstance(store, store_sqlite.SqliteSpendStore) else store_postgres
    with mock.patch.object(module, "Rows", Recorded):
        yield transactions


class BareConnections:
    """Connections of the driver alone, as synced as the store's: the outbox is emptied without a sync of its own."""

    def __init__(self, url: str) -> None:
        """To a store that is there and open."""
        self._lite = url.startswith("sqlite")
        if self._lite:
            path, _, setting = url.removeprefix("sqlite:///").partition("?synchronous=")
            self._durable: Any = _lite(path, setting or "full")
            self._quick: Any = _lite(path, setting or "normal")
        else:
            self._durable = self._quick = psycopg.connect(url, autocommit=True)

    def replay(self, transactions: list[Statements]) -> None:
        """Execute them again."""
        for transaction in transactions:
            empties_outbox = "spend_outbox" in transaction[0][0]
            connection = self._quick if empties_outbox else self._durable
            connection.execute("BEGIN IMMEDIATE" if self._lite else "BEGIN")
            if empties_outbox and not self._lite:
                connection.execute("SET LOCAL synchronous_commit = off")
                connection.execute("SELECT pg_advisory_xact_lock(1, 2)")
            for statement, parameters in transaction:
                done = connection.execute(statement if self._lite else statement.replace("?", "%s"), parameters)
                if statement.startswith("SELECT"):
                    done.fetchall()
            connection.execute("COMMIT")

    def close(self) -> None:
        """Close them."""
        self._durable.close()
        self._quick.close()


def _lite(path: str, synchronous: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    return connection
