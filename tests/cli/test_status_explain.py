"""`status`: rows, the arithmetic behind them, pairs, and a table that redraws itself."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from preempt_exporter.cli.main import main

NOW = "1003000"
LINES = """\
{"event":"admit","lane":"free","ts_ms":1000000,"task_id":"a","run":"r","queue_age_ms":0,"deadline_slack_ms":120000,\
"preempts":0,"enqueued_ms":1000000,"deadline_ms":120000,"task_budget":10000,"prompt_tokens":800,"target_tokens":200}
{"event":"checkpoint","lane":"free","ts_ms":1001000,"task_id":"a","run":"r","checkpoint_tokens":100}
{"event":"preempt","lane":"free","ts_ms":1001500,"task_id":"a","run":"r","wasted_tokens":2001,"restart_tokens":2001,\
"preempts":1}
{"job_id":"a","lane":"free","run":"r","attempt":1,"enqueue_s":1000,"start_s":1001,"end_s":1061,"outcome":"preempted",\
"tokens_in":800,"tokens_out":0,"interventions":0,"ts_ms":1001500}
{"event":"enqueue","task_id":"b","ts_ms":1000000}
{"event":"reject","task_id":"c","ts_ms":1000000,"reason":"queue_age"}
"""


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("DEADLINE_MS", "TASK_BUDGET", "QUEUE_AGE_FRAC", "RESTART_FRAC", "MAX_PREEMPTS", "LEDGER_PATH"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "l.jsonl"
    path.write_text(LINES)
    return path


def said(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["status", *words]) == 0
    return capfd.readouterr().out


def test_rows_are_the_contracts(ledger: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """`--json` has every field by its name, least slack first, unknown as null."""
    first, second, third = json.loads(said(capfd, str(ledger), "--now-ms", NOW, "--json"))
    assert first == {
        "task_id": "a",
        "run": "r",
        "lane": "free",
        "action": "hold",
        "next_action": "drain_and_reject",
        "reason": None,
        "state": "preempted",
        "queue_age_ms": 3000,
        "deadline_slack_ms": 117000,
        "restart_cost_ms": 10000,
        "fits_one_more_preemption": False,
        "restart_tokens": 2001,
        "preempts": 1,
        "checkpoint_tokens": 100,
        "task_budget": 10000,
        "deadline_ms": 120000,
    }
    assert (second["task_id"], second["deadline_slack_ms"], second["fits_one_more_preemption"]) == ("b", None, None)
    assert (third["action"], third["reason"], third["queue_age_ms"]) == ("reject", "queue_age", None)


def test_the_arithmetic_is_explained(ledger: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Every number of the row, and how it came about, down to how often to checkpoint."""
    text = said(capfd, str(ledger), "--now-ms", NOW, "--explain", "a", "--checkpoint-cost", "1s")
    for part in (
        "deadline slack: deadline 2m00s - queue age 3s = 1m57s",
        "p95 wait 1 s + prompt 800 tokens / 100 a second (decode rate) + 100 tokens left after checkpoint 100",
        "= 10s",
        "prompt 800 + output 100 - checkpoint 100 = 800 tokens",
        "would then say reject_preempt_budget: it cannot be absorbed",
        "queue age 3s <= 0.5 x deadline = 1m00s",
        "restart tokens 2001 > 0.2 x budget 10000 = 2000",
        "preempts 1 < max 2",
        "a start now, from this state, would be told: reject_restart_tokens",
        "checkpoint every: 10.95 s (Young/Daly sqrt(2 x 60 s between preemptions x 1 s) = 10.95 s)",
        "next action: drain_and_reject",
    ):
        assert part in text


