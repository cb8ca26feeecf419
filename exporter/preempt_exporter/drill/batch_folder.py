"""The folder beside the telemetry that holds a batch's state, and the lock that lets one driver at a time have it."""

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from preempt_exporter.errors import UsageError, why_not_written
from preempt_exporter.gate.live_path import live_path

_STATE = "state.db"
_FILES = (_STATE, f"{_STATE}-wal", f"{_STATE}-shm", "lock")


class BatchFolder:
    """`<telemetry>.batch`."""

    def __init__(self, telemetry: Path) -> None:
        """The folder need not exist; it is one for every way in which the telemetry is spelled."""
        telemetry = live_path(telemetry)
        self.path = telemetry.with_name(f"{telemetry.name}.batch")
        self.state_path = self.path / _STATE

    def exists(self) -> bool:
        """Whether a batch was begun here."""
        return self.state_path.exists()

    @contextmanager
    def held(self, *, wait: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Be the only driver, until the process ends at the latest; the folder is made where it is missing.

        While another has it `wait` is asked whether to look again. Raises `UsageError` when it says no.
        """
        try:
            self.path.mkdir(exist_ok=True)
            lock = self._locked(wait)
        except OSError as error:
            raise UsageError(f"{self.path}, where the batch keeps its state: {why_not_written(error)}") from error
        try:
            yield
        finally:
            os.close(lock)

    def _locked(self, wait: Callable[[], bool]) -> int:
        path = self.path / "lock"
        while True:
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(lock), path.stat()):
                    return lock
            except FileNotFoundError:
                self.path.mkdir(exist_ok=True)
            except BlockingIOError:
                if not wait():
                    os.close(lock)
                    raise UsageError(
                        f"{self.path}: another 'drill batch' is at work on it; wait for it or end it first"
                    ) from None
            os.close(lock)

    def remove(self) -> None:
        """Remove the state and the keys; what others put into the folder stays."""
        for name in _FILES:
            (self.path / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.path.rmdir()
