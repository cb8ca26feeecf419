"""Bytes of a ledger file by position: plain ones through a descriptor, compressed ones by unpacking forwards."""

import gzip
import os
import stat
from collections.abc import Callable
from typing import Protocol

import zstandard

from preempt_exporter.zstandard_frames import ZstandardFrames, begins_with_a_frame

OpenFile = Callable[[str], int]
"""Opens a path for reading and returns the descriptor, or raises `OSError`."""

GZIP_MAGIC = b"\x1f\x8b"
STATE_MAGIC = b"preempt-exporter state "
"""How our own state file begins, which a glob may match."""
_STEP_BYTES = 1 << 18
_LOOK_BACK_BYTES = 1 << 12


class DamagedFile(Exception):
    """A compressed file ends early or is broken: it may still be in the making."""


class Source(Protocol):
    """What lines are read from."""

    def read_at(self, position: int, n: int) -> bytes:
        """Up to `n` bytes of plain text from `position`; fewer only at the end."""
        ...

    def close(self) -> None:
        """Let go of the descriptor."""
        ...


def open_regular(path: str) -> int:
    """Open `path` for reading without waiting for a writer, should it have become a pipe; `OSError` when it cannot."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(22, "not a regular file", path)
    return descriptor


class PlainSource:
    """An open file, read at any position."""

    def __init__(self, descriptor: int) -> None:
        """Takes the descriptor over."""
        self.descriptor = descriptor

    def read_at(self, position: int, n: int) -> bytes:
        """See `Source`."""
        return os.pread(self.descriptor, n, position)

    def plain_size(self, limit: int) -> int:
        """How long the file is, or `limit` if it is longer than that."""
        return min(self.stat().st_size, limit)

    def stat(self) -> os.stat_result:
        """What the file is now, whatever its name."""
        return os.fstat(self.descriptor)

    def close(self) -> None:
        """See `Source`."""
        os.close(self.descriptor)


class PackedSource:
    """A gzip or Zstandard file, unpacked forwards; a look back of more than 4 KiB begins anew."""

    def __init__(self, path: str, open_file: OpenFile = open_regular) -> None:
        """Open `path`; `OSError` when it cannot be read."""
        self._path = path
        self._open_file = open_file
        self._begin()
        self.found = os.fstat(self._raw.fileno())
        """What the file was before anything was unpacked."""

    def has_changed(self) -> bool:
        """Whether the file was written since: what seemed whole may have ended between two frames."""
        now = os.fstat(self._raw.fileno())
        return (now.st_size, now.st_mtime_ns) != (self.found.st_size, self.found.st_mtime_ns)

    def _begin(self) -> None:
        raw = os.fdopen(self._open_file(self._path), "rb")
        self._raw = raw
        magic = raw.read(4)
        raw.seek(0)
        self._plain: ZstandardFrames | gzip.GzipFile
        if begins_with_a_frame(magic):
            self._plain = ZstandardFrames(raw)
        else:
            self._plain = gzip.GzipFile(fileobj=raw, mode="rb")
        self._kept = b""
        self._kept_from = 0

    def read_at(self, position: int, n: int) -> bytes:
        """See `Source`. `DamagedFile` where the compressed data ends early."""
        if position < self._kept_from:
            self.close()
            self._begin()
        while self._kept_from + len(self._kept) < position + n:
            more = self._unpack()
            if not more:
                break
            surplus = min(position, self._kept_from + len(self._kept)) - _LOOK_BACK_BYTES - self._kept_from
            if surplus > 0:
                self._kept = self._kept[surplus:]
                self._kept_from += surplus
            self._kept += more
        start = position - self._kept_from
        return self._kept[start : start + n]

    def plain_size(self, limit: int) -> int:
        """How long the plain text is, or `limit` if it is longer than that."""
        while (size := self._kept_from + len(self._kept)) < limit:
            if not self.read_at(size, min(_STEP_BYTES, limit - size)):
                return size
        return limit

    def _unpack(self) -> bytes:
        try:
            return self._plain.read(_STEP_BYTES)
        except (EOFError, zstandard.ZstdError, gzip.BadGzipFile, OSError, ValueError) as error:
            raise DamagedFile(f"compressed data is damaged or ends early: {error}") from error
        except Exception as error:
            if type(error).__module__ == "zlib":
                raise DamagedFile(f"compressed data is damaged: {error}") from error
            raise

    def close(self) -> None:
        """See `Source`."""
        self._plain.close()
        self._raw.close()


def is_our_state(first_bytes: bytes) -> bool:
    """Whether a file that begins so is a state file of an exporter, which is no ledger."""
    return first_bytes.startswith(STATE_MAGIC)


def is_packed(first_bytes: bytes) -> bool:
    """Whether a file that begins so is a gzip or Zstandard file."""
    return first_bytes.startswith(GZIP_MAGIC) or begins_with_a_frame(first_bytes)
