"""Actions on one switch file from several sides at once."""

import threading
from pathlib import Path

from preempt_exporter.clock import SystemClock
from preempt_exporter.control.actions import ActionName, Actions, ActRequest
from preempt_exporter.gate.switches import SwitchFile
from preempt_exporter.ledger.writer import LedgerWriter
from tests.control.running_control import records_on

ROUNDS = 20
SIDES = 6


def test_a_stronger_action_wins_whoever_comes_first(tmp_path: Path) -> None:
    """One side abandons a lane while five only reject: in no round does the weaker action stand in the end."""
    for number in range(ROUNDS):
        ledger = tmp_path / f"l{number}.jsonl"
        start = threading.Barrier(SIDES)

        def act(action: ActionName, ledger: Path = ledger, start: threading.Barrier = start) -> None:
            with LedgerWriter(ledger, fsync=False) as writer:
                actions = Actions(SwitchFile(ledger), writer, SystemClock(), gates=list, spend=None)
                start.wait()
                actions.carry_out(ActRequest(action=action, lane="free"))

        sides = [
            threading.Thread(target=act, args=("abandon_lane" if n == 0 else "reject_enqueue",)) for n in range(SIDES)
        ]
        for side in sides:
            side.start()
        for side in sides:
            side.join()
        assert SwitchFile(ledger).read().lane_actions() == {"free": "abandon_lane"}
        assert records_on(ledger)[-1].action == "abandon_lane"  # type: ignore[union-attr]
