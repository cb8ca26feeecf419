"""Attempt lines out of ledgers of any size: repeats dropped as the exporter does, bad lines counted and placed."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator

from msgspec import Struct

from preempt_exporter.decide.break_even import LaneAccumulator
from preempt_exporter.ledger.chunk import Chunk
from preempt_exporter.ledger.chunk_decoder import ChunkDecoder, decode_natively
from preempt_exporter.ledger.records import Attempt, Preempt
from preempt_exporter.state.repeats import REMEMBERED_ATTEMPTS, LedgerMemory

BAD_LINES_NAMED = 20
"""How many bad lines are kept with their place; all are counted."""


class PlacedBadLine(Struct, frozen=True):
    """A bad line and where it stands; `line` counts from 1."""

    path: str
    line: int
    reason: str
    detail: str


class _RecentAttempts:
    """The last `REMEMBERED_ATTEMPTS` attempt lines, each with its number; nothing else of them is asked here."""

    def __init__(self) -> None:
        self._older: dict[Attempt, int] = {}
        self._newer: dict[Attempt, int] = {}
        self._number = 0

    def add_if_new(self, attempt: Attempt) -> bool:
        """Remember an attempt line unless one equal in all fields is among the last ones."""
        reach = self._number - REMEMBERED_ATTEMPTS
        if self._newer.setdefault(attempt, self._number) != self._number:
            return False
        if self._older and self._older.get(attempt, -1) >= reach:
            del self._newer[attempt]
            return False
        self._number += 1
        if len(self._newer) == REMEMBERED_ATTEMPTS:
            self._older, self._newer = self._newer, {}
        return True


class Telemetry:
    """Reads attempts from chunks, once, and keeps count of what else was there."""

    def __init__(self, chunks: Iterable[Chunk], decode: ChunkDecoder = decode_natively) -> None:
        """`chunks` in file order within each ledger; lines that are no attempts are read and passed by."""
        self._chunks = chunks
        self._decode = decode
        self._ids: dict[str, LedgerMemory] = {}
        self._recent: dict[str, _RecentAttempts] = {}
        self._newlines_before: Counter[str] = Counter()
        self.bytes_read = 0
        self.lines = 0
        """All lines but blank ones, the bad ones included."""
        self.attempts = 0
        self.repeats = 0
        """Repeated attempt lines, and other lines with a repeated id."""
        self.bad_lines = 0
        self.ignored = 0
        """Lines that a field mapping says nothing about."""
        self.named_bad_lines: list[PlacedBadLine] = []
        self._attempts_lost_by_host: Counter[str] = Counter()
        self._preempts_by_host: Counter[str] = Counter()

    def __iter__(self) -> Iterator[Attempt]:
        """Attempts in the order of their lines, each once."""
        for chunk in self._chunks:
            yield from self._attempts_of(chunk)

    def preempts_by_host(self) -> dict[str, int]:
        """Preemptions recorded on each host so far.

        `preempt` events and preempted attempt lines may tell of the same loss, so the larger count of the two holds.
        """
        return dict(self._attempts_lost_by_host | self._preempts_by_host)

    def _attempts_of(self, chunk: Chunk) -> Iterator[Attempt]:
        decoded = self._decode(chunk)
        self.bytes_read += len(chunk.data)
        self.lines += decoded.lines
        self.bad_lines += len(decoded.bad)
        self.ignored += decoded.ignored
        first_line = self._newlines_before[chunk.path] + 1
        for bad in decoded.bad[: BAD_LINES_NAMED - len(self.named_bad_lines)]:
            self.named_bad_lines.append(PlacedBadLine(chunk.path, first_line + bad.line, bad.reason, bad.detail))
        self._newlines_before[chunk.path] += chunk.data.count(b"\n")
        ids = self._ids.setdefault(chunk.ledger, LedgerMemory(name=chunk.ledger))
        recent = self._recent.setdefault(chunk.ledger, _RecentAttempts())
        fresh = ids.without_repeated_ids(decoded.records)
        self.repeats += len(decoded.records) - len(fresh)
        for record in fresh:
            if isinstance(record, Attempt):
                if not recent.add_if_new(record):
                    self.repeats += 1
                    continue
                self.attempts += 1
                if record.outcome == "preempted" and record.host:
                    self._attempts_lost_by_host[record.host] += 1
                yield record
            elif type(record) is Preempt and record.host:
                self._preempts_by_host[record.host] += 1


class LaneTelemetry:
    """The break-even figures of every lane, from all attempts or from the last ones of each lane."""

    def __init__(self, *, last: int | None = None) -> None:
        """`last`: only the newest so many attempts per lane count, as in the exporter's window gauges."""
        self._last = last
        self._accumulators: dict[str, LaneAccumulator] = {}
        self._windows: dict[str, deque[Attempt]] = {}

    def add(self, attempt: Attempt) -> None:
        """Count one attempt in its lane."""
        if self._last is not None:
            window = self._windows.get(attempt.lane)
            if window is None:
                window = self._windows[attempt.lane] = deque(maxlen=self._last)
            window.append(attempt)
            return
        accumulator = self._accumulators.get(attempt.lane)
        if accumulator is None:
            accumulator = self._accumulators[attempt.lane] = LaneAccumulator(attempt.lane)
        accumulator.add(attempt)

    def accumulators(self, order: Iterable[str] = ()) -> list[LaneAccumulator]:
        """One per lane that has attempts: first the lanes of `order`, then the others as they appeared."""
        found = dict(self._accumulators)
        for lane, window in self._windows.items():
            found[lane] = LaneAccumulator(lane)
            for attempt in window:
                found[lane].add(attempt)
        first = [found.pop(lane) for lane in dict.fromkeys(order) if lane in found]
        return first + list(found.values())
