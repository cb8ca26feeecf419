"""The SQL of a spend store: one dialect that SQLite and PostgreSQL share, and how rows become records.

Everything that a request touches is found by an index, so that a request costs the same at a thousand rows and at a
million: an epoch by its key, what blocks a shard and what has expired by partial indexes over live rows only, a run's
totals in its own row.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from preempt_exporter.ledger.records import Event, Record
from preempt_exporter.spend.parts import read_shard_name
from preempt_exporter.spend.requests import (
    CheckpointRequest,
    CommitRequest,
    GrantRequest,
    Request,
    ReserveRequest,
    ResumeRequest,
)
from preempt_exporter.spend.rows import CheckpointRow, EpochRow, EpochState, RunPhase, RunRow, ShardView

SCHEMA_VERSION = 1
KEPT_CHECKPOINTS = 8
"""How many of a shard's newest checkpoints are kept to fall back on."""

RUN_COLUMNS = (
    "run, phase, stopped, budget_tokens, cases_per_shard, charge_burned, committed_tokens, reserved_tokens,"
    " burned_tokens, charged_burned_tokens, version"
)
EPOCH_COLUMNS = (
    "run, shard, epoch, state, tokens, lease_expires_ms, input_digest, host, checkpoint_tokens, artifact_digest"
)
CHECKPOINT_COLUMNS = "sequence, epoch, case_index, tokens, input_digest, payload_digest"

SCHEMA = (
    "CREATE TABLE spend_schema (version BIGINT NOT NULL)",
    """CREATE TABLE spend_runs (
        run TEXT PRIMARY KEY, phase TEXT NOT NULL, stopped BIGINT NOT NULL, budget_tokens BIGINT,
        cases_per_shard BIGINT, charge_burned BIGINT NOT NULL, committed_tokens BIGINT NOT NULL,
        reserved_tokens BIGINT NOT NULL CHECK (reserved_tokens >= 0), burned_tokens BIGINT NOT NULL,
        charged_burned_tokens BIGINT NOT NULL, version BIGINT NOT NULL)""",
    """CREATE TABLE spend_epochs (
        run TEXT NOT NULL, shard TEXT NOT NULL, epoch BIGINT NOT NULL, state TEXT NOT NULL, tokens BIGINT NOT NULL,
        lease_expires_ms BIGINT NOT NULL, input_digest TEXT NOT NULL, host TEXT, checkpoint_tokens BIGINT,
        artifact_digest TEXT, base TEXT NOT NULL, PRIMARY KEY (run, shard, epoch))""",
    """CREATE UNIQUE INDEX spend_one_accepted ON spend_epochs (run, shard) WHERE state = 'committed'""",
    """CREATE INDEX spend_blocking ON spend_epochs (run, base) WHERE state IN ('reserved', 'committed')""",
    """CREATE INDEX spend_leases ON spend_epochs (run, lease_expires_ms) WHERE state = 'reserved'""",
    """CREATE TABLE spend_checkpoints (
        run TEXT NOT NULL, shard TEXT NOT NULL, sequence BIGINT NOT NULL, epoch BIGINT NOT NULL,
        case_index BIGINT NOT NULL, tokens BIGINT NOT NULL, input_digest TEXT NOT NULL, payload_digest TEXT,
        PRIMARY KEY (run, shard, sequence))""",
    "CREATE INDEX spend_outbox_ledger ON spend_outbox (ledger, sequence)",
    f"INSERT INTO spend_schema (version) VALUES ({SCHEMA_VERSION})",
)
"""All but the outbox table, whose self-numbering column the two databases spell differently."""

_RUN = f"SELECT {RUN_COLUMNS} FROM spend_runs WHERE run = ?"
_NEW_RUN = f"""INSERT INTO spend_runs ({RUN_COLUMNS})
    VALUES (?, 'unopened', 0, NULL, NULL, 0, 0, 0, 0, 0, 0) ON CONFLICT DO NOTHING"""
_KEEP_RUN = """UPDATE spend_runs SET phase = ?, stopped = ?, budget_tokens = ?, cases_per_shard = ?, charge_burned = ?,
    committed_tokens = ?, reserved_tokens = ?, burned_tokens = ?, charged_burned_tokens = ?, version = ?
    WHERE run = ?"""
_HIGHEST = f"SELECT {EPOCH_COLUMNS} FROM spend_epochs WHERE run = ? AND shard = ? ORDER BY epoch DESC LIMIT 1"
_EPOCH = f"SELECT {EPOCH_COLUMNS} FROM spend_epochs WHERE run = ? AND shard = ? AND epoch = ?"
_BLOCKING = (
    f"SELECT {EPOCH_COLUMNS} FROM spend_epochs WHERE run = ? AND base = ? AND state IN ('reserved', 'committed')"
)
_EXPIRED = f"""SELECT {EPOCH_COLUMNS} FROM spend_epochs WHERE run = ? AND state = 'reserved' AND lease_expires_ms <= ?
    ORDER BY lease_expires_ms, shard"""
