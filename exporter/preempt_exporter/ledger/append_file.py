"""Appending bytes to a shared file that is rotated, deleted, filled up and crashed into by others.

Safe among threads, forks and processes on a local disk: each append is one `write(2)` on an `O_APPEND` descriptor.
The advisory lock only makes the look at the last byte and the write one step among our own writers; others need not
take it. Nothing that was written is ever taken back: a shared file is never truncated.
"""

import contextlib
import errno
import fcntl
import os
import stat
import threading
import time
import weakref
from pathlib import Path

LOCK_WAIT_S = 5.0
"""How long to wait for another writer's lock. Who holds it longer is stopped; what it could tear is one line."""

LOCK_WAIT_AGAIN_S = 0.02
"""How long from then on, until the lock is had again: who is stopped may stay so for hours."""

_REOPENINGS = 8
"""How often one append follows a path that is rotated under it before it writes to the file it has."""


class AppendFile:
    """One path to append to. Opened at the first append, created when missing, reopened when rotated or deleted."""

    def __init__(self, path: Path, *, fsync: bool, lock_wait_s: float = LOCK_WAIT_S) -> None:
        """`fsync`: an append returns only when the disk has it."""
        self._path = path
        self._fsync = fsync
        self._lock_wait_s = lock_wait_s
        self._went_without_lock = False
        self._descriptor: int | None = None
        self._guard = threading.RLock()
        self._appending = False
        _OPEN_FILES.add(self)

    def append(self, lines: bytes) -> None:
        """Put whole lines at the end, after a newline where the file does not end in one.

        Raises OSError. The disk may then hold a first part of `lines`, the last line of it torn; the next append
        closes that line, so that it costs nothing but itself.
        """
        with self._guard:
            if self._appending:
                # A signal handler appends while this thread is in the middle of an append.
                self._append_apart(lines)
                return
            self._appending = True
            try:
                self._append_at_path(lines)
            finally:
                self._appending = False

    def close(self) -> None:
        """Close the descriptor; a later append opens the path again."""
        with self._guard:
            if self._descriptor is not None:
                descriptor, self._descriptor = self._descriptor, None
                os.close(descriptor)

    def forget_parent(self) -> None:
        """In a forked child: the parent's descriptor would share its lock, and its threads may hold the guard."""
        self._guard = threading.RLock()
        self._appending = False
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def _append_at_path(self, lines: bytes) -> None:
        descriptor = self._opened()
        for _ in range(_REOPENINGS):
            wait_s = LOCK_WAIT_AGAIN_S if self._went_without_lock else self._lock_wait_s
            self._went_without_lock = not lock(descriptor, wait_s)
            if _is_at(descriptor, self._path):
                break
            self.close()
            descriptor = self._opened()
        try:
            _write_lines(descriptor, lines)
        finally:
            unlock(descriptor)
        self._sync(descriptor)

    def _append_apart(self, lines: bytes) -> None:
        descriptor = _open(self._path)
        try:
            _write_lines(descriptor, lines)
            self._sync(descriptor)
        finally:
            os.close(descriptor)

    def _opened(self) -> int:
        if self._descriptor is None:
            self._descriptor = _open(self._path)
        return self._descriptor

    def _sync(self, descriptor: int) -> None:
        if self._fsync and stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.fsync(descriptor)


def lock(descriptor: int, wait_s: float = LOCK_WAIT_S) -> bool:
    """Take a file's advisory lock, or go on without it (False) after `wait_s`: who holds it so long is stopped.

    Under it none of our own writers is within a write, whose first pages a look at the end would take for a torn line.
    """
    deadline_s = time.monotonic() + wait_s
    pause_s = 0.0005
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES) or time.monotonic() >= deadline_s:
                return False  # not lockable, or held by a writer that is stopped: one write is still one line
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, 0.01)


def unlock(descriptor: int) -> None:
    """Give the lock back; a file that has none is no error."""
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _open(path: Path) -> int:
    flags = os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY
    try:
        descriptor = os.open(path, os.O_RDWR | flags, 0o644)
    except PermissionError:
        descriptor = os.open(path, os.O_WRONLY | flags, 0o644)  # may append, may not read
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_size == 0:
        _sync_folder(path.parent)
    return descriptor


def _sync_folder(folder: Path) -> None:
    """So that a file that was just created is still there after the machine loses power."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _write_lines(descriptor: int, lines: bytes) -> None:
    rest = lines if ends_in_newline(descriptor) else b"\n" + lines
    written = os.write(descriptor, rest)
    while written < len(rest):
        # A nearly full disk takes a part and names its reason at the next try; others may have appended meanwhile.
        if written == 0 or os.lseek(descriptor, 0, os.SEEK_CUR) != os.fstat(descriptor).st_size:
            raise OSError(errno.EIO, "only a part of the line was written")
        rest = rest[written:]
        written = os.write(descriptor, rest)


def ends_in_newline(descriptor: int) -> bool:
    """Whether a line can begin at the end; unknown counts as no, since a blank line harms nobody."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size == 0:
        return True
    try:
        return os.pread(descriptor, 1, status.st_size - 1) == b"\n"
    except OSError:
        return False


_OPEN_FILES: "weakref.WeakSet[AppendFile]" = weakref.WeakSet()


def _forget_parents() -> None:
    for file in _OPEN_FILES:
        file.forget_parent()


os.register_at_fork(after_in_child=_forget_parents)
