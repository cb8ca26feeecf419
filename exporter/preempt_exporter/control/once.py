"""Requests with an Idempotency-Key happen once, whatever is killed in between, and a repeat gets the first answer.

Before a keyed request puts anything on disk, what it is about to write is noted durably: its lines with their ids, or
how the ids of its spend lines begin, and where the ledger ended. A request that was noted and never answered is looked
up on the ledger from there on: found, it has happened and its answer is made from its lines; not found, it has not.
"""

import contextlib
import sqlite3
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path

import msgspec
from msgspec import Struct

from preempt_exporter.clock import Clock
from preempt_exporter.control.problems import Problem
from preempt_exporter.errors import StoreUnavailable
from preempt_exporter.gate.ledger_reader import REMEMBERED_BYTES, LedgerReader, Place
from preempt_exporter.ledger.decode import decode_chunk
from preempt_exporter.ledger.records import Record
from preempt_exporter.ledger.writer import LedgerWriter, encode_line
from preempt_exporter.settings import HOUR_MS
from preempt_exporter.spend.sql_store import new_line_id

KEPT_MS = 24 * HOUR_MS
MAX_KEY_CHARACTERS = 256

_SCHEMA = """CREATE TABLE IF NOT EXISTS requests (
    key TEXT PRIMARY KEY, fingerprint BLOB NOT NULL, asked_ms INTEGER NOT NULL,
    place BLOB, lines BLOB NOT NULL, spend_prefix TEXT, answer BLOB) WITHOUT ROWID"""


class _Mark(Struct):
    """The keyed request that this thread carries out."""

    key: str
    fingerprint: bytes
    asked_ms: int
    spend_prefix: str
    is_placed: bool = False
    place: Place | None = None
    """Where the ledger ended before its first line; None: nothing was there."""
    lines: bytes = b""
    spend_lines: int = 0


_MARK: ContextVar[_Mark | None] = ContextVar("keyed_request", default=None)


class Begun(Struct, frozen=True):
    """What a request wrote that was begun and never answered."""

    lines: list[Record]
    """Its own, in order: those that it meant to write and those that it wrote of the spend ledger."""
    later: list[Record]
    """Everything on the ledger since the request began, its own lines included."""
    all_written: bool
    """Whether there are any, and none that it meant to write is missing."""


