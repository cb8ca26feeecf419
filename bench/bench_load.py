"""How the exporter bears load: scrapes while it catches up, starts from a large state, idles, and grows."""

import tempfile
import threading
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import msgspec

from bench_fold import look_up_only
from catch_up import read_and_fold
from generate_ledger import ledger_lines, start_ms_for, write_ledger
from measure import ROUNDS, Result, ratio_in_turn, seconds_of
from preempt_exporter.clock import SystemClock
from preempt_exporter.ledger.records import Admit, Enqueue
from preempt_exporter.pipeline.snapshot import Snapshot, SnapshotKeeper, TailCounts
from preempt_exporter.settings import LaneSettings, TaskSettings
from preempt_exporter.state.watched import Watched
from preempt_exporter.tail.positions import Positions
from serving import Exporter, ours, p99

START_MS = 1_795_956_000_000
SCRAPES = 100
IDLE_SECONDS = 10
IDLE_FILES = 2_000
LINES_PER_TASK = 20


def scrape_while_catching_up() -> Result:
    """p99 of a scrape of 10,000 live tasks while lines pour in, against its p99 when none do."""
    with tempfile.TemporaryDirectory(prefix="preempt-load-") as folder:
        ledger = Path(folder) / "ledger.jsonl"
        endless = ledger_lines(10_000_000, 10_000, start_ms_for(500_000), live=10_000)  # 1,000 a task: none ends here
        ledger.write_bytes(b"".join(islice(endless, 100_000)))
        lines = b"".join(islice(endless, 400_000))
        with ours(str(ledger), "--task.series=all") as exporter:
            idle, samples_idle = _scrape_times(exporter, SCRAPES), exporter.scrape().count(b"\n")
            stop = threading.Event()
            writer = threading.Thread(target=_pour, args=(ledger, lines, stop))
            writer.start()
            busy, samples_busy = _scrape_times(exporter, SCRAPES), exporter.scrape().count(b"\n")
            stop.set()
            writer.join()
    median = sorted(busy)[SCRAPES // 2] / sorted(idle)[SCRAPES // 2]
    note = f"median {median:.1f} times; {samples_idle:,} lines idle, {samples_busy:,} busy"
    return Result("p99 of a scrape while catching up, against idle", p99(busy) / p99(idle), "<= 3", note)


def _pour(ledger: Path, lines: bytes, stop: threading.Event) -> None:
    """Keep the reader behind: half a megabyte at a time, without a pause, and over again."""
    step, position = 1 << 19, 0
    with ledger.open("ab", buffering=0) as file:
        while not stop.wait(0.01):
            file.write(lines[position : position + step])
            position = (position + step) % len(lines)


def _scrape_times(exporter: Exporter, count: int) -> list[float]:
    return [_timed(exporter.scrape) for _ in range(count)]


def _timed(work: Callable[[], object]) -> float:
    begun_s = time.monotonic()
    work()
    return time.monotonic() - begun_s


def start_from_snapshot() -> Result:
    """Loading a state of 100,000 tasks, against msgspec's bare decode of the file."""
    watched = Watched(TaskSettings(), LaneSettings())
    for number in range(100_000):
        named = {"task_id": f"task-{number:06d}", "lane": "free", "run": "nightly", "ts_ms": START_MS}
        watched.fold(
            [
                Enqueue(**named, deadline_ms=18_000_000, task_budget=40_000, id=f"e{number:x}"),
                Admit(**named, queue_age_ms=0, deadline_slack_ms=1, preempts=0, id=f"a{number:x}"),
            ],
            "ledger",
            START_MS,
        )
    with tempfile.TemporaryDirectory(prefix="preempt-state-") as folder:
        path = Path(folder) / "state"
        keeper = SnapshotKeeper(path, SystemClock())
        keeper.write(Snapshot(watched.figures, Positions(), TailCounts()), threading.Lock())
        body = path.read_bytes().partition(b"\n")[2]
        ratio = ratio_in_turn(
            lambda: seconds_of(lambda: Watched(TaskSettings(), LaneSettings(), keeper.load().figures)),
            lambda: seconds_of(lambda: msgspec.msgpack.decode(body, type=Snapshot)),
        )
        keeper.close()
    note = f"{len(body) >> 20} MiB; into the same types, which index themselves in both"
    return Result("start from a state of 100,000 tasks, against msgspec's decode of it", ratio, "<= 3", note)


def idle_cost() -> Result:
    """Processor time over wall time with thousands of quiet files under a glob."""
    with tempfile.TemporaryDirectory(prefix="preempt-idle-") as folder:
        for number in range(IDLE_FILES):
            (Path(folder) / f"ledger-{number:05d}.jsonl").write_text("\n", encoding="ascii")
        with ours(f"{folder}/*.jsonl") as exporter:
            time.sleep(IDLE_SECONDS)  # what happened at the start is over
            before_s, begun_s = exporter.processor_s(), time.monotonic()
            time.sleep(IDLE_SECONDS)
            share = (exporter.processor_s() - before_s) / (time.monotonic() - begun_s)
    return Result(f"idle with {IDLE_FILES:,} files, share of a core", share, "<= 0.01", f"{IDLE_SECONDS} s")


def memory_per_live_task() -> Result:
    """Bytes of memory that each live task takes, series and all, against a kibibyte."""
    sizes: dict[int, int] = {}
    with tempfile.TemporaryDirectory(prefix="preempt-memory-") as folder:
        for tasks in (1_000, 51_000):
            lines = 8 * tasks
            endless = ledger_lines(1_000 * tasks, tasks, start_ms_for(lines), live=tasks)  # 1,000 a task: none ends
            ledger = Path(folder) / f"{tasks}.jsonl"
            ledger.write_bytes(b"".join(islice(endless, lines)))
            with ours(str(ledger), "--task.series=all") as exporter:
                sizes[exporter.scrape().count(b"\nqueue_age_ms{")] = exporter.resident_bytes()
    (few, small), (many, large) = sizes.items()
    each = (large - small) / (many - few)
    note = f"between {few:,} and {many:,} live tasks, all with series"
    return Result("memory per live task, in KiB", each / 1024, "-", note)


def growth() -> list[Result]:
    """Cost per line, per task and per file, at three sizes: 1 is linear, less is better."""
    results = []
    with tempfile.TemporaryDirectory(prefix="preempt-growth-") as folder:
        per_line = {}
        for lines in (100_000, 400_000, 1_600_000):
            ledger = Path(folder) / f"{lines}.jsonl"
            write_ledger(ledger, lines, 10_000)
            per_line[lines] = _least_seconds(read_and_fold, ledger) / lines
            ledger.unlink()
        results.append(_step("cost per line, 100,000 to 1,600,000 lines", per_line))
        per_task, least = {}, {}
        for tasks in (1_000, 10_000, 50_000):
            ledger = Path(folder) / f"{tasks}-tasks.jsonl"
            write_ledger(ledger, LINES_PER_TASK * tasks, tasks, live=tasks // 2)
            per_task[tasks] = _least_seconds(read_and_fold, ledger) / tasks
            least[tasks] = _least_seconds(look_up_only, ledger) / tasks
            ledger.unlink()
        what = f"cost per task of {LINES_PER_TASK} lines, 1,000 to 50,000 tasks"
        results.append(_step(what, per_task, f"decoding and finding the task alone {_growth(least):.2f}"))
        per_file = {}
        for files in (100, 400, 1_600):
            many = Path(folder) / f"files-{files}"
            many.mkdir()
            for number in range(files):
                write_ledger(many / f"{number}.jsonl", 200, 10, live=5, first_task=10 * number)
            per_file[files] = _least_seconds(read_and_fold, many) / files
        results.append(_step("cost per file of 200 lines, 100 to 1,600 files", per_file))
    return results


def _least_seconds(work: Callable[[Path], object], path: Path) -> float:
    """Of a few runs the one that neighbours disturbed least."""
    return min(seconds_of(lambda: work(path)) for _ in range(ROUNDS))


def _step(what: str, costs: dict[int, float], *notes: str) -> Result:
    first, middle, _ = costs.values()
    note = "; ".join((f"middle over first {middle / first:.2f}", *notes))
    return Result(what + ", last over first", _growth(costs), "about 1", note)


def _growth(costs: dict[int, float]) -> float:
    smallest, *_, largest = costs.values()
    return largest / smallest
