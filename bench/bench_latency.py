"""From an appended line to its sample in a scrape, rotation included, beside mtail on the same kind of line."""

import random
import tempfile
import time
from pathlib import Path

from measure import Result
from serving import Exporter, mtail, ours, p99

APPENDS = 150
ROTATE_EVERY = 25
VISIBLE_DEADLINE_S = 30
LINE = (
    '{"event": "preempt", "task_id": "seen-%05d", "lane": "free", "run": "nightly", "wasted_tokens": 1, '
    '"restart_tokens": 1, "preempts": 1, "ts_ms": %d}\n'
)


def append_to_visible(program: Path) -> Result:
    """How many times sooner (p99) our scrape shows a line than mtail's does."""
    rounds_ours, rounds_mtail = [], []
    with tempfile.TemporaryDirectory(prefix="preempt-latency-") as folder:
        our_log, their_log = Path(folder) / "ours.jsonl", Path(folder) / "mtail.jsonl"
        our_log.touch()
        their_log.touch()
        with ours(str(our_log), "--task.series=all") as us, mtail(program, their_log) as them:
            rng = random.Random(1)
            for number in range(APPENDS):
                time.sleep(rng.uniform(0.0, 0.3))  # an append at any moment of either's cadence
                rounds_ours.append(_seconds_until_visible(us, our_log, number))
                rounds_mtail.append(_seconds_until_visible(them, their_log, number))
    ours_s, theirs_s = p99(rounds_ours), p99(rounds_mtail)
    note = f"p99 {ours_s * 1000:.0f} ms against {theirs_s * 1000:.0f} ms, a rotation every {ROTATE_EVERY} lines"
    return Result("append to visible (p99), mtail's over ours", theirs_s / ours_s, ">= 5", note)


def _seconds_until_visible(exporter: Exporter, log: Path, number: int) -> float:
    if number % ROTATE_EVERY == ROTATE_EVERY - 1:
        log.rename(log.with_name(f"{log.name}.{number}"))
    with log.open("a", encoding="utf-8") as file:
        file.write(LINE % (number, time.time_ns() // 1_000_000))
    begun_s = time.monotonic()
    wanted = b"seen-%05d" % number
    while wanted not in exporter.scrape():
        if time.monotonic() - begun_s > VISIBLE_DEADLINE_S:
            break
        time.sleep(0.001)
    return time.monotonic() - begun_s
