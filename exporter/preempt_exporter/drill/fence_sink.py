"""Where a drill's spend lines go: kept to be judged, and passed on to a ledger where one was named."""

from preempt_exporter.errors import LedgerWriteError, UsageError
from preempt_exporter.ledger.records import Record
from preempt_exporter.ledger.sink import LedgerSink


class KeepingSink:
    """A `LedgerSink` that remembers what passed through it."""

    def __init__(self, ledger: LedgerSink | None) -> None:
        """`ledger`: where the lines go as well."""
        self.lines: list[Record] = []
        self._ledger = ledger

    def append(self, *records: Record) -> None:
        """Pass the lines on, then keep them.

        Raises `UsageError` where the ledger does not take them, which ends the drill: its lines cannot wait in the
        store for a better time, since nobody opens it again under this drill's name.
        """
        if self._ledger is not None:
            try:
                self._ledger.append(*records)
            except LedgerWriteError as error:
                raise UsageError(f"--ledger {error.path}, where the drill's lines go: {error.why}") from error
        self.lines.extend(records)
