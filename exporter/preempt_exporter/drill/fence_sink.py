"""Where a drill's spend lines go: kept to be judged, and passed on to a ledger where one was named."""

from preempt_exporter.ledger.records import Record
from preempt_exporter.ledger.sink import LedgerSink


class KeepingSink:
    """A `LedgerSink` that remembers what passed through it."""

    def __init__(self, ledger: LedgerSink | None) -> None:
        """`ledger`: where the lines go as well."""
        self.lines: list[Record] = []
        self._ledger = ledger

    def append(self, *records: Record) -> None:
        """Pass the lines on, then keep them. Raises `LedgerWriteError`."""
        if self._ledger is not None:
            self._ledger.append(*records)
        self.lines.extend(records)
