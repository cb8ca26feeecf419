"""`drill task --rollback`: what to do under page pressure, in the order in which it is safe, each step carried out.

1. Reject new work. 2. Checkpoint or fail what is in flight. 3. Set the drain flag, and only then kill workers.
4. Restore the threshold from version control. Workers are this drill's own children; the thresholds' file lies in a
repository made for the drill.
"""

import os
import secrets
import shutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from preempt_exporter.clock import SystemClock
from preempt_exporter.config import resolve
from preempt_exporter.errors import ToolMissing, UsageError
from preempt_exporter.gate.gate import Gate
from preempt_exporter.gate.life import TaskKey
from preempt_exporter.gate.request import TaskRequest
from preempt_exporter.gate.settings import GateSettings
from preempt_exporter.gate.switches import SwitchFile
from preempt_exporter.ledger.records import LaneDrain, LaneResume, Mode
from preempt_exporter.ledger.sink import LedgerSink
from preempt_exporter.settings import Thresholds
from preempt_exporter.wrapper.dies_with import dies_with

LANE = "free"
BY = "drill task --rollback"
IN_FLIGHT = {"saved-1": 100, "saved-2": 40, "unsaved": 0}
"""Tasks in flight and the progress that each can save."""

COMMITTED_YML = "thresholds:\n  restart_frac: 0.2\n"
RAISED_YML = "thresholds:\n  restart_frac: 2\n"


class WorkerStillNeeded(UsageError):
    """A worker was to be killed before the drain flag was set."""


