"""Short ways to say what happens to a spend service in a test."""

from collections.abc import Callable
from typing import Any

from preempt_exporter.clock import FixedClock
from preempt_exporter.errors import LedgerWriteError
from preempt_exporter.ledger.records import Record
from preempt_exporter.spend.requests import request_from
from preempt_exporter.spend.rows import Outcome, RunRow
from preempt_exporter.spend.run_changes import OpenRun
from preempt_exporter.spend.service import SpendService
from preempt_exporter.spend.store import SpendStore

NOW_MS = 1_700_000_000_000
LEASE_MS = 60_000
TOKENS = 100
INPUT = "sha256:input"
ARTIFACT = "sha256:artifact"

_USUAL: dict[str, dict[str, Any]] = {
    "grant": {"tokens": TOKENS, "lease_ms": LEASE_MS, "input_digest": INPUT},
    "reserve": {"tokens": TOKENS, "lease_ms": LEASE_MS, "input_digest": INPUT},
    "renew": {"lease_ms": LEASE_MS},
    "checkpoint": {"index": 10, "tokens": 20, "input_digest": INPUT},
    "resume": {"input_digest": INPUT},
    "commit": {"tokens": TOKENS, "artifact_digest": ARTIFACT},
    "release": {},
    "compensate": {"artifact_digest": ARTIFACT, "reason": "stale"},
}


class ListSink:
    """A ledger in memory; `fails` makes it a disk that is full, `before` runs ahead of each append."""

    def __init__(self) -> None:
        self.lines: list[Record] = []
        self.fails = False
        self.after: Callable[[], None] = lambda: None

    def append(self, *records: Record) -> None:
        if self.fails:
            raise LedgerWriteError("ledger", "No space left on device")
        self.lines.extend(records)
        self.after()


class Play:
    """A service, its store, its ledger and the clock that the store goes by."""

    def __init__(self, service: SpendService, store: SpendStore, sink: ListSink, clock: FixedClock) -> None:
        self.service = service
        self.store = store
        self.sink = sink
        self.clock = clock

    def ask(self, op: str, epoch: int | None = None, *, shard: str = "3", run: str = "r", **fields: Any) -> Outcome:
        """One request with the usual fields where none are given."""
        given = _USUAL[op] | fields | ({} if epoch is None else {"epoch": epoch})
        return self.service.apply(request_from(op, run, shard, given))

    def do(self, op: str, epoch: int | None = None, **fields: Any) -> str:
        """The word that one request is answered."""
        return self.ask(op, epoch, **fields).outcome

    def open(self, **terms: Any) -> RunRow:
        """Open run `r`, or change it."""
        return self.service.change_run(OpenRun(run="r", **terms))

    def row(self, run: str = "r") -> RunRow:
        """The run's totals now."""
        return self.service.run_summary(run).run

    def events(self) -> list[str]:
        """The kinds of the lines in the ledger, in order."""
        return [str(line.__struct_config__.tag) for line in self.sink.lines]