_ACCEPTED = f"SELECT {EPOCH_COLUMNS} FROM spend_epochs WHERE run = ? AND state = 'committed'"
_KEEP_EPOCH = f"""INSERT INTO spend_epochs ({EPOCH_COLUMNS}, base) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (run, shard, epoch) DO UPDATE SET state = excluded.state, tokens = excluded.tokens,
    lease_expires_ms = excluded.lease_expires_ms, checkpoint_tokens = excluded.checkpoint_tokens,
    artifact_digest = excluded.artifact_digest"""
_CHECKPOINTS = f"SELECT {CHECKPOINT_COLUMNS} FROM spend_checkpoints WHERE run = ? AND shard = ? ORDER BY sequence DESC"
_KEEP_CHECKPOINT = f"INSERT INTO spend_checkpoints (run, shard, {CHECKPOINT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_PRUNE_CHECKPOINTS = "DELETE FROM spend_checkpoints WHERE run = ? AND shard = ? AND sequence <= ?"
_DROP_CHECKPOINTS = "DELETE FROM spend_checkpoints WHERE run = ? AND shard = ?"
_LEASES = """SELECT count(*), count(CASE WHEN lease_expires_ms <= ? THEN 1 END) FROM spend_epochs
    WHERE run = ? AND state = 'reserved'"""
_RUNS_WITH_EXPIRED = (
    "SELECT DISTINCT run FROM spend_epochs WHERE state = 'reserved' AND lease_expires_ms <= ? ORDER BY run"
)
_KEEP_LINE = "INSERT INTO spend_outbox (ledger, line) VALUES (?, ?)"
_PENDING = "SELECT sequence, line FROM spend_outbox WHERE ledger = ? ORDER BY sequence LIMIT ?"
_FORGET = "DELETE FROM spend_outbox WHERE ledger = ? AND sequence <= ?"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Event).decode


class Cursor(Protocol):
    """What SQLite's connection and psycopg's cursor have in common."""

    def execute(self, statement: str, parameters: Sequence[Any] = ..., /) -> Any:
        """Run one statement; what comes back has `fetchone` and `fetchall`."""
        ...


