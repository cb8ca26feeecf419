"""A control service that is quick to start again: a process that has imported everything forks one at a time."""

import multiprocessing
import os
import signal
import threading
from pathlib import Path

from preempt_exporter.clock import SystemClock
from preempt_exporter.control.serve import serve_control
from tests.control.running_control import DEADLINE_S, settings_for

_FAMILY = multiprocessing.get_context("forkserver")
_FAMILY.set_forkserver_preload(["tests.control.serving_fork"])


def _serve(ledger: str, port: int) -> None:
    serve_control(
        settings_for(Path(ledger), listen_addresses=(f"127.0.0.1:{port}",)),
        SystemClock(),
        stop=threading.Event(),
        on_listening=lambda urls: None,
    )


class MortalControl:
    """A service on one ledger and port that can be killed and started again."""

    def __init__(self, ledger: Path, port: int) -> None:
        self._ledger = ledger
        self._port = port
        self.start()

    def start(self) -> None:
        """Begin; it listens a moment later."""
        self._process = _FAMILY.Process(target=_serve, args=(str(self._ledger), self._port))
        self._process.start()

    def kill(self) -> None:
        """End it with SIGKILL, and see that it was alive until then."""
        pid = self._process.pid
        assert pid is not None
        assert self._process.is_alive(), f"it ended by itself with {self._process.exitcode}"
        os.kill(pid, signal.SIGKILL)
        self._process.join(DEADLINE_S)
        assert self._process.exitcode == -signal.SIGKILL
        self._process.close()
