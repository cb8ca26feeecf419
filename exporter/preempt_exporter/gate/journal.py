"""The gate's lives and the ledger they stand in: written line by line, read back after a crash."""

from collections.abc import Callable
from pathlib import Path

from preempt_exporter.clock import Clock
from preempt_exporter.errors import LedgerWriteError, UnreadableInput
from preempt_exporter.gate.lane_rates import LaneRates
from preempt_exporter.gate.ledger_reader import LedgerReader
from preempt_exporter.gate.life import Life, TaskKey
from preempt_exporter.gate.snapshot import Snapshot, read_snapshot, write_snapshot
from preempt_exporter.gate.task_book import TaskBook
from preempt_exporter.ledger.records import Record, TaskEvent
from preempt_exporter.ledger.sink import LedgerSink

SNAPSHOT_AT_LEAST_EVERY = 1000
"""Lines between two snapshots; more where more lives are kept, so that snapshots stay a fraction of the work."""


class TaskJournal:
    """Lives as the ledger tells them. Not safe for threads by itself: the gate takes turns."""

    def __init__(
        self,
        ledger: Path,
        sink: LedgerSink,
        clock: Clock,
        *,
        own_prefix: str,
        lane_default: str,
        snapshot_path: Path | None = None,
        keep: Callable[[TaskKey], bool] | None = None,
    ) -> None:
        """Read the snapshot, if there is one, and all newer lines, rotated forms included.

        `own_prefix`: how the ids of this process' lines begin. `keep`: the only tasks to remember (None: all), for a
        process about one task; it needs no snapshot. Raises `UnreadableInput`: nothing may then be admitted.
        """
        snapshot = read_snapshot(snapshot_path) if snapshot_path is not None else None
        self.book = TaskBook(
            lane_default=lane_default,
            rates=snapshot.rates if snapshot else LaneRates(),
            lives=snapshot.lives if snapshot else (),
            keep=keep,
        )
        self._reader = LedgerReader(ledger, snapshot.place if snapshot else None)
        self._sink = sink
        self._clock = clock
        self._own_prefix = own_prefix
        self._snapshot_path = snapshot_path
        self._lines_since_snapshot = 0
        self._caught_up_ms = snapshot.taken_ms if snapshot else 0
        self._unsure: set[str] = set()
        self._unheard: set[TaskKey] = set()
        self.catch_up()

    def life(self, key: TaskKey, *, is_ours: Callable[[Life], bool]) -> Life | None:
        """The task's life. What is unknown or not ours may have moved on the ledger, so that is read first."""
        life = self.book.get(key)
        if life is None or self._unsure or not is_ours(life):
            self.catch_up()
            life = self.book.get(key)
        return life

    def was_told(self, key: TaskKey) -> bool:
        """Whether the task's newest lines were acknowledged to whoever asked for them.

        False where a write was reported as failed and the disk turned out to hold it.
        """
        return key not in self._unheard

    def is_told_now(self, key: TaskKey) -> None:
        """Somebody heard of the task's newest lines after all: a repeat of the request that wrote them."""
        self._unheard.discard(key)

    def write(self, *lines: TaskEvent) -> None:
        """Put the lines on disk, then let them move their task.

        Raises `LedgerWriteError`: nothing has happened, as far as is known; what the disk holds after all is read
        before the next decision.
        """
        try:
            self._sink.append(*lines)
        except LedgerWriteError:
            self._unsure.update(line.id for line in lines if line.id is not None)
            raise
        for line in lines:
            self.book.apply(line)
            self._unheard.discard((line.run, line.task_id))
        self._lines_since_snapshot += len(lines)
        if self._lines_since_snapshot >= max(SNAPSHOT_AT_LEAST_EVERY, len(self.book)):
            self._snapshot_if_possible()

    def catch_up(self) -> None:
        """Read what others appended, and what the disk holds of lines that it did not acknowledge."""
        since_ms, self._caught_up_ms = self._caught_up_ms, self._clock.now_ms()
        for records in self._reader.read_new():
            for record in records:
                if self._is_news(record, since_ms):
                    self.book.apply(record, self._reader.rotated)
        self._reader.lost_its_place = False

    def write_snapshot(self) -> None:
        """Put down what is known, so that a restart reads only newer lines. Raises OSError."""
        if self._snapshot_path is None:
            return
        self._lines_since_snapshot = 0
        self.catch_up()
        snapshot = Snapshot(
            taken_ms=self._caught_up_ms,
            place=self._reader.place,
            lives=list(self.book),
            rates=self.book.rates,
        )
        write_snapshot(self._snapshot_path, snapshot)

    def _is_news(self, record: Record, since_ms: int) -> bool:
        """Whether a line that was read is not in the book yet."""
        if record.id is not None and record.id.startswith(self._own_prefix):
            is_news = record.id in self._unsure
            if is_news and isinstance(record, TaskEvent):
                self._unheard.add((record.run, record.task_id))
            # Lines stand in the order of their numbers, so those before this one are there or never will be.
            number = _number_of(record.id)
            self._unsure = {unsure for unsure in self._unsure if _number_of(unsure) > number}
            return is_news
        # With its place lost the reader began anew; what is older than the last catching up was read before.
        return not self._reader.lost_its_place or record.ts_ms is None or record.ts_ms >= since_ms

    def _snapshot_if_possible(self) -> None:
        """The ledger has everything; a snapshot that fails costs time at the next start and nothing else."""
        try:
            self.write_snapshot()
        except (OSError, UnreadableInput):
            return


def _number_of(own_id: str) -> int:
    return int(own_id.rpartition("-")[2])
