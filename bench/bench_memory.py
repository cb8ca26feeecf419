"""Resident memory over finished tasks: does it grow with what is over?"""

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from measure import Result
from preempt_exporter.ledger.records import Admit, Complete, Enqueue, Record
from preempt_exporter.settings import LaneSettings, TaskSettings
from preempt_exporter.state.watched import Watched

START_MS = 1_795_956_000_000
BATCH = 1_000
FIRST_LOOK = 200_000
FINISHED = 1_000_000


def finished_tasks(first: int, count: int) -> Iterator[Record]:
    """Tasks that were enqueued, admitted and completed, each with an id on every line."""
    for number in range(first, first + count):
        named = {"task_id": f"task-{number:08d}", "lane": "free", "ts_ms": START_MS + number}
        yield Enqueue(**named, deadline_ms=18_000_000, task_budget=1000, id=f"e{number:x}")
        yield Admit(**named, queue_age_ms=0, deadline_slack_ms=1, preempts=0, id=f"a{number:x}")
        yield Complete(**named, output_tokens=200, restart_tokens=0, id=f"c{number:x}")


def flat_over_finished_tasks() -> Result:
    """1 is flat: memory after a million finished tasks over memory after the first 200,000, which fill the limit.

    In a process of its own: what other measurements left free here would be room to grow into unseen.
    """
    told = subprocess.run([sys.executable, __file__], check=True, stdout=subprocess.PIPE, text=True).stdout
    first_look, last_look, lives_kept = map(int, told.split())
    note = f"{last_look >> 20} MiB resident, {lives_kept:,} lives kept"
    return Result(
        "memory after 1,000,000 finished tasks, against after 200,000", last_look / first_look, "<= 1.1", note
    )


def resident_after_finished_tasks() -> tuple[int, int, int]:
    """Bytes resident at the first look and at the last, and the lives kept then."""
    watched = Watched(TaskSettings(), LaneSettings())
    first_look = 0
    for first in range(0, FINISHED, BATCH):
        watched.fold(list(finished_tasks(first, BATCH)), "ledger", START_MS + FINISHED)
        if first + BATCH == FIRST_LOOK:
            first_look = resident_bytes()
    return first_look, resident_bytes(), watched.figures.lives_kept


def resident_bytes() -> int:
    """What this process holds in memory now."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    print(*resident_after_finished_tasks())
