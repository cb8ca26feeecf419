"""`drill live` over simulated time: a valid ledger, every kind of event, totals that add up, a repeatable story."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from preempt_exporter.clock import FixedClock
from preempt_exporter.drill.live import LANES, LiveDrill
from preempt_exporter.gate.gate import Gate
from preempt_exporter.gate.settings import GateSettings
from preempt_exporter.ledger.records import TASK_EVENT_TYPES
from preempt_exporter.ledger.writer import LedgerWriter
from tests.metrics.scraping import Exporter
from tests.running_exporter import exit_status

T0_MS = 1_795_956_000_000
MINUTES = 10
TICK_S = 0.25

Line = dict[str, Any]


def played(path: Path, seed: int) -> LiveDrill:
    """Ten minutes of the drill, as fast as the disk takes them."""
    clock = FixedClock(T0_MS)
    settings = GateSettings(owner="drill", adopts=frozenset({"drill"}))
    with LedgerWriter(str(path), fsync=False) as writer:
        gate = Gate(path, writer, clock, settings=settings, instance=f"i{seed}")
        rng, tick_ms = random.Random(seed), round(TICK_S * 1000)
        drill = LiveDrill(gate, writer, clock, rng, run="demo", lanes=LANES, arrivals_per_s=2.0, tick_ms=tick_ms)
        drill.open(30 * 60_000)
        for _ in range(round(MINUTES * 60 / TICK_S)):
            clock.advance(round(TICK_S * 1000))
            drill.tick()
        drill.close()
    return drill


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("drill") / "l.jsonl"
    played(path, seed=1)
    return path


def lines_of(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_no_line_is_bad(ledger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`check` finds nothing to say about what the drill wrote."""
    assert exit_status("check", str(ledger)) == 0
    assert capsys.readouterr().out == ""


def test_every_kind_of_event_is_shown(ledger: Path) -> None:
    """All admission events, attempts of both outcomes, run open and close, over two lanes and several hosts."""
    lines = lines_of(ledger)
    events = Counter(line.get("event", "attempt") for line in lines)
    admission = {str(kind.__struct_config__.tag) for kind in TASK_EVENT_TYPES}
    assert events.keys() == admission | {"attempt", "run_open", "run_close"}
    attempts = [line for line in lines if "event" not in line]
    assert {line["outcome"] for line in attempts} == {"ok", "preempted"}
    assert {line["lane"] for line in lines if "lane" in line} == {"free", "paid"}
    assert len({line["host"] for line in lines if line.get("host")}) > 4
    assert len({line["reason"] for line in lines if line.get("event") == "reject"}) > 1


def test_totals_add_up(ledger: Path) -> None:
    """Each preemption wastes prompt + output - checkpoint; a life's totals are the sums of its preemptions."""
    wasted: Counter[str] = Counter()
    preempts: Counter[str] = Counter()
    prompts: dict[str, int] = {}
    for line in lines_of(ledger):
        if line.get("event") == "enqueue":
            prompts[line["task_id"]] = line["prompt_tokens"]
        if line.get("event") == "preempt":
            task = line["task_id"]
            assert line["wasted_tokens"] >= prompts[task]
            wasted[task] += line["wasted_tokens"]
            preempts[task] += 1
            assert (line["restart_tokens"], line["preempts"]) == (wasted[task], preempts[task])
    assert max(preempts.values()) > 1


def test_a_drained_task_was_rejected_first_and_says_nothing_more(ledger: Path) -> None:
    """`drain` follows `reject` at once, and ends the task for good."""
    lines = [line for line in lines_of(ledger) if "task_id" in line]
    drains = [index for index, line in enumerate(lines) if line["event"] == "drain"]
    assert drains
    for index in drains:
        assert (lines[index - 1]["event"], lines[index - 1]["task_id"]) == ("reject", lines[index]["task_id"])
        assert all(later["task_id"] != lines[index]["task_id"] for later in lines[index + 1 :])


def test_the_exporter_counts_what_the_drill_says_it_wrote(ledger: Path, tmp_path: Path) -> None:
    """The drill's own summary and the exporter's counters are two ways to the same numbers."""
    drill = played(tmp_path / "l.jsonl", seed=1)
    samples = Exporter().read(ledger.read_bytes(), T0_MS + MINUTES * 60_000).samples(T0_MS + MINUTES * 60_000)
    for event in ("enqueue", "admit", "reject", "drain", "preempt", "checkpoint", "heartbeat", "complete"):
        counted = [samples.value("preempt_events_total", lane=lane, event=event) or 0 for lane in ("free", "paid")]
        assert sum(counted) == drill.counts[event], event


def test_the_same_seed_tells_the_same_story(tmp_path: Path) -> None:
    """But for the ids of lines, two runs of one seed are equal and those of two seeds are not."""
    stories = []
    for number, seed in enumerate((1, 1, 2)):
        path = tmp_path / f"{number}.jsonl"
        played(path, seed)
        stories.append([{name: value for name, value in line.items() if name != "id"} for line in lines_of(path)])
    assert stories[0] == stories[1] != stories[2]
