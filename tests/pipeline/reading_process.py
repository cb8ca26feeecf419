"""A process that reads as `serve` does, without the web: module, LEDGER, STATE, SCRAPE.

It writes its scrape when told to stop, and its state every few milliseconds, so that a kill always falls near a write.
"""

import signal
import sys
import threading
from pathlib import Path

from preempt_exporter.clock import SystemClock
from preempt_exporter.metrics.scrape import Scrape
from preempt_exporter.pipeline.reader import Reader
from preempt_exporter.pipeline.snapshot import SnapshotKeeper
from preempt_exporter.settings import LaneSettings, TaskSettings, Thresholds
from preempt_exporter.state.watched import Watched
from preempt_exporter.tail.follow import Tail
from preempt_exporter.tail.watch import Watch

WRITE_EVERY_S = 0.005


def main(ledger: str, state: str, scrape: str) -> None:
    """Read until SIGTERM."""
    clock = SystemClock()
    snapshots = SnapshotKeeper(Path(state), clock, write_every_s=WRITE_EVERY_S)
    kept = snapshots.load()
    watched = Watched(TaskSettings(), LaneSettings(), kept.figures if kept else None)
    tail = Tail([ledger], clock=clock, positions=kept.positions if kept else None)
    reader = Reader(tail, Watch(clock=clock), watched, snapshots, clock, kept.tail_counts if kept else None)
    stop = threading.Event()

    def stop_at_signal(*_: object) -> None:
        stop.set()
        reader.wake()

    signal.signal(signal.SIGTERM, stop_at_signal)
    reader.run(stop)
    text = Scrape(watched, Thresholds(), "0").text(reader.reading(), clock.now_ms(), openmetrics=False)
    Path(scrape).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
