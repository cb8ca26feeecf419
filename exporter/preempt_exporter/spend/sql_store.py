"""How a request becomes one transaction: the same for every SQL database, which differ in how one begins."""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from msgspec.structs import replace

from preempt_exporter.ledger.records import Record
from preempt_exporter.spend.decide import decide
from preempt_exporter.spend.parts import read_shard_name
from preempt_exporter.spend.requests import Request
from preempt_exporter.spend.rows import (
    AcceptedArtifact,
    CheckpointRow,
    Decision,
    EpochRow,
    EpochState,
    Outcome,
    Outside,
    RunRow,
    RunSummary,
)
from preempt_exporter.spend.run_changes import RunChange, change_run
from preempt_exporter.spend.set_aside import return_expired
from preempt_exporter.spend.settle import is_accepted
from preempt_exporter.spend.statements import Rows
from preempt_exporter.spend.store import NOTHING_OUTSIDE

PENDING_LINES_PER_APPEND = 1000


def new_line_id() -> str:
    """A line's name that no other writer will ever use."""
    return f"spend-{uuid.uuid4().hex}"


class SqlSpendStore(ABC):
    """A `SpendStore` over `Rows`; `ledger` names the ledger that this process's lines go to."""

    def __init__(self, *, ledger: str, line_id: Callable[[], str]) -> None:
        """`line_id` names each new line, uniquely."""
        self._ledger = ledger
        self._line_id = line_id

    @abstractmethod
    def _changing(self) -> AbstractContextManager[Rows]:
        """A durable transaction that may write: committed at the end, rolled back on an exception."""

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Rows]:
        """A transaction that sees one instant."""

    @abstractmethod
    def _appending(self) -> AbstractContextManager[Rows]:
        """A transaction that holds this ledger's outbox alone. It need not survive a power cut: what it forgets
        is then appended once more, under the same `id`.
        """

    @abstractmethod
    def _now_ms(self, rows: Rows) -> int:
        """The store's clock, read once the transaction holds its locks."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the database."""

    def apply(self, request: Request, outside: Outside = NOTHING_OUTSIDE) -> Outcome:
        """Decide one request and keep its outcome together with its ledger lines."""
        with self._changing() as rows:
            run = rows.locked_run(request.run)
            now_ms = self._now_ms(rows)
            decision = decide(request, rows.view(run, request, now_ms), now_ms, outside)
            self._keep(rows, run, request, decision)
        return decision.outcome

    def _keep(self, rows: Rows, before: RunRow, request: Request, decision: Decision) -> None:
        if decision.run != before:
            rows.keep_run(decision.run)
        for epoch in decision.epochs:
            rows.keep_epoch(epoch)
        if decision.checkpoint is not None:
            rows.keep_checkpoint(request.run, request.shard, decision.checkpoint)
        if decision.discards_checkpoints:
            rows.drop_checkpoints(request.run, request.shard)
        self._keep_lines(rows, decision.lines)

    def _keep_lines(self, rows: Rows, lines: Sequence[Record]) -> None:
        for line in lines:
            rows.keep_line(self._ledger, replace(line, id=self._line_id()))

    def change_run(self, change: RunChange) -> RunRow:
        """Open, close, stop or resume a run; how it stands afterwards."""
        with self._changing() as rows:
            rows.begin_run(change.run)
            before = rows.locked_run(change.run)
            after, line = change_run(before, change, self._now_ms(rows))
            rows.keep_run(after)
            self._keep_lines(rows, [line])
        return after

    def reclaim_expired(self, run: str | None = None) -> int:
        """Return expired reservations of one run, or of all, to their budgets; how many there were."""
        if run is not None:
            return self._reclaim(run)
        with self._reading() as rows:
            runs = rows.runs_with_expired(self._now_ms(rows))
        return sum(self._reclaim(each) for each in runs)

    def _reclaim(self, run: str) -> int:
        with self._changing() as rows:
            before = rows.locked_run(run)
            now_ms = self._now_ms(rows)
            after, ended, lines = return_expired(before, rows.expired(run, now_ms), now_ms)
            if ended:
                rows.keep_run(after)
            for epoch in ended:
                rows.keep_epoch(epoch)
            self._keep_lines(rows, lines)
        return len(ended)

    def run_summary(self, run: str) -> RunSummary:
        """How a run stands at one instant; an unknown run is `unopened` and empty."""
        with self._reading() as rows:
            row = rows.run(run)
            leases_open, leases_overdue = rows.leases(run, self._now_ms(rows))
            accepted = sorted(rows.accepted(run), key=lambda epoch: epoch.shard)
        by_base: dict[str, list[EpochRow]] = {}
        for epoch in accepted:
            by_base.setdefault(epoch.name.base, []).append(epoch)
        return RunSummary(
            run=row,
            leases_open=leases_open,
            leases_overdue=leases_overdue,
            accepted=tuple(map(_accepted_artifact, accepted)),
            accepted_shards=tuple(
                base for base, epochs in sorted(by_base.items()) if is_accepted(epochs, row.cases_per_shard)
            ),
        )

    def shard_accepted(self, run: str, shard: str) -> bool:
        """Whether the shard is accepted: as one, or by parts that cover each of its cases; a part, by itself."""
        with self._reading() as rows:
            row = rows.run(run)
            accepted = [epoch for epoch in rows.blocking(run, shard) if epoch.state is EpochState.COMMITTED]
        if any(epoch.shard == shard for epoch in accepted):
            return True
        return read_shard_name(shard).cases is None and is_accepted(accepted, row.cases_per_shard)

    def epoch_tokens(self, run: str, shard: str, epoch: int) -> int | None:
        """What an epoch reserved, or billed once it was committed; None: it was never granted."""
        with self._reading() as rows:
            row = rows.epoch(run, shard, epoch)
        return None if row is None else row.tokens

    def checkpoints(self, run: str, shard: str) -> Sequence[CheckpointRow]:
        """The shard's checkpoints, newest first."""
        with self._reading() as rows:
            return rows.checkpoints(run, shard)

    def append_pending(self, append: Callable[[Sequence[Record]], None]) -> int:
        """Hand this ledger's pending lines to `append`, oldest first, and forget them once it returned; how many."""
        appended = 0
        while True:
            with self._appending() as rows:
                pending = rows.pending(self._ledger, PENDING_LINES_PER_APPEND)
                if not pending:
                    return appended
                append([record for _, record in pending])
                rows.forget_pending(self._ledger, pending[-1][0])
            appended += len(pending)
            if len(pending) < PENDING_LINES_PER_APPEND:
                return appended


def _accepted_artifact(epoch: EpochRow) -> AcceptedArtifact:
    return AcceptedArtifact(
        shard=epoch.shard, epoch=epoch.epoch, artifact_digest=epoch.artifact_digest or "", tokens=epoch.tokens
    )
