"""`drill task`: the declared lab's story and numbers, line by line."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from preempt_exporter.cli.main import main
from preempt_exporter.clock import FixedClock
from preempt_exporter.drill.task import TaskDrill, TaskStory
from preempt_exporter.gate.gate import Gate
from preempt_exporter.gate.settings import GateSettings
from preempt_exporter.gate.switches import SwitchFile
from preempt_exporter.ledger.decode import decode_chunk
from preempt_exporter.ledger.records import LaneDrain
from preempt_exporter.ledger.writer import LedgerWriter
from preempt_exporter.settings import TaskDefaults
from tests.wrapper.wrapped import COMMAND, environment, wait_until

LIMITS = TaskDefaults(deadline_ms=120_000)
VARIABLES = ("SIMULATE_PREEMPT", "DEADLINE_MS", "TASK_BUDGET", "QUEUE_AGE_FRAC", "RESTART_FRAC", "MAX_PREEMPTS")


class Played:
    """Plays the drill on one ledger and gives the lines that it printed."""

    def __init__(self, ledger: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
        self.ledger = ledger
        self._capfd = capfd
        for name in (*VARIABLES, "ADMIT_MODE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("LEDGER_PATH", str(ledger))

    def __call__(self, *flags: str) -> list[dict[str, Any]]:
        assert main(["drill", "task", "--tick", "1ms", *flags]) == 0
        return [json.loads(line) for line in self._capfd.readouterr().out.splitlines()]


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Played:
    return Played(tmp_path / "l.jsonl", monkeypatch, capfd)


def told(lines: list[dict[str, Any]], *fields: str) -> list[tuple[Any, ...]]:
    """Each line's event and those of `fields` that it has."""
    return [(line["event"], *(line[field] for field in fields if field in line)) for line in lines]


def test_without_preemption(play: Played) -> None:
    """Admit, checkpoints at 100 and 200, complete without restart tokens; what is printed is what the ledger has."""
    lines = play()
    assert told(lines, "checkpoint_tokens", "output_tokens", "restart_tokens") == [
        ("admit",),
        ("checkpoint", 100),
        ("checkpoint", 200),
        ("complete", 200, 0),
    ]
    admit = lines[0]
    assert (admit["queue_age_ms"], admit["deadline_slack_ms"], admit["preempts"]) == (0, 120_000, 0)
    assert (admit["deadline_ms"], admit["task_budget"]) == (120_000, 1000)
    assert (admit["prompt_tokens"], admit["target_tokens"]) == (800, 200)
    decoded = decode_chunk(play.ledger.read_bytes())
    assert (len(decoded.records), decoded.bad) == (4, [])
    assert [json.loads(line) for line in play.ledger.read_bytes().splitlines()] == lines


def test_a_slot_lost_in_a_lane_that_was_drained_meanwhile_ends_the_story(tmp_path: Path) -> None:
    """The task failed with its preemption, and the drill begins no new life of it."""
    ledger, clock = tmp_path / "l.jsonl", FixedClock(1_800_000_000_000)
    with LedgerWriter(ledger, fsync=False) as writer:
        gate = Gate(ledger, writer, clock, settings=GateSettings(defaults=LIMITS), instance="i")

        def drain_the_lane(_seconds: float) -> None:
            SwitchFile(ledger).change(LaneDrain(lane="free", action="drain_and_reject"), writer)

        assert TaskDrill(gate, clock, TaskStory(preemptions=1), wait_s=drain_the_lane).play() == "drained"
    words = [json.loads(line)["event"] for line in ledger.read_bytes().splitlines()]
    assert words == ["admit", "lane_drain", "lane_drain", "preempt", "reject", "drain"]


