"""`undone`: what to submit again, and nothing that was ever done."""

import json
from pathlib import Path

import pytest

from preempt_exporter.cli.main import main

HOUR_MS = 3_600_000


def line(event: str, task: str, ts_ms: int, **more: object) -> str:
    return json.dumps({"event": event, "task_id": task, "ts_ms": ts_ms, **more}) + "\n"


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("LEDGER_PATH", "DEADLINE_MS"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "l.jsonl"
    end = {"output_tokens": 1, "restart_tokens": 0}
    path.write_text(
        line("enqueue", "done", 1)
        + line("complete", "done", 2, **end)
        + line("reject", "turned-away", 9, reason="queue_age", run="r")
        + line("enqueue", "failed", 3)
        + line("drain", "failed", 5, action="fail_task_not_replay")
        + line("complete", "failed", 6, **end)
        + line("complete", "done-once", 3, **end)
        + line("enqueue", "done-once", 4)
        + line("drain", "done-once", 5, action="fail_task_not_replay")
        + line("reject", "after-all", 4, reason="drain_mode")
        + line("complete", "after-all", 5, **end)
        + line("enqueue", "silent", 2, deadline_ms=1000)
        + line("enqueue", "waiting", 2 * HOUR_MS, deadline_ms=HOUR_MS)
    )
    return path


def test_ids_in_the_order_of_their_ends(ledger: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Rejected, drained and abandoned ones; neither live ones nor what a life of completed, late words included."""
    assert main(["undone", str(ledger), "--now-ms", str(2 * HOUR_MS)]) == 0
    assert capfd.readouterr().out == "failed\nturned-away\nsilent\n"


def test_as_objects_of_one_run(ledger: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """`--json` says why and how far it got; `--run` keeps one run's."""
    assert main(["undone", str(ledger), "--now-ms", str(2 * HOUR_MS), "--json", "--run", "r"]) == 0
    assert json.loads(capfd.readouterr().out) == [
        {
            "task_id": "turned-away",
            "run": "r",
            "lane": "default",
            "state": "rejected",
            "reason": "queue_age",
            "preempts": 0,
            "restart_tokens": 0,
            "checkpoint_tokens": 0,
            "ended_ms": 9,
        }
    ]


def test_beyond_what_the_exporter_keeps(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """No task is forgotten for want of room."""
    path = tmp_path / "l.jsonl"
    path.write_text("".join(line("reject", f"t{n}", n, reason="queue_age") for n in range(50)))
    assert main(["undone", str(path), "--task.limit=10", "--now-ms", "1000"]) == 0
    assert len(capfd.readouterr().out.splitlines()) == 50


def test_an_empty_folder_has_nothing_undone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing there is nothing to do; a named path that is not there is an error."""
    assert main(["undone", str(tmp_path), "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == []
    assert main(["undone", str(tmp_path / "no.jsonl")]) == 2
