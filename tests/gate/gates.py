"""Gates on a ledger in a temporary folder, for the gate's tests."""

import itertools
from pathlib import Path

from preempt_exporter.clock import FixedClock
from preempt_exporter.errors import LedgerWriteError
from preempt_exporter.gate.gate import Gate
from preempt_exporter.gate.request import TaskRequest
from preempt_exporter.gate.settings import GateSettings
from preempt_exporter.ledger.decode import decode_chunk
from preempt_exporter.ledger.records import EVENT_NAMES, EVENT_TYPES, Record
from preempt_exporter.ledger.sink import LedgerSink
from preempt_exporter.ledger.writer import LedgerWriter, encode_line

START_MS = 1_800_000_000_000
KEY = ("r", "t")
REQUEST = TaskRequest(
    lane="free", prompt_tokens=800, target_tokens=200, deadline_ms=120_000, task_budget=10_000, host="h1"
)

_INSTANCES = itertools.count()


class Place:
    """A ledger, a clock and gates on them; a second gate is what a restart makes."""

    def __init__(self, folder: Path) -> None:
        self.ledger = folder / "l.jsonl"
        self.snapshot = folder / "l.jsonl.gate"
        self.clock = FixedClock(START_MS)

    def gate(self, settings: GateSettings | None = None, sink: LedgerSink | None = None, **more: object) -> Gate:
        """A gate that begins from what is on disk."""
        return Gate(
            self.ledger,
            sink or LedgerWriter(self.ledger, fsync=False),
            self.clock,
            settings=settings or GateSettings(),
            instance=f"i{next(_INSTANCES)}",
            snapshot_path=self.snapshot,
            **more,  # type: ignore[arg-type]
        )

    def records(self) -> list[Record]:
        """What is on the ledger; a bad line is an error."""
        decoded = decode_chunk(self.ledger.read_bytes() if self.ledger.exists() else b"", at_file_start=True)
        assert decoded.bad == []
        return decoded.records

    def events(self) -> list[str]:
        """The words of the lines, in order."""
        return [name_of(record) for record in self.records()]


def name_of(record: Record) -> str:
    """A record's word in the ledger."""
    return dict(zip(EVENT_TYPES, EVENT_NAMES, strict=True))[type(record)]  # type: ignore[index]


class FailingSink:
    """Passes `good` appends on to a writer; from then on each raises, having written nothing, a part or everything."""

    def __init__(self, ledger: Path, good: int, *, leaves: str = "nothing") -> None:
        self._ledger = ledger
        self._writer = LedgerWriter(ledger, fsync=False)
        self.good = good
        self._leaves = leaves

    def append(self, *records: Record) -> None:
        """As the protocol says, until it fails."""
        if self.good > 0:
            self.good -= 1
            self._writer.append(*records)
            return
        if self._leaves == "all":
            self._writer.append(*records)
        elif self._leaves == "first":
            self._writer.append(records[0])
        elif self._leaves == "torn":
            with self._ledger.open("ab") as file:
                file.write(b'{"event":"admit","task')
        elif self._leaves == "all but the newline":
            with self._ledger.open("ab") as file:
                file.write(encode_line(records[0])[:-1])
        raise LedgerWriteError(str(self._ledger), "no space left on device")
