"""What a spend store offers, whatever database keeps it."""

from collections.abc import Callable, Sequence
from typing import Protocol

from preempt_exporter.ledger.records import Record
from preempt_exporter.spend.requests import Request
from preempt_exporter.spend.rows import CheckpointRow, Outcome, Outside, RunRow, RunSummary
from preempt_exporter.spend.run_changes import RunChange

NOTHING_OUTSIDE = Outside()


class SpendStore(Protocol):
    """Budget, leases, epochs and artifacts of runs, with the ledger lines that still have to be appended.

    Every method is one transaction, done whole or not at all, and raises `StoreUnavailable` when the store is
    read-only, locked, full or gone: then nothing may be dispatched. Methods may be called from several threads.
    """

    def apply(self, request: Request, outside: Outside = NOTHING_OUTSIDE) -> Outcome:
        """Decide one request and keep its outcome together with its ledger lines."""
        ...

    def change_run(self, change: RunChange) -> RunRow:
        """Open, close, stop or resume a run; how it stands afterwards."""
        ...

    def reclaim_expired(self, run: str | None = None) -> int:
        """Return expired reservations of one run, or of all, to their budgets; how many there were."""
        ...

    def run_summary(self, run: str) -> RunSummary:
        """How a run stands at one instant; an unknown run is `unopened` and empty."""
        ...

    def shard_accepted(self, run: str, shard: str) -> bool:
        """Whether the shard is accepted: as one, or by parts that cover each of its cases; a part, by itself."""
        ...

    def epoch_tokens(self, run: str, shard: str, epoch: int) -> int | None:
        """What an epoch reserved, or billed once it was committed; None: it was never granted."""
        ...

    def checkpoints(self, run: str, shard: str) -> Sequence[CheckpointRow]:
        """The shard's checkpoints, newest first."""
        ...

    def append_pending(self, append: Callable[[Sequence[Record]], None]) -> int:
        """Hand this ledger's pending lines to `append`, oldest first, and forget them once it returned; how many.

        A crash between the two hands the same lines, with the same `id`, to the next caller. Callers of one ledger
        wait for each other, so that lines keep the order of their transactions.
        """
        ...

    def close(self) -> None:
        """Let go of the database."""
        ...
