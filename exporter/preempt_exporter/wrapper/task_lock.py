"""One attempt per task at a time on a host: an advisory lock that the kernel lets go when its holder dies.

The lock file lies in `<ledger>.locks/` and names the attempt that holds it. A holder that ends in order removes the
file; one that was killed leaves it, and so says which processes may be left over from it. So does one that could not
say how it ended, and one that left processes behind: this one's name has `ended` behind it.
"""

import contextlib
import fcntl
import hashlib
import os
from pathlib import Path

from preempt_exporter.errors import LedgerWriteError
from preempt_exporter.gate.life import TaskKey

MAX_ATTEMPT_BYTES = 256
_ENDED = "ended"


class TaskLock:
    """The lock of one task beside one ledger."""

    def __init__(self, ledger: Path, key: TaskKey) -> None:
        """Touches nothing yet."""
        name = hashlib.sha256("\0".join((key[0] or "", key[1])).encode()).hexdigest()[:32]
        self.path = Path(f"{ledger}.locks") / name
        self.left_by: str | None = None
        """The attempt that held the lock before and left something behind; known once the lock is taken."""
        self.died = False
        """Whether nobody said how that attempt ended."""
        self._descriptor: int | None = None

    def take(self) -> bool:
        """Take it without waiting; False: another attempt holds it, and nothing was written.

        Raises LedgerWriteError where no lock file can be made: nothing may then be started.
        """
        try:
            self.path.parent.mkdir(exist_ok=True)
            while True:
                descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
                if not _locked(descriptor):
                    os.close(descriptor)
                    return False
                if _is_at(descriptor, self.path):
                    break
                os.close(descriptor)  # its last holder removed the file between our opening and locking it
            left = os.pread(descriptor, MAX_ATTEMPT_BYTES, 0).decode("ascii", "replace").split()
            self.left_by, self.died = (left[0], _ENDED not in left[1:]) if left else (None, False)
        except OSError as error:
            raise LedgerWriteError(str(self.path), error) from error
        self._descriptor = descriptor
        return True

    def sign(self, attempt: str) -> None:
        """Name the attempt that holds it, before the attempt's first process starts. Raises LedgerWriteError."""
        try:
            self._write(attempt)
        except OSError as error:
            raise LedgerWriteError(str(self.path), error) from error

    def leave(self, attempt: str, *, died: bool) -> None:
        """Have the file stay for the next start: of `attempt` something is left behind, or (`died`) its end unsaid."""
        self.left_by = attempt
        if not died:
            with contextlib.suppress(OSError):  # the next start then takes it for died: nothing worse
                self._write(f"{attempt} {_ENDED}")

    def settle(self) -> None:
        """What was left behind is dealt with: it was declared lost, or never ran."""
        self.left_by = None

    def _write(self, text: str) -> None:
        assert self._descriptor is not None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text.encode("ascii"), 0)

    def release(self) -> None:
        """Let it go; the file stays only while what an attempt left behind is not settled."""
        if self._descriptor is None:
            return
        if self.left_by is None:
            with contextlib.suppress(OSError):
                self.path.unlink()
        os.close(self._descriptor)
        self._descriptor = None


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
