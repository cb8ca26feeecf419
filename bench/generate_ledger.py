"""Write a ledger such as a night of preemptible batch work leaves behind: `python bench/generate_ledger.py FILE`.

Tasks are enqueued, admitted, send heartbeats, checkpoint, are preempted and admitted again, and complete or are
drained, many at a time in interleaved order. The last line is of now, so that what runs is live when it is read; the
same arguments, `--start-ms` among them, give the same bytes.
"""

import argparse
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path

STEP_MS = 5
LANES = ("free", "paid")


def start_ms_for(lines: int) -> int:
    """When the first of so many lines was written whose last is of now."""
    return time.time_ns() // 1_000_000 - STEP_MS * lines


def task_lines(task: int, lines: int, rng: random.Random) -> Iterator[dict[str, object]]:
    """Around `lines` lines of one task, without stamps; the last ones end its life unless `lines` runs out first."""
    lane = LANES[task % 4 == 0]
    named = {"task_id": f"task-{task:06d}", "lane": lane, "run": "nightly"}
    yield {
        "event": "enqueue",
        **named,
        "deadline_ms": 18_000_000,
        "task_budget": 40_000,
        "prompt_tokens": 800,
        "target_tokens": 4_000,
    }
    admit = {"event": "admit", **named, "queue_age_ms": 0, "deadline_slack_ms": 18_000_000, "preempts": 0}
    yield admit
    checkpoint = preempts = restart_tokens = 0
    for step in range(lines - 3):
        if rng.random() < 0.01:
            wasted = 800 + rng.randrange(200)
            preempts += 1
            restart_tokens += wasted
            yield {
                "event": "preempt",
                **named,
                "host": f"spot-{rng.randrange(50)}",
                "wasted_tokens": wasted,
                "restart_tokens": restart_tokens,
                "preempts": preempts,
            }
            yield {**admit, "preempts": preempts}
        elif step % 4 == 3:
            checkpoint += 20
            yield {"event": "checkpoint", **named, "checkpoint_tokens": checkpoint, "next_within_ms": 60_000}
        else:
            yield {"event": "heartbeat", **named, "output_tokens": checkpoint + step % 20, "next_within_ms": 60_000}
    if preempts > 3:
        yield {"event": "drain", **named, "action": "fail_task_not_replay"}
    else:
        yield {"event": "complete", **named, "output_tokens": checkpoint, "restart_tokens": restart_tokens}


def ledger_lines(total: int, tasks: int, start_ms: int, live: int = 2_000, first_task: int = 0) -> Iterator[bytes]:
    """`total` lines over `tasks` tasks of which about `live` run at the same time, with `id` and `ts_ms`."""
    rng = random.Random(1)
    waiting = iter(range(first_task, first_task + tasks))
    running = [task_lines(task, total // tasks, rng) for task, _ in zip(waiting, range(live), strict=False)]
    for number in range(total):
        line = None
        while line is None:
            slot = rng.randrange(len(running))
            line = next(running[slot], None)
            if line is None:
                running[slot] = task_lines(next(waiting, first_task + tasks + number), total // tasks, rng)
        yield json.dumps({**line, "ts_ms": start_ms + STEP_MS * number, "id": f"h1-{number:x}"}).encode() + b"\n"


def write_ledger(
    path: Path, total: int, tasks: int, live: int = 2_000, first_task: int = 0, start_ms: int | None = None
) -> None:
    """Write the ledger to `path`."""
    start_ms = start_ms_for(total) if start_ms is None else start_ms
    with path.open("wb", buffering=1 << 20) as file:
        file.writelines(ledger_lines(total, tasks, start_ms, live, first_task))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--lines", type=int, default=2_000_000)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--live", type=int, default=2_000, help="tasks running at the same time")
    parser.add_argument("--start-ms", type=int, help="the first line's moment; default: so that the last is of now")
    arguments = parser.parse_args()
    write_ledger(arguments.file, arguments.lines, arguments.tasks, arguments.live, start_ms=arguments.start_ms)
