"""Where rooms that act put their lines, as a protocol, so that tests can hand in a list."""

from typing import Protocol

from preempt_exporter.ledger.records import Record


class LedgerSink(Protocol):
    """An append-only ledger."""

    def append(self, *records: Record) -> None:
        """Put the records on disk as consecutive lines in one write, or raise `LedgerWriteError` and write none.

        A record without `id` gets one, unique among all writers.
        """
        ...