class RollbackDrill:
    """Three tasks in flight, a threshold that somebody raised, and the way back."""

    def __init__(
        self, ledger: Path, sink: LedgerSink, settings: GateSettings, folder: Path, say: Callable[[str], object]
    ) -> None:
        """`folder` is made for the thresholds' repository; `say` gets the steps. Raises ToolMissing without git."""
        if shutil.which("git") is None:
            raise ToolMissing("git is not installed, and the threshold is restored from it: apt-get install git")
        self._ledger = ledger
        self._sink = sink
        self._settings = settings
        self._thresholds_yml = folder / "thresholds.yml"
        self._say = say
        self._switches = SwitchFile(ledger)
        self._batch = secrets.token_hex(4)
        self._request = TaskRequest(lane=LANE, prompt_tokens=800, target_tokens=200)
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        self._gate = self._new_gate(settings.thresholds)

    def play(self) -> None:
        """All steps. Whatever happens, no worker is left running and what was switched is switched back.

        Raises UsageError, before anything happens, on a ledger on which something is switched: the way back would undo
        what a person did there.
        """
        switches = self._switches.read()
        if switches.lanes or switches.mode not in (None, "normal"):
            raise UsageError(f"{self._switches.path} says that something is switched here; give another --ledger")
        self._commit_then_raise()
        self._gate = self._new_gate(self._committed_or_not())
        try:
            for name, tokens in IN_FLIGHT.items():
                self._gate.admit(self._key(name), self._request)
                self._gate.heartbeat(self._key(name), output_tokens=tokens)
                self._workers[name] = _new_worker()
            self.reject_new_work()
            self.checkpoint_or_fail()
            self.drain_then_kill()
            self.restore_threshold()
        finally:
            for worker in self._workers.values():
                worker.kill()
                worker.wait()
            self._switch_back()

    def reject_new_work(self) -> None:
        """The mode changes in the switch file, and the running gate obeys at its next decision."""
        self._say("1. reject new work: preempt-exporter act mode reject_preempt_budget")
        self._switches.change(Mode(mode="reject_preempt_budget", ts_ms=self._now_ms(), by=BY), self._sink)
        answer = self._gate.admit(self._key("too-late"), self._request)
        self._say(f"   a new task is told: {answer.verdict}")

    def checkpoint_or_fail(self) -> None:
        """What has progress saves it; what has none is failed, and not replayed."""
        self._say("2. checkpoint what is in flight, or fail it")
        for name, tokens in IN_FLIGHT.items():
            if tokens:
                self._gate.checkpoint(self._key(name), checkpoint_tokens=tokens)
            else:
                self._gate.drain(self._key(name))

    def drain_then_kill(self) -> None:
        """The flag first: a worker that is killed before it would only be started again."""
        self._say("3. set the drain flag, then kill the workers: preempt-exporter act drain_and_reject --lane free")
        drain = LaneDrain(lane=LANE, action="drain_and_reject", ts_ms=self._now_ms(), by=BY)
        self._switches.change(drain, self._sink)
        for name in IN_FLIGHT:
            self.kill_worker(name)
            answer = self._gate.preempt(self._key(name))
            if answer.outcome == "recorded":
                self._say(f"   {name} is told: {answer.verdict}; drained: {answer.drained}")

    def kill_worker(self, name: str) -> None:
        """End the worker of a task. Raises WorkerStillNeeded while the lane's drain flag is not set."""
        if self._switches.read().lane_action(LANE) != "drain_and_reject":
            raise WorkerStillNeeded(f"lane {LANE} does not drain: a worker killed now is replayed; set the flag first")
        worker = self._workers.pop(name, None)
        if worker is not None:
            worker.kill()
            worker.wait()

    def restore_threshold(self) -> None:
        """The committed threshold, a gate started with it, and the lane and the mode switched back."""
        self._say(f"4. restore the threshold: git checkout -- {self._thresholds_yml.name}, and start the gate again")
        before = self._committed_or_not().restart_frac
        self._git("checkout", "--quiet", "--", self._thresholds_yml.name)
        thresholds = self._committed_or_not()
        self._say(f"   restart_frac {before:g} -> {thresholds.restart_frac:g}")
        self._gate = self._new_gate(thresholds)
        self._switch_back()
        answer = self._gate.admit(self._key("afterwards"), self._request)
        self._say(f"   a new task is told: {answer.verdict}")
        self._gate.complete(self._key("afterwards"), output_tokens=200)

    def _switch_back(self) -> None:
        switches = self._switches.read()
        if switches.lane_action(LANE) is not None:
            self._switches.change(LaneResume(lane=LANE, ts_ms=self._now_ms(), by=BY), self._sink)
        if switches.mode == "reject_preempt_budget":
            self._switches.change(Mode(mode="normal", ts_ms=self._now_ms(), by=BY), self._sink)

    def _commit_then_raise(self) -> None:
        self._thresholds_yml.parent.mkdir(parents=True)
        self._thresholds_yml.write_text(COMMITTED_YML)
        self._git("init", "--quiet")
        self._git("add", self._thresholds_yml.name)
        self._git("-c", "user.name=drill", "-c", "user.email=drill@localhost", "commit", "--quiet", "-m", "thresholds")
        self._thresholds_yml.write_text(RAISED_YML)

    def _committed_or_not(self) -> Thresholds:
        """The thresholds as the file now says."""
        return resolve(Namespace(**{"config.file": str(self._thresholds_yml)}), {}).thresholds()

    def _git(self, *words: str) -> None:
        subprocess.run(["git", "-C", str(self._thresholds_yml.parent), *words], check=True)

    def _new_gate(self, thresholds: Thresholds) -> Gate:
        settings = replace(self._settings, thresholds=thresholds)
        return Gate(self._ledger, self._sink, SystemClock(), settings=settings, instance=secrets.token_hex(8))

    def _key(self, name: str) -> TaskKey:
        return (f"rollback-{self._batch}", name)

    def _now_ms(self) -> int:
        return SystemClock().now_ms()


def _new_worker() -> "subprocess.Popen[bytes]":
    """A process that counts slowly until it is killed."""
    words = [sys.executable, "-m", f"{__package__}.task_worker", "0", str(10**9), "1", "50"]
    # The drill has one thread, and what it starts must not outlive it.
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, preexec_fn=dies_with(os.getpid()))  # noqa: PLW1509
