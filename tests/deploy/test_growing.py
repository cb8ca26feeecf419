"""docs/growing.md: its arithmetic of series is the exporter's, and the shipped limits leave room for it."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.running_exporter import told

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "growing.md").read_text(encoding="utf-8")


def lines(now_ms: int, tasks: int, lanes: int, runs: int) -> Iterator[dict[str, object]]:
    """Work that has every series there is: tasks with all figures known, attempts, runs with budget and hand-over."""
    for number in range(runs):
        limits = {"budget_tokens": 10_000, "deadline_ms": 3_600_000, "tasks": 50}
        yield {"event": "run_open", "run": f"run-{number}", "ts_ms": now_ms, **limits}
        done = {"event": "complete", "task_id": "done", "output_tokens": 1, "restart_tokens": 0}
        yield {**done, "run": f"run-{number}", "lane": "lane-0", "ts_ms": now_ms + 1_000}
    for number in range(lanes):
        attempt = {"job_id": "j", "attempt": 1, "enqueue_s": 0, "start_s": 1, "end_s": 2, "interventions": 0}
        yield {**attempt, "lane": f"lane-{number}", "outcome": "ok", "tokens_in": 1, "tokens_out": 1}
        enqueue = {"event": "enqueue", "task_id": f"ended-{number}", "lane": f"lane-{number}", "ts_ms": now_ms}
        yield enqueue
        yield {**enqueue, "event": "complete", "output_tokens": 1, "restart_tokens": 0}
    for number in range(tasks):
        named = {"task_id": f"t-{number}", "lane": f"lane-{number % lanes}", "run": "run-0"}
        limits = {"deadline_ms": 10**12, "task_budget": 1_000, "prompt_tokens": 10, "target_tokens": 100}
        yield {"event": "enqueue", **named, **limits, "ts_ms": now_ms}
        yield {"event": "admit", **named, "ts_ms": now_ms, "queue_age_ms": 0, "deadline_slack_ms": 1, "preempts": 0}
        for step in (1, 2):
            yield {"event": "checkpoint", **named, "ts_ms": now_ms + step * 1_000, "checkpoint_tokens": step * 20}


def series(folder: Path, tasks: int, lanes: int, runs: int) -> int:
    """How many samples a scrape has then."""
    now_ms = time.time_ns() // 1_000_000 - 60_000  # rates are those of the last hour
    ledger, scrape = folder / "l.jsonl", folder / "scrape.prom"
    ledger.write_text("".join(json.dumps(line) + "\n" for line in lines(now_ms, tasks, lanes, runs)), encoding="utf-8")
    done = told("export", ledger, "--textfile", scrape, "--lane.default=lane-0")
    assert done.returncode == 0, done.stderr
    return sum(not line.startswith("#") for line in scrape.read_text(encoding="utf-8").splitlines())


@pytest.fixture
def coefficients() -> tuple[int, int, int, int]:
    """What the page says: a base, and so many per task, lane and run."""
    found = re.search(r"(\d+)  \+  (\d+) x tasks with series  \+  (\d+) x lanes  \+  (\d+) x runs", PAGE)
    assert found
    base, task, lane, run = map(int, found.groups())
    return base, task, lane, run


def test_arithmetic_is_the_exporters(tmp_path: Path, coefficients: tuple[int, int, int, int]) -> None:
    """One more task, lane or run makes as many more series as the page says, and the base is no larger."""
    base, task, lane, run = coefficients
    first = series(tmp_path, 2, 1, 1)
    assert series(tmp_path, 3, 1, 1) - first == task
    assert series(tmp_path, 2, 2, 1) - first == lane
    assert series(tmp_path, 2, 1, 2) - first == run
    assert first == base + 2 * task + lane + run


def test_shipped_limits_leave_room(coefficients: tuple[int, int, int, int]) -> None:
    """No configuration that is shipped refuses what the default can make."""
    base, task, lane, run = coefficients
    most = base + task * 1_000 + (lane + run) * 101
    assert f"{most:,}" in PAGE
    texts = [
        (ROOT / "deploy" / name).read_text("utf-8") for name in ("prometheus/prometheus.yml", "compose/prometheus.yml")
    ]
    limits = [job["sample_limit"] for text in texts for job in yaml.safe_load(text)["scrape_configs"]]
    monitor = yaml.safe_load((ROOT / "deploy" / "kubernetes" / "monitoring.yml").read_text(encoding="utf-8"))
    assert all(limit >= most for limit in [*limits, monitor["spec"]["sampleLimit"]])
