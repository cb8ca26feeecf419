"""What 10,000 live tasks cost, for docs/growing.md: series, scrape, memory, and room on disk.

`python bench/bench_growth.py` writes ledgers, runs a real exporter on each and a real Prometheus that scrapes it, and
prints the tables. It reports and never fails.
"""

import json
import random
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from serving import Exporter, free_port, ours

SIZES = (0, 10_000, 50_000)
MODES = ("all", "worst:1000", "none")
LINES_PER_TASK = 12
SCRAPES = 6
DISK_TASKS = 500
DISK_SCRAPES = 4 * 60
SCRAPE_MS = 15_000
PER_DAY = 24 * 3600 * 1000 // SCRAPE_MS
LANES = ("free", "spot-us-east-1", "paid")


def write_live_tasks(path: Path, tasks: int, now_ms: int) -> None:
    """Tasks that run now: an enqueue, an admission, checkpoints and heartbeats."""
    with path.open("w", encoding="utf-8") as file:
        for step in range(LINES_PER_TASK):
            for number in range(tasks):
                named = {"task_id": f"eval-suite-{number:07d}", "lane": LANES[number % 3], "run": "nightly-eval"}
                named["id"] = f"{step:x}-{number:x}"
                file.write(
                    json.dumps({**_event(step, number), **named, "ts_ms": now_ms - 60_000 + step * 5_000}) + "\n"
                )


def _event(step: int, number: int) -> dict[str, object]:
    if step == 0:
        limits = {"deadline_ms": 18_000_000, "task_budget": 40_000}
        return {"event": "enqueue", **limits, "prompt_tokens": 800 + number % 200, "target_tokens": 4_000}
    if step == 1:
        return {"event": "admit", "queue_age_ms": 5_000, "deadline_slack_ms": 17_995_000, "preempts": 0}
    if step % 3:
        return {"event": "heartbeat", "output_tokens": step * 20, "next_within_ms": 60_000}
    return {"event": "checkpoint", "checkpoint_tokens": step * 20, "next_within_ms": 60_000}


def cost_of(tasks: int, mode: str, folder: Path) -> tuple[str, ...]:
    """A row: the exporter and Prometheus on that many live tasks."""
    ledger = folder / f"{tasks}.jsonl"
    if not ledger.exists():
        write_live_tasks(ledger, tasks, time.time_ns() // 1_000_000)
    with ours(str(ledger), f"--task.series={mode}") as exporter:
        exporter.scrape()
        begun_s = time.monotonic()
        body = exporter.scrape()
        scrape_s = time.monotonic() - begun_s
        series = sum(not line.startswith(b"#") for line in body.splitlines())
        with prometheus(exporter, folder / f"{tasks}-{mode}") as (process, _):
            theirs = _resident_bytes(process)
        return (
            f"{tasks:,}",
            f"`{mode}`",
            f"{series:,}",
            f"{len(body) / 1e6:.1f} MB",
            f"{scrape_s * 1000:.0f} ms",
            f"{exporter.resident_bytes() / 1e6:.0f} MB",
            f"{theirs / 1e6:.0f} MB",
            f"{ledger.stat().st_size / 1e6:.1f} MB",
        )


@contextmanager
def prometheus(exporter: Exporter, folder: Path) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """A Prometheus that has scraped this exporter a few times."""
    folder.mkdir()
    port = free_port()
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 2s, scrape_timeout: 2s}\nscrape_configs: [{job_name: preempt-exporter, "
        f"static_configs: [{{targets: ['127.0.0.1:{exporter.port}']}}]}}]\n",
        encoding="utf-8",
    )
    words = ["prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"]
    words.append(f"--web.listen-address=127.0.0.1:{port}")
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            url = f"http://127.0.0.1:{port}/api/v1/query?query=sum(count_over_time(up[1h]))"
            give_up_s = time.monotonic() + 120
            while time.monotonic() < give_up_s and _number(url) < SCRAPES:
                time.sleep(0.5)
            yield process, url
        finally:
            process.terminate()
            process.wait()


def _number(url: str) -> float:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            found = json.load(answer)["data"]["result"]
    except OSError:
        return 0.0
    return float(found[0]["value"][1]) if found else 0.0


def _resident_bytes(process: "subprocess.Popen[bytes]") -> int:
    return int(Path(f"/proc/{process.pid}/statm").read_text(encoding="ascii").split()[1]) * 4096


def bytes_per_sample(folder: Path) -> float:
    """What a sample of a task's series takes in Prometheus' blocks: an hour of scrapes with a few ms of jitter."""
    draws = random.Random(7)
    stamps = [at * SCRAPE_MS + draws.randrange(5) for at in range(DISK_SCRAPES)]
    constant = {"restart_tokens": 840, "preempts": 1, "task_budget": 40_000, "deadline_ms": 18_000_000}
    text = folder / "hour.om"
    samples = 0
    with text.open("w", encoding="utf-8") as file:
        for name in (
            "queue_age_ms",
            "deadline_slack_ms",
            "checkpoint_tokens",
            "preempt_task_restart_cost_ms",
            *constant,
        ):
            file.write(f"# TYPE {name} gauge\n")
            for number in range(DISK_TASKS):
                labels = f'{{task_id="eval-suite-{number:07d}",lane="free",run="nightly-eval",job="j",instance="i"}}'
                for stamp in stamps:
                    tokens = stamp // 60_000 * 100
                    ageing = {"queue_age_ms": stamp + number, "deadline_slack_ms": 18_000_000 - stamp - number}
                    ageing |= {"checkpoint_tokens": tokens, "preempt_task_restart_cost_ms": 300_000 - tokens}
                    file.write(f"{name}{labels} {(ageing | constant)[name]} {1_795_956_000 + stamp / 1000:.3f}\n")
                    samples += 1
        file.write("# EOF\n")
    blocks = folder / "blocks"
    words = ["promtool", "tsdb", "create-blocks-from", "openmetrics", text, blocks]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return sum(path.stat().st_size for path in blocks.rglob("*") if path.is_file()) / samples


def main() -> None:
    """Measure and print."""
    print("| live tasks | `--task.series` | series | scrape | in | exporter | Prometheus | ledger |")
    print("| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory(prefix="preempt-bench-") as name:
        folder = Path(name)
        for tasks in SIZES:
            for mode in MODES if tasks else MODES[:1]:
                print("| " + " | ".join(cost_of(tasks, mode, folder)) + " |", flush=True)
        each = bytes_per_sample(folder)
        day = each * 8 * PER_DAY
        print(f"\n{each:.2f} bytes a sample in Prometheus' blocks: a task whose 8 series live for a day takes")
        print(f"{day / 1e3:.0f} kB, 10,000 of them {day * 1e4 / 1e9:.1f} GB a day; 1,000 {day * 1e3 / 1e6:.0f} MB.")


if __name__ == "__main__":
    sys.exit(main())
