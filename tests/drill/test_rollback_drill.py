"""`drill task --rollback`: the order that is safe, and that it cannot be had otherwise."""

import subprocess
from pathlib import Path

import pytest

from preempt_exporter.drill.rollback import IN_FLIGHT, RollbackDrill, WorkerStillNeeded
from preempt_exporter.errors import UsageError
from preempt_exporter.gate.settings import GateSettings
from preempt_exporter.gate.switches import Switches, SwitchFile
from preempt_exporter.ledger.decode import decode_chunk
from preempt_exporter.ledger.records import LaneDrain
from preempt_exporter.ledger.writer import LedgerWriter
from preempt_exporter.settings import TaskDefaults
from tests.gate.gates import name_of


def drill_on(folder: Path, said: list[str]) -> RollbackDrill:
    ledger = folder / "l.jsonl"
    settings = GateSettings(owner="drill", adopts=frozenset({"drill"}), defaults=TaskDefaults(deadline_ms=60_000))
    return RollbackDrill(ledger, LedgerWriter(ledger, fsync=False), settings, folder / "config", said.append)


def test_the_steps_stand_on_the_ledger_in_order(tmp_path: Path) -> None:
    """Mode, then saved or failed, then the flag, then the kills, then all of it back; the threshold is as committed."""
    said: list[str] = []
    drill_on(tmp_path, said).play()
    records = decode_chunk((tmp_path / "l.jsonl").read_bytes()).records
    events = [name_of(record) for record in records]
    order = ["mode", "checkpoint", "lane_drain", "preempt", "lane_resume"]
    assert [events.index(event) for event in order] == sorted(events.index(event) for event in order)
    assert [event for event in events[events.index("lane_drain") :] if event != "mode"] == [
        "lane_drain",
        *["preempt", "reject", "drain"] * 2,
        "lane_resume",
        "admit",
        "complete",
    ]
    assert [line[0] for line in said if not line.startswith(" ")] == ["1", "2", "3", "4"]
    status = subprocess.run(
        ["git", "-C", tmp_path / "config", "status", "--porcelain"], capture_output=True, check=True
    )
    assert status.stdout == b""
    assert SwitchFile(tmp_path / "l.jsonl").read() == Switches(mode="normal")


def test_no_worker_is_killed_before_the_flag(tmp_path: Path) -> None:
    """Killing a worker while its lane does not drain is refused."""
    with pytest.raises(WorkerStillNeeded):
        drill_on(tmp_path, []).kill_worker(next(iter(IN_FLIGHT)))


def test_a_ledger_under_a_switch_is_left_alone(tmp_path: Path) -> None:
    """What a person switched is not switched back by a drill."""
    ledger = tmp_path / "l.jsonl"
    SwitchFile(ledger).change(LaneDrain(lane="free", action="abandon_lane", ts_ms=1), LedgerWriter(ledger))
    before = ledger.read_bytes()
    with pytest.raises(UsageError, match="switched"):
        drill_on(tmp_path, []).play()
    assert ledger.read_bytes() == before
