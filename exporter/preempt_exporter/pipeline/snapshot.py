"""Read positions and folded state in one file, so that neither can be newer than the other.

The file is a header line (format version and checksum) and a MessagePack body. It is replaced as a whole: temporary
file, fsync, rename, fsync of the folder; the one before is kept beside it under `.previous`.
"""

import fcntl
import hashlib
import logging
import os
import threading
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from preempt_exporter.clock import Clock
from preempt_exporter.errors import UnreadableInput, UsageError
from preempt_exporter.own_file import own_file
from preempt_exporter.pipeline.stored_paths import (
    Respell,
    figures_respelled,
    positions_respelled,
    restored,
    stored,
)
from preempt_exporter.state.figures import Figures
from preempt_exporter.tail.positions import Positions, TailStats
from preempt_exporter.tail.source import STATE_MAGIC

log = logging.getLogger("preempt_exporter")

MAGIC = STATE_MAGIC + b"1 "
WRITE_EVERY_S = 5.0


class TailCounts(Struct):
    """The tail's own counters, which it counts from its start only."""

    bytes_read: int = 0
    read_errors: int = 0
    rotations: int = 0
    truncations: int = 0
    suspected_loss: int = 0

    def plus(self, stats: TailStats) -> "TailCounts":
        """These and what the tail counted since its start."""
        return TailCounts(
            self.bytes_read + stats.bytes_read,
            self.read_errors + stats.read_errors,
            self.rotations + stats.rotations,
            self.truncations + stats.truncations,
            self.suspected_loss + stats.suspected_loss,
        )


class Snapshot(Struct):
    """What is kept over a restart."""

    figures: Figures
    positions: Positions
    tail_counts: TailCounts


class SnapshotKeeper:
    """Loads and writes the state file of one exporter, and keeps a second exporter away from it."""

    def __init__(self, path: Path, clock: Clock, *, write_every_s: float = WRITE_EVERY_S) -> None:
        """Lock `path`, or the file that a symbolic link there leads to.

        `UsageError` where another exporter holds it or it is no regular file, `UnreadableInput` where it cannot be
        locked.
        """
        self.path = own_file(path, "--state.file")
        self._previous = self.path.with_name(self.path.name + ".previous")
        self._clock = clock
        self._write_every_s = write_every_s
        self._lock = _locked(self.path)
        self._written_s = clock.monotonic_s()
        self._failing = False
        self.written_ms: int | None = None
        """When the state was last put on disk, Unix milliseconds; None: not yet."""

    def load(self) -> Snapshot | None:
        """The newest whole snapshot; a damaged one is set aside and said. None: read everything."""
        for path in (self.path, self._previous):
            try:
                content = path.read_bytes()
                written_ms = int(path.stat().st_mtime * 1000)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise UnreadableInput(str(path), error.strerror or str(error)) from error
            try:
                snapshot = _decoded(content)
            except ValueError as error:
                self._set_aside(path, str(error))
                continue
            self.written_ms = written_ms
            return snapshot
        return None

    def is_due(self, now_s: float) -> bool:
        """Whether it is time to write again."""
        return now_s - self._written_s >= self._write_every_s

    def write(self, snapshot: Snapshot, lock: threading.Lock) -> None:
        """Put it on disk; what fails (no room, read-only) is said once and tried again at the next turn."""
        self._written_s = self._clock.monotonic_s()
        with lock:
            body = _encoded(snapshot)
        moment_ms = self._clock.now_ms()
        try:
            self._replace(MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
        except OSError as error:
            if not self._failing:
                log.error(
                    "%s: state not written: %s; reading goes on, a restart would read anew", self.path, error.strerror
                )
            self._failing = True
            return
        if self._failing:
            log.info("%s: state written again", self.path)
        self._failing = False
        self.written_ms = moment_ms

    def confirm(self) -> bool:
        """What is on disk is still the state: note the moment. False where it is not there, or was not written."""
        self._written_s = self._clock.monotonic_s()
        if self._failing or self.written_ms is None:
            return False
        moment_ms = self._clock.now_ms()
        try:
            os.utime(self.path, (moment_ms / 1000, moment_ms / 1000))
        except OSError:
            return False
        self.written_ms = moment_ms
        return True

    def is_kept(self) -> bool:
        """Whether the state that was to be written last is on disk."""
        return self.written_ms is not None and not self._failing

    def close(self) -> None:
        """Let go of the lock."""
        self._lock.close()

    def _replace(self, content: bytes) -> None:
        temporary = self.path.with_name(self.path.name + ".tmp")
        try:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if self.path.exists():
                self.path.replace(self._previous)
            temporary.replace(self.path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _set_aside(self, path: Path, why: str) -> None:
        aside = path.with_name(f"{path.name}.damaged-{self._clock.now_ms()}")
        try:
            path.replace(aside)
            log.error("%s: %s; set aside as %s", path, why, aside.name)
        except OSError as error:
            log.error("%s: %s; it could not be set aside: %s", path, why, error.strerror)


def _locked(path: Path) -> IO[bytes]:
    lock_path = path.with_name(path.name + ".lock")
    try:
        file = lock_path.open("ab")
    except OSError as error:
        raise UnreadableInput(str(lock_path), f"{error.strerror}; --state.file needs a writable folder") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise UsageError(f"{path}: another exporter keeps its state here; give each its own --state.file") from error
    return file


def _encoded(snapshot: Snapshot) -> bytes:
    try:
        return msgspec.msgpack.encode(snapshot)
    except UnicodeEncodeError:
        return msgspec.msgpack.encode(_respelled(snapshot, stored))


def _respelled(snapshot: Snapshot, respell: Respell) -> Snapshot:
    return Snapshot(
        figures_respelled(snapshot.figures, respell),
        positions_respelled(snapshot.positions, respell),
        snapshot.tail_counts,
    )


def _decoded(content: bytes) -> Snapshot:
    """`ValueError` says why the bytes are no snapshot of ours."""
    header, newline, body = content.partition(b"\n")
    if not newline or not header.startswith(MAGIC):
        raise ValueError("not a state file of this version")
    if hashlib.sha256(body).hexdigest().encode() != header.removeprefix(MAGIC):
        raise ValueError("damaged: its checksum does not match")
    try:
        return _respelled(msgspec.msgpack.decode(body, type=Snapshot), restored)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"damaged: {error}") from error