def test_what_is_unknown_is_said_to_be(ledger: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Where a number is missing the explanation says which, and invents none."""
    text = said(capfd, str(ledger), "--now-ms", NOW, "--explain", "b")
    for part in ("deadline slack: unknown", "prompt_tokens", "decode rate", "--checkpoint-cost"):
        assert part in text
    ended = said(capfd, str(ledger), "--now-ms", NOW, "--explain", "c")
    assert "its last decision was to reject for queue_age" in ended
    assert main(["status", str(ledger), "--explain", "nobody"]) == 2
    assert "nobody" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("now", "cost", "why"),
    [
        (
            "1111000",
            "4s",
            "no interval lets one loss fit: slack 9s <= restart cost 10s + 4 s for the checkpoint; Young",
        ),
        (
            "1108000",
            "2s",
            "no interval lets one loss fit: slack 12s <= restart cost 10s + 2 s for the checkpoint; Young",
        ),
        (NOW, "0", "as often as you like, since one is said to cost nothing; Young"),
    ],
)
def test_an_interval_of_nothing_is_no_advice(
    ledger: Path, capfd: pytest.CaptureFixture[str], now: str, cost: str, why: str
) -> None:
    """Where the arithmetic gives 0 seconds between checkpoints, the reason is said instead."""
    text = said(capfd, str(ledger), "--now-ms", now, "--explain", "a", "--checkpoint-cost", cost)
    assert f"checkpoint every: {why}" in text


ENDED_OTHERWISE = """\
{"event":"enqueue","task_id":"drained","ts_ms":1000000}
{"event":"drain","task_id":"drained","ts_ms":1000001,"action":"fail_task_not_replay"}
{"event":"reject","task_id":"refused","ts_ms":1000000,"reason":"queue_age"}
{"event":"drain","task_id":"refused","ts_ms":1000001,"action":"fail_task_not_replay"}
{"event":"complete","task_id":"done","ts_ms":1000000,"output_tokens":1,"restart_tokens":0}
{"event":"enqueue","task_id":"silent","ts_ms":1000,"deadline_ms":1000}
"""


@pytest.mark.parametrize(
    ("task", "end"),
    [
        ("drained", "it was drained, so that nothing of it is replayed\n"),
        ("refused", "it was drained, so that nothing of it is replayed; its last reject was for queue_age\n"),
        ("done", "its work is done\n"),
        ("silent", "it counts as abandoned, since no line of it came for too long\n"),
    ],
)
def test_an_end_is_told_as_what_it_was(ledger: Path, capfd: pytest.CaptureFixture[str], task: str, end: str) -> None:
    """Only a life whose last word was a reject is said to have been rejected."""
    ledger.write_text(ENDED_OTHERWISE)
    assert f"ended: it no longer waits; {end}" in said(capfd, str(ledger), "--now-ms", NOW, "--explain", task)


def test_pairs(ledger: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Age against restart tokens of live tasks, with the threshold that each is past."""
    pairs = json.loads(said(capfd, str(ledger), "--now-ms", NOW, "--pairs", "--json"))
    assert [(p["task_id"], p["queue_age_ratio"], p["restart_ratio"], p["past"]) for p in pairs] == [
        ("a", 0.025, 0.2001, "restart_tokens"),
        ("b", None, None, "none"),
    ]
    late = json.loads(said(capfd, str(ledger), "--now-ms", "1060001", "--pairs", "--json"))
    assert late[0]["past"] == "both"
    assert "20 %" in said(capfd, str(ledger), "--now-ms", NOW, "--pairs")


@pytest.mark.parametrize(
    "words",
    [
        ["--url", "http://localhost:1"],
        ["--live", "--json"],
        ["--explain", "a", "--json"],
        ["--checkpoint-cost", "dear"],
        ["--live", "--interval", "0"],
    ],
)
def test_contradictions_are_refused(ledger: Path, capfd: pytest.CaptureFixture[str], words: list[str]) -> None:
    """Flags that do not go together, or say nothing, are one line and status 2."""
    assert main(["status", str(ledger), *words]) == 2
    assert capfd.readouterr().err.count("\n") == 1


def test_live_redraws_what_is_new(ledger: Path) -> None:
    """On a terminal the table follows the ledger until it is interrupted; then the status is 0."""
    terminal, inner = pty.openpty()
    command = [sys.executable, "-m", "preempt_exporter.cli.main", "status", "--live", "--interval", "50ms", str(ledger)]
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": "200", "LINES": "40"}
    process = subprocess.Popen(command, stdin=inner, stdout=inner, stderr=inner, env=environ, start_new_session=True)
    os.close(inner)
    try:
        _read_until(terminal, b"abandoned")
        with ledger.open("a") as file:
            file.write('{"event":"enqueue","task_id":"newcomer","ts_ms":1000000}\n')
        _read_until(terminal, b"newcomer")
        process.send_signal(signal.SIGINT)
        _read_until(terminal, None)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


def test_live_in_a_pipe_is_drawn_once(ledger: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Without a terminal nothing is redrawn."""
    assert said(capfd, "--live", str(ledger)).count("next action") == 1


def _read_until(terminal: int, word: bytes | None) -> None:
    """Read until `word` was shown; None: until the program has closed its end."""
    seen, give_up_s = b"", time.monotonic() + 30
    while word is None or word not in seen:
        assert time.monotonic() < give_up_s, seen[-2000:]
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                piece = os.read(terminal, 65536)
            except OSError:  # EIO: nobody has the other end any more
                piece = b""
            if not piece:
                assert word is None, seen[-2000:]
                return
            seen += piece
