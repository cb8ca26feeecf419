"""What a request touches is found by an index: the same work at a thousand rows and at a million."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from preempt_exporter.clock import FixedClock
from preempt_exporter.spend.requests import (
    CheckpointRequest,
    CommitRequest,
    GrantRequest,
    Request,
    ReserveRequest,
    ResumeRequest,
)
from preempt_exporter.spend.run_changes import OpenRun
from preempt_exporter.spend.statements import Rows
from preempt_exporter.spend.store_sqlite import SqliteSpendStore
from tests.spend.spend_play import ARTIFACT, INPUT, LEASE_MS

NAME: dict[str, Any] = {"run": "r", "shard": "3"}
ASK: list[Request] = [
    GrantRequest(**NAME, tokens=1, lease_ms=LEASE_MS, input_digest=INPUT),
    ReserveRequest(**NAME, epoch=1, tokens=1, lease_ms=LEASE_MS, input_digest=INPUT),
    CheckpointRequest(**NAME, epoch=1, index=1, tokens=1, input_digest=INPUT),
    ResumeRequest(**NAME, epoch=1, input_digest=INPUT),
    CommitRequest(**NAME, epoch=0, tokens=1, artifact_digest=ARTIFACT),
    CommitRequest(**NAME, epoch=1, tokens=1, artifact_digest=ARTIFACT),
]


def test_no_statement_of_a_request_scans_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By SQLite's own plan of each that was executed: an epoch by its key, the rest by an index over live rows only."""
    executed = remember_statements(monkeypatch)
    path = tmp_path / "spend.db"
    with closing(SqliteSpendStore(path, clock=FixedClock(0), ledger="l")) as store:
        store.change_run(OpenRun(run="r"))
        for request in ASK:
            store.apply(request)
        store.reclaim_expired("r")
        store.shard_accepted("r", "3")
        store.append_pending(lambda records: None)
    with closing(sqlite3.connect(path)) as connection:
        plans = {
            statement: [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)]
            for statement, parameters in executed
        }
    steps = {step for plan in plans.values() for step in plan if "spend_epochs" in step}
    assert {step for plan in plans.values() for step in plan if "SCAN" in step} == set()
    narrow = ("USING INDEX spend_blocking (run=? AND base=?)", "USING INDEX spend_leases (run=?", "run=? AND shard=?")
    assert {step for step in steps if not any(index in step for index in narrow)} == set()
    assert all(any(index in step for step in steps) for index in narrow), "each index is used"


def remember_statements(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, tuple[Any, ...]]]:

    executed: list[tuple[str, tuple[Any, ...]]] = []
    real: Callable[..., Any] = Rows._run

    def remembering(self: Rows, statement: str, *parameters: object) -> Any:
        executed.append((statement, parameters))
        return real(self, statement, *parameters)

    monkeypatch.setattr(Rows, "_run", remembering)
    return executed
