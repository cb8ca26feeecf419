"""A ledger that tells its lines as it takes them."""

from collections.abc import Callable

from preempt_exporter.ledger.records import Record
from preempt_exporter.ledger.writer import LedgerWriter, encode_line


class ToldLedger:
    """Appends to a ledger and hands each line on once the disk has it; implements `LedgerSink`."""

    def __init__(self, writer: LedgerWriter, tell: Callable[[str], object]) -> None:
        """`tell` gets each line without its newline."""
        self._writer = writer
        self._tell = tell

    def append(self, *records: Record) -> None:
        """As the protocol says."""
        named = [self._writer.with_id(record) for record in records]
        self._writer.append(*named)
        for record in named:
            self._tell(encode_line(record).decode().rstrip("\n"))