class Rows:
    """One open transaction's rows, as records."""

    def __init__(self, cursor: Cursor, *, placeholder: str, lock_rows: bool) -> None:
        """`placeholder` is the driver's parameter mark; `lock_rows`: the run's row must be locked to be changed."""
        self._cursor = cursor
        self._placeholder = placeholder
        self._lock = " FOR UPDATE" if lock_rows else ""

    def _run(self, statement: str, *parameters: object) -> Any:
        if self._placeholder != "?":
            statement = statement.replace("?", self._placeholder)
        return self._cursor.execute(statement, parameters)

    def locked_run(self, run: str) -> RunRow:
        """The run's row, held against others until the transaction ends; an unknown run has no row to hold."""
        return _run_row(run, self._run(_RUN + self._lock, run).fetchone())

    def run(self, run: str) -> RunRow:
        """The run's row, to be read only."""
        return _run_row(run, self._run(_RUN, run).fetchone())

    def clock_ms(self, statement: str) -> int:
        """The database's own clock by a statement of its dialect, Unix milliseconds."""
        return int(self._run(statement).fetchone()[0])

    def begin_run(self, run: str) -> None:
        """Make sure that the run has a row."""
        self._run(_NEW_RUN, run)

    def keep_run(self, row: RunRow) -> None:
        """Write the run's row back."""
        self._run(
            _KEEP_RUN,
            row.phase.value,
            int(row.stopped),
            row.budget_tokens,
            row.cases_per_shard,
            int(row.charge_burned),
            row.committed_tokens,
            row.reserved_tokens,
            row.burned_tokens,
            row.charged_burned_tokens,
            row.version,
            row.run,
        )

    def view(self, run: RunRow, request: Request, now_ms: int) -> ShardView:
        """Load what is needed to judge `request`."""
        highest = self._epoch(_HIGHEST, request.run, request.shard)
        if isinstance(request, GrantRequest):
            target = None
        elif highest is not None and request.epoch >= highest.epoch:
            target = highest if request.epoch == highest.epoch else None
        else:
            target = self.epoch(request.run, request.shard, request.epoch) if highest else None
        sets_aside = isinstance(request, GrantRequest | ReserveRequest)
        return ShardView(
            run=run,
            highest=highest,
            target=target,
            blocking=self.blocking(request.run, request.shard)
            if sets_aside or isinstance(request, CommitRequest)
            else (),
            expired=self.expired(request.run, now_ms) if sets_aside else (),
            checkpoints=self.checkpoints(request.run, request.shard)
            if isinstance(request, CheckpointRequest | ResumeRequest)
            else (),
        )

    def epoch(self, run: str, shard: str, epoch: int) -> EpochRow | None:
        """One epoch of a shard; None: it was never granted."""
        return self._epoch(_EPOCH, run, shard, epoch)

    def _epoch(self, statement: str, *parameters: object) -> EpochRow | None:
        found = self._run(statement, *parameters).fetchone()
        return None if found is None else _epoch_row(found)

    def blocking(self, run: str, shard: str) -> tuple[EpochRow, ...]:
        """Reserved and accepted epochs of the shard's base and all parts of it."""
        base = read_shard_name(shard).base
        return tuple(map(_epoch_row, self._run(_BLOCKING, run, base).fetchall()))

    def expired(self, run: str, now_ms: int) -> tuple[EpochRow, ...]:
        """The run's reservations whose lease is over, first expired first."""
        return tuple(map(_epoch_row, self._run(_EXPIRED, run, now_ms).fetchall()))

    def accepted(self, run: str) -> list[EpochRow]:
        """The run's accepted epochs."""
        return list(map(_epoch_row, self._run(_ACCEPTED, run).fetchall()))

    def keep_epoch(self, row: EpochRow) -> None:
        """Write an epoch, new or changed."""
        self._run(
            _KEEP_EPOCH,
            row.run,
            row.shard,
            row.epoch,
            row.state.value,
            row.tokens,
            row.lease_expires_ms,
            row.input_digest,
            row.host,
            row.checkpoint_tokens,
            row.artifact_digest,
            row.name.base,
        )

    def checkpoints(self, run: str, shard: str) -> tuple[CheckpointRow, ...]:
        """The shard's kept checkpoints, newest first."""
        return tuple(map(_checkpoint_row, self._run(_CHECKPOINTS, run, shard).fetchall()))

    def keep_checkpoint(self, run: str, shard: str, row: CheckpointRow) -> None:
        """Write a checkpoint and drop those that are too old to fall back on."""
        self._run(
            _KEEP_CHECKPOINT,
            run,
            shard,
            row.sequence,
            row.epoch,
            row.index,
            row.tokens,
            row.input_digest,
            row.payload_digest,
        )
        self._run(_PRUNE_CHECKPOINTS, run, shard, row.sequence - KEPT_CHECKPOINTS)

    def drop_checkpoints(self, run: str, shard: str) -> None:
        """Drop all of the shard's checkpoints."""
        self._run(_DROP_CHECKPOINTS, run, shard)

    def leases(self, run: str, now_ms: int) -> tuple[int, int]:
        """How many leases are open, and how many of them are over but not reclaimed."""
        opened, overdue = self._run(_LEASES, now_ms, run).fetchone()
        return int(opened), int(overdue)

    def runs_with_expired(self, now_ms: int) -> list[str]:
        """Runs that have something to reclaim."""
        return [found[0] for found in self._run(_RUNS_WITH_EXPIRED, now_ms).fetchall()]

    def keep_line(self, ledger: str, record: Record) -> None:
        """Put a line into the outbox."""
        self._run(_KEEP_LINE, ledger, _encode(record).decode())

    def pending(self, ledger: str, limit: int) -> list[tuple[int, Record]]:
        """The oldest lines that the ledger still lacks, with their numbers."""
        return [(sequence, _decode(line)) for sequence, line in self._run(_PENDING, ledger, limit).fetchall()]

    def forget_pending(self, ledger: str, up_to_sequence: int) -> None:
        """Lines up to and with this number are in the ledger."""
        self._run(_FORGET, ledger, up_to_sequence)


def _run_row(run: str, found: Sequence[Any] | None) -> RunRow:
    if found is None:
        return RunRow(run=run)
    _, phase, stopped, budget, cases, charge_burned, committed, reserved, burned, charged, version = found
    return RunRow(
        run=run,
        phase=RunPhase(phase),
        stopped=bool(stopped),
        budget_tokens=budget,
        cases_per_shard=cases,
        charge_burned=bool(charge_burned),
        committed_tokens=committed,
        reserved_tokens=reserved,
        burned_tokens=burned,
        charged_burned_tokens=charged,
        version=version,
    )


def _epoch_row(found: Sequence[Any]) -> EpochRow:
    run, shard, epoch, state, tokens, expires_ms, input_digest, host, checkpoint_tokens, artifact_digest = found
    return EpochRow(
        run=run,
        shard=shard,
        epoch=epoch,
        state=EpochState(state),
        tokens=tokens,
        lease_expires_ms=expires_ms,
        input_digest=input_digest,
        host=host,
        checkpoint_tokens=checkpoint_tokens,
        artifact_digest=artifact_digest,
    )


def _checkpoint_row(found: Sequence[Any]) -> CheckpointRow:
    sequence, epoch, index, tokens, input_digest, payload_digest = found
    return CheckpointRow(
        sequence=sequence,
        epoch=epoch,
        index=index,
        tokens=tokens,
        input_digest=input_digest,
        payload_digest=payload_digest,
    )
