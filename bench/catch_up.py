"""What the exporter does until it has caught up, and nothing beside it: `python bench/catch_up.py LEDGER`."""

import resource
import sys
from pathlib import Path

from preempt_exporter.clock import SystemClock
from preempt_exporter.ledger.decode import decode_chunk
from preempt_exporter.settings import LaneSettings, TaskSettings
from preempt_exporter.state.watched import Watched
from preempt_exporter.tail.follow import Tail

READ_BYTES = 1 << 23


def read_and_fold(path: Path) -> Watched:
    """Tail, decode, fold."""
    clock = SystemClock()
    watched = Watched(TaskSettings(), LaneSettings())
    tail = Tail([str(path)], clock=clock)
    tail.scan()
    while not tail.caught_up():
        for chunk in tail.read(READ_BYTES):
            watched.fold(decode_chunk(chunk.data).records, chunk.ledger, clock.now_ms())
    tail.close()
    return watched


if __name__ == "__main__":
    state = read_and_fold(Path(sys.argv[1]))
    lines = sum(sum(lane.events.values()) for lane in state.figures.lanes.values())
    print(f"{lines} lines, {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")
