"""Reading and folding a ledger against msgspec's bare decode of the same bytes, and against mtail."""

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

import catch_up
from catch_up import read_and_fold
from measure import Result, ratio_in_turn, seconds_of, seconds_of_command, wall_seconds_of_command
from preempt_exporter.ledger.records import Event

ROUNDS = 9
"""More than elsewhere: a neighbour that empties the caches for a second costs the fold more than the bare decode."""
PIECE_BYTES = 1 << 17
"""What suits msgspec best: twice or four times less or more costs it the same, a mebibyte half as much again."""


def decode_bare(path: Path) -> None:
    """msgspec alone on the same bytes into the same types."""
    decoder = msgspec.json.Decoder(Event)
    for piece in _pieces(path):
        decoder.decode_lines(piece)


def look_up_only(path: Path) -> None:
    """The least that any fold must do: decode, find the line's task, keep one number of it."""
    decoder = msgspec.json.Decoder(Event)
    tasks: dict[str, _Newest] = {}
    for piece in _pieces(path):
        for event in decoder.decode_lines(piece):
            task = tasks.get(event.task_id)
            if task is None:
                task = tasks[event.task_id] = _Newest()
            task.ms = event.ts_ms


class _Newest:
    __slots__ = ("ms",)


def _pieces(path: Path) -> Iterator[bytes]:
    """Whole lines, read as they are due: a file held in memory as a whole would cost more to hold than to decode."""
    rest = b""
    with path.open("rb", buffering=0) as file:
        while data := file.read(PIECE_BYTES):
            data = rest + data
            end = data.rfind(b"\n") + 1
            rest = data[end:]
            yield data[:end]


def against_bare_decode(path: Path) -> Result:
    """Higher is better; 1 would mean that tailing and folding cost nothing."""
    ratio = ratio_in_turn(
        lambda: seconds_of(lambda: decode_bare(path)), lambda: seconds_of(lambda: read_and_fold(path)), rounds=ROUNDS
    )
    return Result("tail + decode + fold, against bare msgspec decode", ratio, ">= 0.3", "processor time, same bytes")


def against_mtail(path: Path, program: Path) -> Result:
    """Higher is better: how many times faster than mtail in its one-shot mode, from start to end of the process."""
    mtail = ["mtail", "--one_shot", "--logtostderr", f"--progs={program}", f"--logs={path}"]
    ours = [sys.executable, catch_up.__file__, str(path)]
    processor = ratio_in_turn(lambda: seconds_of_command(mtail), lambda: seconds_of_command(ours))
    wall = ratio_in_turn(lambda: wall_seconds_of_command(mtail), lambda: wall_seconds_of_command(ours))
    note = f"processor time, same bytes; {wall:.1f} in wall time, as mtail works on more than one core"
    return Result("whole process catching up, against mtail's four gauges", processor, ">= 8", note)
