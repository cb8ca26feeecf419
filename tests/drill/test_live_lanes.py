"""`drill live`: a batch on the real gate, at random or by a recorded trace, in virtual time."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from preempt_exporter.cli.main import main
from preempt_exporter.clock import FixedClock
from preempt_exporter.drill.hosts import Hosts, LivePlan
from preempt_exporter.drill.live import LANES, LiveDrill
from preempt_exporter.drill.spot_trace import SpotTrace, read_spot_trace
from preempt_exporter.errors import UnreadableInput
from preempt_exporter.gate.gate import Gate
from preempt_exporter.gate.settings import GateSettings
from preempt_exporter.gate.switches import SwitchFile
from preempt_exporter.ledger.records import LaneDrain
from preempt_exporter.ledger.writer import LedgerWriter

START_MS = 1_800_000_000_000
TICK_MS = 250


def drill_on(ledger: Path, clock: FixedClock, lanes: tuple[LivePlan, ...] = LANES, seed: int = 7) -> LiveDrill:
    writer = LedgerWriter(ledger, fsync=False)
    settings = GateSettings(owner="drill", adopts=frozenset({"drill"}))
    gate = Gate(ledger, writer, clock, settings=settings, instance=f"i{seed}")
    rng = random.Random(seed)
    return LiveDrill(gate, writer, clock, rng, run="r", lanes=lanes, arrivals_per_s=2.0, tick_ms=TICK_MS)


def play(ledger: Path, ticks: int, lanes: tuple[LivePlan, ...] = LANES) -> LiveDrill:
    clock = FixedClock(START_MS)
    drill = drill_on(ledger, clock, lanes)
    drill.open(60_000)
    for _ in range(ticks):
        clock.advance(TICK_MS)
        drill.tick()
    drill.close()
    return drill


def lines(ledger: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ledger.read_bytes().splitlines()]


def test_the_switch_file_is_obeyed(tmp_path: Path) -> None:
    """A lane that is drained while the drill runs admits nothing more; the other lane goes on."""
    ledger, clock = tmp_path / "l.jsonl", FixedClock(START_MS)
    drill = drill_on(ledger, clock)
    drill.open(60_000)
    for tick in range(400):
        if tick == 200:
            change = LaneDrain(lane="free", action="drain_and_reject", ts_ms=clock.now_ms())
            SwitchFile(ledger).change(change, LedgerWriter(ledger))
        clock.advance(TICK_MS)
        drill.tick()
    written = lines(ledger)
    after = written[[line.get("event") for line in written].index("lane_drain") :]
    assert {line["lane"] for line in after if line.get("event") == "admit"} == {"paid"}
    assert {line["reason"] for line in after if line.get("event") == "reject" and line["lane"] == "free"} == {
        "drain_mode"
    }
    words = Counter(line.get("event") for line in written)
    assert {word: drill.counts.get(word, 0) for word in ("preempt", "reject", "drain")} == {
        word: words[word] for word in ("preempt", "reject", "drain")
    }


def test_a_fall_in_the_trace_is_a_preemption(tmp_path: Path) -> None:
    """Where the count falls to none, every running task of the lane is preempted then, and starts when it rises."""
    trace = SpotTrace(10.0, [2, 2, 0, 2, 2])
    lane = LivePlan(name="free", hosts=1, slots_per_host=3, share=1.0, trace=trace)
    play(tmp_path / "l.jsonl", 160, (lane,))
    moments = {"preempt": set(), "admit": set()}
    for line in lines(tmp_path / "l.jsonl"):
        if line.get("event") in moments:
            moments[line["event"]].add((line["ts_ms"] - START_MS) / 1000)
    assert moments["preempt"] == {20.0}
    assert any(moment < 20 for moment in moments["admit"])
    assert min(moment for moment in moments["admit"] if moment >= 20) == 30.0


def test_a_partial_fall_takes_as_many_hosts() -> None:
    """From 4 to 1 three hosts go; from 1 to 3 two come; beyond the trace its last count holds."""
    hosts = Hosts(
        LivePlan(name="x", hosts=1, slots_per_host=1, share=1, trace=SpotTrace(1, [4, 1, 3])), random.Random(1)
    )
    before = set(hosts.names())
    lost = hosts.pass_time(1, 1)
    assert (len(before), len(lost), set(lost) < before) == (4, 3, True)
    assert (hosts.pass_time(2, 1), len(hosts.names())) == ([], 3)
    assert (hosts.pass_time(99, 97), len(hosts.names())) == ([], 3)


def test_hosts_are_lost_at_their_rate() -> None:
    """At 3600 an hour a host is lost in a second with probability 1 - 1/e; it is replaced at once."""
    hosts = Hosts(
        LivePlan(name="x", hosts=10_000, slots_per_host=1, share=1, preemptions_per_hour=3600), random.Random(1)
    )
    assert len(hosts.pass_time(1, 1)) == pytest.approx(6321, rel=0.02)
    assert len(hosts.names()) == 10_000


def test_six_weeks_pass_on_a_virtual_clock(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A trace of 45 days plays to its end, with its ledger's last line about now and its first 45 days before."""
    counts = [1, 1, 1, 1, 1, 0] * 120
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps({"metadata": {"gap_seconds": 5400}, "data": counts, "prices": [0.1]}))
    ledger = tmp_path / "l.jsonl"
    assert (
        main(["drill", "live", "--ledger", str(ledger), "--trace", str(trace), "--clock", "virtual", "--seed", "3"])
        == 0
    )
    written = lines(ledger)
    assert (written[-1]["ts_ms"] - written[0]["ts_ms"]) == 45 * 86_400_000
    assert any(line.get("event") == "preempt" for line in written)
    assert "preempt" in capfd.readouterr().out
    assert main(["check", str(ledger)]) == 0


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"data":[1]}',
        '{"metadata":{"gap_seconds":0},"data":[1]}',
        '{"metadata":{"gap_seconds":1},"data":[]}',
        '{"metadata":{"gap_seconds":1},"data":[-1]}',
        '{"metadata":{"gap_seconds":1},"data":["1"]}',
    ],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, content: str) -> None:
    """A file of another form is named and refused."""
    path = tmp_path / "trace.json"
    path.write_text(content)
    with pytest.raises(UnreadableInput, match=r"trace\.json"):
        read_spot_trace(str(path))


@pytest.mark.parametrize(
    "words",
    [
        ["--clock", "virtual"],
        ["--lane", "free:slots=x"],
        ["--lane", "free,hosts=4", "--seconds", "0"],
        ["--lane", "hosts=4", "--seconds", "0"],
        ["--lane", "free:hosts=4,hosts=2", "--seconds", "0"],
        ["--lane", "a", "--lane", "a"],
        ["--lane", "a:share=0"],
        ["--tick", "0"],
        ["--seconds", "-1"],
    ],
)
def test_contradictions_are_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str], words: list[str]) -> None:
    """What cannot be played is one line and status 2, and nothing is written."""
    try:
        status = main(["drill", "live", "--ledger", str(tmp_path / "l.jsonl"), *words])
    except SystemExit as error:
        status = int(str(error.code))
    assert (status, capfd.readouterr().err.count("\n")) == (2, 1)
    assert not (tmp_path / "l.jsonl").exists()