class RequestsOnce:
    """Keyed requests of one ledger, in one SQLite file beside it."""

    def __init__(self, path: Path, ledger: Path, clock: Clock, *, append_pending: Callable[[], bool]) -> None:
        """Open or make the file. Raises `StoreUnavailable`.

        `append_pending` puts spend lines that wait in the store on the ledger; False while it cannot.
        """
        self._append_pending = append_pending
        self._path = path
        self._ledger = ledger
        self._clock = clock
        self._one_at_a_time = threading.Lock()
        with self._as_unavailable():
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute(_SCHEMA)
            self._connection.execute("CREATE INDEX IF NOT EXISTS by_age ON requests (asked_ms)")
        self.forget_old()

    def carry_out(
        self,
        key: str,
        fingerprint: bytes,
        work: Callable[[], bytes],
        recovered: Callable[[Begun], bytes | None],
    ) -> tuple[bytes, bool]:
        """The answer, and whether it is a repeat's. Not for two threads with the same key at once.

        `recovered` makes the answer of a request that was begun and is on the ledger; None: it has not happened.
        Raises `Problem` where the key was used for another request, and whatever `work` raises: nothing is kept then.
        """
        with self._as_unavailable():
            row = self._row(key)
        if row is not None:
            kept_fingerprint, place, lines, spend_prefix, answer = row
            if kept_fingerprint != fingerprint:
                raise Problem(422, "this Idempotency-Key was used for another request within the last 24 hours")
            if answer is not None:
                return answer, True
            if not self._append_pending():
                raise StoreUnavailable(
                    f"{self._ledger} cannot be written; what became of the request is told once it can"
                )
            found = recovered(self._begun(place, lines, spend_prefix))
            if found is not None:
                self._keep_answer(key, found)
                return found, True
        mark = _Mark(key, fingerprint, self._clock.now_ms(), f"spend-{uuid.uuid4().hex}-")
        token = _MARK.set(mark)
        try:
            answer = work()
        finally:
            _MARK.reset(token)
        if not mark.lines and not mark.spend_lines:
            self._note(mark, durable=False)
        self._keep_answer(key, answer)
        return answer, False

    def forget_old(self) -> None:
        """Forget what is older than 24 hours."""
        with self._as_unavailable(), self._one_at_a_time:
            self._connection.execute("DELETE FROM requests WHERE asked_ms < ?", (self._clock.now_ms() - KEPT_MS,))

    def about_to_write(self, records: Sequence[Record]) -> None:
        """Note the lines that the request of this thread is about to append; nothing for one without a key."""
        mark = _MARK.get()
        if mark is not None:
            self._place(mark)
            mark.lines += b"".join(map(encode_line, records))
            self._note(mark, durable=True)

    def spend_line_id(self) -> str:
        """The name of the next spend line: of the request of this thread, where it has a key."""
        mark = _MARK.get()
        if mark is None:
            return new_line_id()
        if mark.spend_lines == 0:
            self._place(mark)
            self._note(mark, durable=True)
        mark.spend_lines += 1
        return f"{mark.spend_prefix}{mark.spend_lines}"

    def close(self) -> None:
        """Let go of the file."""
        with self._one_at_a_time:
            self._connection.close()

    def _place(self, mark: _Mark) -> None:
        if not mark.is_placed:
            mark.place, mark.is_placed = end_of(self._ledger), True

    def _begun(self, place: bytes | None, lines: bytes, spend_prefix: str) -> Begun:
        meant = decode_chunk(lines).records
        ids = {record.id for record in meant}
        reader = LedgerReader(self._ledger, msgspec.json.decode(place, type=Place) if place else None)
        later = [record for records in reader.read_new() for record in records]
        own = [record for record in later if record.id and (record.id in ids or record.id.startswith(spend_prefix))]
        written = {record.id for record in own}
        return Begun(own, later, bool(own) and ids <= written)

    def _row(self, key: str) -> tuple[bytes, bytes | None, bytes, str, bytes | None] | None:
        with self._one_at_a_time:
            found = self._connection.execute(
                "SELECT fingerprint, place, lines, spend_prefix, answer FROM requests WHERE key = ? AND asked_ms >= ?",
                (key, self._clock.now_ms() - KEPT_MS),
            ).fetchone()
        return None if found is None else tuple(found)

    def _note(self, mark: _Mark, *, durable: bool) -> None:
        place = None if mark.place is None else msgspec.json.encode(mark.place)
        values = (mark.key, mark.fingerprint, mark.asked_ms, place, mark.lines, mark.spend_prefix)
        with self._as_unavailable(), self._one_at_a_time:
            # A killed process loses nothing either way; without the sync a power cut may, and then nothing happened.
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._connection.execute("INSERT OR REPLACE INTO requests VALUES (?, ?, ?, ?, ?, ?, NULL)", values)

    def _keep_answer(self, key: str, answer: bytes) -> None:
        with self._as_unavailable(), self._one_at_a_time:
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute("UPDATE requests SET answer = ? WHERE key = ?", (answer, key))

    @contextlib.contextmanager
    def _as_unavailable(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreUnavailable(
                f"{self._path}: {error}; whether the request happened is told to the next try with its key"
            ) from error


class MarkedSink:
    """The ledger for requests that may have a key: their lines are noted before they are written."""

    def __init__(self, writer: LedgerWriter, once: RequestsOnce) -> None:
        """`writer` names the lines that have no id."""
        self._writer = writer
        self._once = once

    def append(self, *records: Record) -> None:
        """As `LedgerSink` says. Raises `StoreUnavailable` where the note cannot be kept: then nothing was written."""
        named = [self._writer.with_id(record) for record in records]
        self._once.about_to_write(named)
        self._writer.append(*named)


def end_of(ledger: Path) -> Place | None:
    """The place behind everything that is on the ledger now. Raises `StoreUnavailable`.

    None where nothing is there yet: an empty file has no bytes by which to find it again once it was rotated.
    """
    try:
        with ledger.open("rb") as file:
            size = file.seek(0, 2)
            start = max(0, size - REMEMBERED_BYTES)
            file.seek(start)
            before = file.read(size - start)
            status = ledger.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreUnavailable(f"{ledger}: {error.strerror}; nothing was done") from error
    return Place(status.st_dev, status.st_ino, size, before) if size else None
