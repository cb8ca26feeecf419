"""Real `drill batch` processes to be killed, and a look into what they left."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Self

PATIENCE_S = 60.0


class KilledBatch:
    """A batch in a folder of its own, played by one driver process after the other."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.telemetry = folder / "t.jsonl"
        self.jobs = folder / "jobs.jsonl"
        self.state = folder / "t.jsonl.batch" / "state.db"
        self._flags = flags
        self._drivers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        """The batch; leaving ends every driver that is still there."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for driver in self._drivers:
            if driver.returncode is None:
                kill_group(driver)

    def start(self, *more: str) -> "subprocess.Popen[bytes]":
        """A driver in a process group of its own."""
        files = ["--lane", "free", "--jobs", str(self.jobs), "--telemetry", str(self.telemetry)]
        driver = subprocess.Popen(
            [sys.executable, "-m", "preempt_exporter.cli.main", "drill", "batch", *files, *self._flags, *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._drivers.append(driver)
        return driver

    def ask(self, question: str) -> list[tuple[object, ...]]:
        """Rows of the batch's state; none before it is there."""
        if not self.state.exists():
            return []
        with closing(sqlite3.connect(f"file:{self.state}?mode=ro", uri=True, timeout=PATIENCE_S)) as connection:
            try:
                return connection.execute(question).fetchall()
            except sqlite3.OperationalError:
                return []

    def number(self, question: str) -> int:
        """The one number that the question is about; 0 before there is a state."""
        rows = self.ask(question)
        return int(str(rows[0][0] or 0)) if rows else 0


def worker_of(driver: "subprocess.Popen[bytes]") -> int | None:
    """The process id of a worker of the driver, if one is there now."""
    try:
        children = Path(f"/proc/{driver.pid}/task/{driver.pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(children[0]) if children else None


def kill_group(driver: "subprocess.Popen[bytes]") -> None:
    """SIGKILL to the driver and all its workers at once."""
    try:
        os.killpg(driver.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        driver.communicate()


def wait_until(condition: Callable[[], bool]) -> None:
    """Look until it holds; fails when it does not in time."""
    give_up_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up_s, "it did not happen in time"
        time.sleep(0.002)  # between two looks at a condition with a deadline
