"""Reading and folding a ledger against msgspec's bare decode of the same bytes, and against mtail."""

import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from measure import Result, ratio_in_turn, seconds_of, wall_seconds_of_command
from preempt_exporter.clock import SystemClock
from preempt_exporter.ledger.decode import decode_chunk
from preempt_exporter.ledger.records import Event
from preempt_exporter.settings import LaneSettings, TaskSettings
from preempt_exporter.state.watched import Watched
from preempt_exporter.tail.follow import Tail

PIECE_BYTES = 1 << 17
READ_BYTES = 1 << 23


def read_and_fold(path: Path) -> Watched:
    """What the exporter does until it has caught up: tail, decode, fold."""
    clock = SystemClock()
    watched = Watched(TaskSettings(), LaneSettings())
    tail = Tail([str(path)], clock=clock)
    tail.scan()
    while not tail.caught_up():
        for chunk in tail.read(READ_BYTES):
            watched.fold(decode_chunk(chunk.data).records, chunk.ledger, clock.now_ms())
    tail.close()
    return watched


def decode_bare(path: Path) -> None:
    """msgspec alone on the same bytes into the same types, in the piece size that suits it best."""
    decoder = msgspec.json.Decoder(Event)
    with path.open("rb") as file:
        for piece in _pieces(file.read()):
            decoder.decode_lines(piece)


def _pieces(data: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(data):
        end = data.rfind(b"\n", start, start + PIECE_BYTES) + 1
        yield data[start:end]
        start = end


def against_bare_decode(path: Path) -> Result:
    """Higher is better; 1 would mean that tailing and folding cost nothing."""
    ratio = ratio_in_turn(
        lambda: seconds_of(lambda: decode_bare(path)), lambda: seconds_of(lambda: read_and_fold(path))
    )
    return Result("tail + decode + fold, against bare msgspec decode", ratio, ">= 0.2", "processor time, same bytes")


def against_mtail(path: Path, program: Path) -> Result:
    """Higher is better: how many times faster than mtail in its one-shot mode, from start to end of the process."""
    mtail = ["mtail", "--one_shot", f"--progs={program}", f"--logs={path}"]
    ours = [sys.executable, __file__, str(path)]
    ratio = ratio_in_turn(lambda: wall_seconds_of_command(mtail), lambda: wall_seconds_of_command(ours), rounds=1)
    return Result("whole process catching up, against mtail's four gauges", ratio, ">= 5", "wall time, same bytes")


if __name__ == "__main__":
    state = read_and_fold(Path(sys.argv[1]))
    lines = sum(sum(lane.events.values()) for lane in state.figures.lanes.values())
    print(f"{lines} lines, {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")
