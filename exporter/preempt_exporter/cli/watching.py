"""What `serve` and `export` share: logging, and a thread that reads while another answers."""

import logging
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from preempt_exporter.cli.decoding import begin_counting_ignored, chunk_decoder
from preempt_exporter.clock import Clock
from preempt_exporter.config import Config
from preempt_exporter.pipeline.reader import Reader
from preempt_exporter.pipeline.snapshot import SnapshotKeeper
from preempt_exporter.printable import PrintableFormatter
from preempt_exporter.state.watched import Watched
from preempt_exporter.tail.follow import Tail
from preempt_exporter.tail.watch import Watch

log = logging.getLogger("preempt_exporter")

STOP_PATIENCE_S = 30.0


def log_to_standard_error(config: Config) -> None:
    """One line per message, at the level that `--log.level` names."""
    handler = logging.StreamHandler()
    handler.setFormatter(PrintableFormatter())
    logging.basicConfig(level=config.values["log.level"].upper(), handlers=[handler])


class Watching:
    """A reader on ledgers, in a thread of its own between `start` and the end of the `with` block."""

    def __init__(self, config: Config, patterns: list[str], clock: Clock) -> None:
        """Take over the state file, if one is set; `UsageError` where another exporter holds it."""
        state_file = config.values["state.file"]
        self._snapshots = SnapshotKeeper(Path(state_file), clock) if state_file else None
        kept = self._snapshots.load() if self._snapshots is not None else None
        watched = Watched(config.tasks(), config.lane_settings(), kept.figures if kept else None)
        begin_counting_ignored(watched.figures, config)
        tail = Tail(patterns, clock=clock, positions=kept.positions if kept else None)
        watch = Watch(clock=clock, mode=config.values["watch"])
        counts_before = kept.tail_counts if kept else None
        self.reader = Reader(
            tail, watch, watched, self._snapshots, clock, counts_before=counts_before, decode=chunk_decoder(config)
        )
        self.stop = threading.Event()
        """Set to end it, or by the reader itself when reading broke down."""
        self.broken = False
        self._thread = threading.Thread(target=self._read, name="reader")

    def start(self) -> None:
        """Begin to read."""
        if self._snapshots is None:
            log.warning("no --state.file: a restart reads the ledgers anew, and what was rotated away is not counted")
        self._thread.start()

    def log_end(self) -> None:
        """After the block: say what was read and what a restart will find. What broke down was said already."""
        if self.broken:
            return
        counts = self.reader.watched.figures.counts
        told = f"stopped; lines read: {counts.lines}, bad lines: {sum(counts.errors.values())}"
        if self._snapshots is None:
            log.info("%s; no state was kept", told)
        elif self._thread.is_alive() or not self._snapshots.is_kept():
            log.error("%s; their state was not written to %s", told, self._snapshots.path)
        else:
            log.info("%s; state kept in %s", told, self._snapshots.path)

    def _read(self) -> None:
        try:
            self.reader.run(self.stop)
        except BaseException:
            log.exception("reading broke down; stopping, so that nobody trusts figures that stand still")
            self.broken = True
            self.stop.set()

    def __enter__(self) -> Self:
        """Nothing is read yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop reading, put the state on disk, let go of it."""
        self.stop.set()
        self.reader.wake()
        if self._thread.ident is not None:
            self._thread.join(STOP_PATIENCE_S)
        if self._snapshots is not None:
            self._snapshots.close()