def test_with_preemption(play: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ticks in, 840 tokens are lost; that is more than a fifth of the budget, so the task fails."""
    monkeypatch.setenv("SIMULATE_PREEMPT", "1")
    lines = play()
    assert told(lines, "wasted_tokens", "reason", "restart_tokens", "preempts", "task_budget", "action") == [
        ("admit", 0, 1000),
        ("preempt", 840, 840, 1),
        ("reject", "restart_tokens", 840, 1, 1000),
        ("drain", "fail_task_not_replay"),
    ]


@pytest.mark.parametrize(
    ("variables", "events"),
    [
        ({"RESTART_FRAC": "2"}, ["admit", "preempt", "admit", "checkpoint", "checkpoint", "complete"]),
        ({"RESTART_FRAC": "0.84"}, ["admit", "preempt", "admit", "checkpoint", "checkpoint", "complete"]),
        ({"RESTART_FRAC": "0.839"}, ["admit", "preempt", "reject restart_tokens", "drain"]),
        ({"TASK_BUDGET": "4200"}, ["admit", "preempt", "admit", "checkpoint", "checkpoint", "complete"]),
        ({"TASK_BUDGET": "4199"}, ["admit", "preempt", "reject restart_tokens", "drain"]),
        ({"MAX_PREEMPTS": "1"}, ["admit", "preempt", "reject preempt_budget", "drain"]),
        ({"MAX_PREEMPTS": "0"}, ["enqueue", "reject preempt_budget"]),
        ({"ADMIT_MODE": "reject_preempt_budget"}, ["enqueue", "reject preempt_budget"]),
        ({"DEADLINE_MS": "0"}, ["enqueue", "reject slack_zero"]),
        ({"QUEUE_AGE_FRAC": "0"}, ["admit", "preempt", "reject queue_age", "drain"]),
    ],
)
def test_variables_change_the_outcome(
    play: Played, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], events: list[str]
) -> None:
    """Each threshold's variable decides as the policy says, on both sides of its boundary."""
    for name, value in {"SIMULATE_PREEMPT": "1", **variables}.items():
        monkeypatch.setenv(name, value)
    lines = play("--tick", "2ms")
    assert [f"{line['event']} {line.get('reason', '')}".strip() for line in lines] == events


def test_numbers_are_flags(play: Played) -> None:
    """Prompt, output, tick, checkpoint, deadline, budget and losses can each be said on the command line."""
    lines = play(
        *("--prompt-tokens", "10", "--output-tokens", "9", "--tokens-per-tick", "3", "--checkpoint-every", "3"),
        *("--deadline-ms", "60000", "--budget", "500", "--preemptions", "1", "--preempt-after-ticks", "1"),
    )
    assert told(lines, "checkpoint_tokens", "wasted_tokens") == [
        ("admit",),
        ("checkpoint", 3),
        ("preempt", 10),
        ("admit",),
        ("checkpoint", 6),
        ("checkpoint", 9),
        ("complete",),
    ]
    assert (lines[0]["deadline_ms"], lines[0]["task_budget"]) == (60_000, 500)


def test_the_drill_can_be_played_again(play: Played) -> None:
    """A task that an earlier drill completed or drained starts a new life."""
    assert [line["event"] for line in play("--preemptions", "1")][-1] == "drain"
    assert [line["event"] for line in play()] == ["admit", "checkpoint", "checkpoint", "complete"]


@pytest.mark.parametrize("kill", ["stop", "kill"])
def test_a_real_loss_is_found_by_silence(play: Played, kill: str) -> None:
    """A worker process that is frozen or killed is declared lost when its promise is broken, and goes the same way."""
    lines = play("--kill", kill, "--next-within", "1s", "--tick", "20ms")
    assert [line["event"] for line in lines if line["event"] != "heartbeat"] == ["admit", "preempt", "reject", "drain"]
    last_heard, preempt = lines[-4], lines[-3]
    assert (last_heard["output_tokens"], preempt["wasted_tokens"], preempt["inferred"]) == (40, 840, True)
    assert preempt["ts_ms"] - last_heard["ts_ms"] > 1000


def test_a_worker_lost_for_good_is_replaced(play: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the thresholds allow a restart, another worker process finishes the task."""
    monkeypatch.setenv("RESTART_FRAC", "2")
    lines = play("--kill", "kill", "--next-within", "1s", "--tick", "20ms")
    assert [line["event"] for line in lines if line["event"] != "heartbeat"] == [
        "admit",
        "preempt",
        "admit",
        "checkpoint",
        "checkpoint",
        "complete",
    ]


def test_a_killed_drill_leaves_no_worker(tmp_path: Path) -> None:
    """However the drill ends, its worker ends with it, frozen or not."""
    ledger = tmp_path / "l.jsonl"
    words = [*COMMAND, "drill", "task", "--kill", "stop", "--next-within", "1h", "--ledger", str(ledger)]
    drill = subprocess.Popen(words, stdout=subprocess.DEVNULL, env=environment(TMPDIR=str(tmp_path)))
    frozen: list[Path] = []

    def worker_is_frozen() -> bool:
        children = Path(f"/proc/{drill.pid}/task/{drill.pid}/children").read_text().split()
        frozen[:] = [Path("/proc") / pid for pid in children if "State:\tT" in Path(f"/proc/{pid}/status").read_text()]
        return bool(frozen)

    wait_until(worker_is_frozen, "the worker is frozen")
    drill.kill()
    drill.wait(30)
    wait_until(lambda: not frozen[0].exists() or "State:\tZ" in (frozen[0] / "status").read_text(), "it is gone")
