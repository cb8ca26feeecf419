"""`run` as a real process on a ledger in a temporary folder, for the wrapper's tests."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

COMMAND = [sys.executable, "-m", "preempt_exporter.cli.main"]
PATIENCE_S = 30.0
DECIDING = {"DEADLINE_MS", "TASK_BUDGET", "QUEUE_AGE_FRAC", "RESTART_FRAC", "MAX_PREEMPTS", "ADMIT_MODE", "LEDGER_PATH"}


def environment(**more: str) -> dict[str, str]:
    """This process' environment without what would change a decision, and with `more`."""
    return {name: value for name, value in os.environ.items() if name not in DECIDING} | more


class Wrapped:
    """Starts `run` and `admit` about tasks on one ledger, and reads what they left there."""

    def __init__(self, folder: Path) -> None:
        self.ledger = folder / "l.jsonl"
        self.folder = folder

    def start(self, *arguments: str, command: list[str], **more: str) -> "subprocess.Popen[bytes]":
        """`run ARGUMENTS -- COMMAND` as a process of a session of its own."""
        return subprocess.Popen(
            self._words(*arguments, command=command),
            env=environment(**more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def run(self, *arguments: str, command: list[str], **more: str) -> "subprocess.CompletedProcess[bytes]":
        """The same, to its end."""
        return subprocess.run(
            self._words(*arguments, command=command),
            env=environment(**more),
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def _words(self, *arguments: str, command: list[str]) -> list[str]:
        return [*COMMAND, "run", "--ledger", str(self.ledger), *arguments, "--", *command]

    def admit(self, *arguments: str, **more: str) -> "subprocess.CompletedProcess[bytes]":
        """`admit ARGUMENTS`, to its end."""
        return subprocess.run(
            [*COMMAND, "admit", "--ledger", str(self.ledger), *arguments],
            env=environment(**more),
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def lines(self) -> list[dict[str, Any]]:
        """The ledger's lines; one that is no JSON is an error. A lock waited for in vain leaves a blank one."""
        if not self.ledger.exists():
            return []
        return [json.loads(line) for line in self.ledger.read_bytes().splitlines() if line]

    def events(self, task_id: str | None = None) -> list[str]:
        """The words of the lines, heartbeats left out."""
        return [
            line["event"]
            for line in self.lines()
            if line["event"] != "heartbeat" and task_id in (None, line["task_id"])
        ]


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Look again and again, with a deadline."""
    give_up_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up_s, f"waited in vain until {what}"
        time.sleep(0.01)  # between two looks at a condition with a deadline
