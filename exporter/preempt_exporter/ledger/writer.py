"""The ledger as workers write it: whole valid lines, each with an id, or an exception and nothing done.

Imports nothing but the standard library and msgspec, so that a worker can embed it.
"""

import itertools
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from preempt_exporter.errors import LedgerWriteError, UsageError
from preempt_exporter.ledger.append_file import AppendFile
from preempt_exporter.ledger.bad_line import BadLine
from preempt_exporter.ledger.decode import decode_line
from preempt_exporter.ledger.records import Record

_ENCODER = msgspec.json.Encoder()


def _random_name() -> str:
    return secrets.token_hex(8)


def encode_line(record: Record) -> bytes:
    """The record as one line of JSON with its newline; fields that are None are left out.

    Raises UsageError for what a reader would refuse: a negative count, too long an id, text that is not Unicode.
    """
    kind = type(record).__name__
    try:
        line = _ENCODER.encode(record)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{kind} cannot be written: {error}") from error
    read_back = decode_line(line)
    if isinstance(read_back, BadLine):
        raise UsageError(f"{kind} would be a bad line: {read_back.reason}: {read_back.detail}")
    return line + b"\n"


class LedgerWriter:
    """Appends records to one ledger; implements `LedgerSink`.

    One instance may be shared by threads, survives a fork, and may be called from a signal handler. Any number of
    processes on one host may append to one ledger on a local disk; on a network file system give each its own ledger.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, fsync: bool = True, new_name: Callable[[], str] = _random_name
    ) -> None:
        """`path` need not exist, its folder must. `fsync`: an append returns only once the disk has the lines.

        `new_name` names this writer within the ids it gives; it must never give one name twice, on any host.
        """
        self._path = Path(path)
        self._file = AppendFile(self._path, fsync=fsync)
        self._new_name = new_name
        self._process_id = -1
        self._name = ""
        self._numbers = itertools.count()

    def append(self, *records: Record) -> None:
        """Put the records on disk as consecutive lines in one write; a record without `id` gets one.

        Raises UsageError, before anything is written, for a record that a reader would refuse, and LedgerWriteError
        when the disk did not take all of it: act as if nothing had happened. A disk that fills up in the middle may
        still hold the first of several lines. To try again without counting twice, append what `with_id` returned:
        a line whose id was read before changes nothing.
        """
        if not records:
            return
        lines = b"".join(encode_line(self.with_id(record)) for record in records)
        try:
            self._file.append(lines)
        except OSError as error:
            raise LedgerWriteError(str(self._path), error) from error

    def with_id(self, record: Record) -> Record:
        """The record with an `id` that no other line has; unchanged where it has one."""
        if record.id:
            return record
        if self._process_id != os.getpid():
            # A forked child counts on from where its parent was, so it needs a name of its own.
            self._name, self._process_id = self._new_name(), os.getpid()
        return msgspec.structs.replace(record, id=f"{self._name}-{next(self._numbers)}")

    def close(self) -> None:
        """Let go of the file; a later append opens it again."""
        self._file.close()

    def __enter__(self) -> Self:
        """The writer itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the writer."""
        self.close()
