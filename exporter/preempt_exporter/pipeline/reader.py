"""The only writer of the watched state: reads what the tail has, decodes it, folds it."""

import logging
import threading

from msgspec.structs import replace

from preempt_exporter.clock import Clock
from preempt_exporter.ledger.chunk import Chunk
from preempt_exporter.ledger.chunk_decoder import ChunkDecoder, decode_natively
from preempt_exporter.metrics.self_samples import Reading
from preempt_exporter.pipeline.line_errors import LineErrorLog
from preempt_exporter.pipeline.snapshot import Snapshot, SnapshotKeeper, TailCounts
from preempt_exporter.state.watched import Watched
from preempt_exporter.tail.follow import Tail
from preempt_exporter.tail.positions import FileState
from preempt_exporter.tail.watch import Watch

log = logging.getLogger("preempt_exporter")

LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

READ_BYTES = 1 << 23
"""How much is read between two looks at what else there is to do."""

IDLE_WAIT_S = 1.0
FILES_TOLD = 50
EXPIRE_EVERY_S = 10.0
LOOK_EVERY_S = 2.0
"""How often an idle reader counts its files anew, which costs a look at each of them."""
STALLED_S = 5.0
"""A reader that has not looked for so long is behind, whatever the file sizes were then."""


class Reader:
    """Reads until told to stop. `lock` is held while state changes and for no longer."""

    def __init__(
        self,
        tail: Tail,
        watch: Watch,
        watched: Watched,
        snapshots: SnapshotKeeper | None,
        clock: Clock,
        counts_before: TailCounts | None = None,
        decode: ChunkDecoder = decode_natively,
    ) -> None:
        """`snapshots` None: nothing is kept over a restart. `counts_before` are the tail's of earlier starts."""
        self._decode = decode
        self.lock = threading.Lock()
        self.watched = watched
        self._tail = tail
        self._watch = watch
        self._snapshots = snapshots
        self._clock = clock
        self._counts_before = counts_before or TailCounts()
        self._line_errors = LineErrorLog(clock)
        self._expired_s = clock.monotonic_s()
        self._ready = False
        self._reading = self._look_at_reading()
        self._looked_s = clock.monotonic_s()
        self._files: list[FileState] = []
        self._written: tuple[TailCounts, int, bool] | None = None
        """What the last snapshot was made of."""

    def run(self, stop: threading.Event) -> None:
        """Read and fold until `stop` is set (and `wake` called), then put the state on disk once more."""
        try:
            try:
                while not stop.is_set():
                    self.step()
                    if not self._tail.has_more():
                        self._watch.wait(IDLE_WAIT_S)
            finally:
                self._watch.close()  # before the state is written: it may lie in a folder that is watched
            self._write_snapshot()
        finally:
            self._tail.close()

    def wake(self) -> None:
        """Make `run` look at once; from any thread."""
        self._watch.wake()

    def step(self) -> None:
        """Look at the files once and fold what is there."""
        self._tail.scan(self._watch.take_changed())
        self._watch.cover(self._tail.folders())
        anything_new = False
        for chunk in self._tail.read(READ_BYTES):
            self._fold(chunk)
            anything_new = True
        for notice in self._tail.take_notices() + self._watch.take_notices():
            anything_new = True
            log.log(LEVELS[notice.level], "%s: %s", notice.path, notice.message)
        if not self._ready and self._tail.caught_up():
            self._ready = True
            anything_new = True
            if self._tail.stats.files:
                log.info("caught up; lines read: %d", self.watched.figures.counts.lines)
            else:
                log.warning("no ledger is there yet: is its path right?")
        self._do_what_is_due()
        if anything_new or self._reading.lag_bytes or self._clock.monotonic_s() - self._looked_s >= LOOK_EVERY_S:
            with self.lock:
                before, self._reading = self._reading, self._look_at_reading()
                if replace(self._reading, lag_s=0.0) != replace(before, lag_s=0.0):
                    self._files = self._tail.files(FILES_TOLD)
                self._looked_s = self._clock.monotonic_s()

    def is_ready(self) -> bool:
        """Whether every readable file has been read to the size it had at the start."""
        return self._reading.ready

    def reading(self) -> Reading:
        """How the reading goes, for the self families; what is behind grows older while nothing is read."""
        since_s = self._clock.monotonic_s() - self._looked_s
        if self._reading.lag_bytes or since_s > STALLED_S:
            return replace(self._reading, lag_s=self._reading.lag_s + since_s)
        return self._reading

    def files(self) -> list[FileState]:
        """The files that are furthest behind or cannot be read, as of the last look."""
        return self._files

    def _look_at_reading(self) -> Reading:
        stats = self._tail.stats
        counts = self._counts_before.plus(stats)
        return Reading(
            ready=self._ready,
            bytes_read=counts.bytes_read,
            files=stats.files,
            unreadable_files=stats.unreadable_files,
            read_errors=counts.read_errors,
            rotations=counts.rotations,
            truncations=counts.truncations,
            suspected_loss=counts.suspected_loss,
            lag_bytes=stats.lag_bytes,
            lag_s=stats.lag_seconds,
            avail_bytes=stats.filesystem_avail_bytes,
            snapshot_ms=None if self._snapshots is None else self._snapshots.written_ms,
        )

    def _fold(self, chunk: Chunk) -> None:
        decoded = self._decode(chunk)
        with self.lock:
            figures = self.watched.figures
            figures.counts.lines += decoded.lines
            if decoded.ignored:
                figures.counts.ignored = (figures.counts.ignored or 0) + decoded.ignored
            for bad in decoded.bad:
                figures.counts.errors[bad.reason] += 1
            self.watched.fold(decoded.records, chunk.ledger, self._clock.now_ms())
        if decoded.bad:
            self._line_errors.say(chunk.path, chunk.offset, decoded.bad)

    def _do_what_is_due(self) -> None:
        now_s = self._clock.monotonic_s()
        if now_s - self._expired_s >= EXPIRE_EVERY_S:
            self._expired_s = now_s
            followed, now_ms = self._tail.followed(), self._clock.now_ms()
            with self.lock:
                self.watched.expire(now_ms)
                self.watched.forget_gone_ledgers(followed, now_ms)
        if self._snapshots is not None and self._snapshots.is_due(now_s):
            self._keep_snapshot(self._snapshots)

    def _keep_snapshot(self, snapshots: SnapshotKeeper) -> None:
        """Write the state, unless nothing was read and nothing settled since: thousands of idle files cost nothing."""
        written = (self._counts_before.plus(self._tail.stats), *self._tail.state_version())
        settling = written[-1]
        if settling or written != self._written or not snapshots.confirm():
            self._write_snapshot()
        self._written = written

    def _write_snapshot(self) -> None:
        if self._snapshots is not None:
            counts = self._counts_before.plus(self._tail.stats)
            self._snapshots.write(Snapshot(self.watched.figures, self._tail.positions(), counts), self.lock)
