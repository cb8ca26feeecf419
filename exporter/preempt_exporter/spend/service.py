"""The spend ledger as its callers see it: store, outbox and sink put together.

An outcome and its line are one transaction of the store; the line goes to the ledger right after it, and again after
a crash, under the same `id`, so that the exporter counts it once. A ledger that cannot be written holds no outcome up:
the lines wait in the store.
"""

import logging
from collections.abc import Callable, Sequence

from preempt_exporter.errors import LedgerWriteError
from preempt_exporter.ledger.records import Record
from preempt_exporter.ledger.sink import LedgerSink
from preempt_exporter.spend.artifacts import ArtifactFolder
from preempt_exporter.spend.requests import (
    CommitRequest,
    GrantRequest,
    Request,
    ReserveRequest,
    ResumeRequest,
)
from preempt_exporter.spend.rows import Outcome, Outside, RunRow, RunSummary
from preempt_exporter.spend.run_changes import RunChange
from preempt_exporter.spend.store import NOTHING_OUTSIDE, SpendStore

_log = logging.getLogger(__name__)


def _never_stopped(run: str) -> bool:
    return False


class SpendService:
    """What drivers, workers and the control service call. May be used from several threads."""

    def __init__(
        self,
        store: SpendStore,
        sink: LedgerSink,
        *,
        artifacts: ArtifactFolder | None = None,
        run_is_stopped: Callable[[str], bool] = _never_stopped,
    ) -> None:
        """`run_is_stopped` is what the switch file says, asked before every grant; `artifacts` makes commits checked.

        Lines that a crash left pending are appended now.
        """
        self._store = store
        self._sink = sink
        self._artifacts = artifacts
        self._run_is_stopped = run_is_stopped
        self.append_pending()

    def apply(self, request: Request) -> Outcome:
        """Carry out one request; refusals are outcomes. Raises `StoreUnavailable`: then nothing may be dispatched."""
        outcome = self._store.apply(request, self._look_outside(request))
        self.append_pending()
        return outcome

    def change_run(self, change: RunChange) -> RunRow:
        """Open, close, stop or resume a run; how it stands afterwards. Raises `StoreUnavailable`."""
        row = self._store.change_run(change)
        self.append_pending()
        return row

    def reclaim_expired(self, run: str | None = None) -> int:
        """Return expired reservations of one run, or of all, to the budget; how many. Raises `StoreUnavailable`."""
        count = self._store.reclaim_expired(run)
        self.append_pending()
        return count

    def run_summary(self, run: str) -> RunSummary:
        """How a run stands at one instant. Raises `StoreUnavailable`."""
        return self._store.run_summary(run)

    def shard_accepted(self, run: str, shard: str) -> bool:
        """Whether the whole shard is accepted, at once or by its parts: ask before a reduce over it."""
        return self._store.shard_accepted(run, shard)

    def epoch_tokens(self, run: str, shard: str, epoch: int) -> int | None:
        """What an epoch reserved, or billed once it was committed. Raises `StoreUnavailable`."""
        return self._store.epoch_tokens(run, shard, epoch)

    def append_pending(self) -> bool:
        """Append what the ledger still lacks; False when it cannot be written now, and the lines wait."""

        def append(records: Sequence[Record]) -> None:
            self._sink.append(*records)

        try:
            self._store.append_pending(append)
        except LedgerWriteError as error:
            _log.warning("spend lines wait in the store: %s", error)
            return False
        return True

    def _look_outside(self, request: Request) -> Outside:
        match request:
            case GrantRequest() | ReserveRequest():
                return Outside(run_stopped=self._run_is_stopped(request.run))
            case CommitRequest() if self._artifacts is not None and request.artifact_digest:
                present = self._artifacts.holds(request.run, request.shard, request.epoch, request.artifact_digest)
                return Outside(artifact_present=present)
            case ResumeRequest() if self._artifacts is not None:
                newest_first = self._store.checkpoints(request.run, request.shard)
                return Outside(torn_checkpoints=self._artifacts.torn(request.run, request.shard, newest_first))
        return NOTHING_OUTSIDE
