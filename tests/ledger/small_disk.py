"""A disk that fills up soon: a real one where mounting is allowed, else a limit on the size of files."""

import contextlib
import errno
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

LIMIT_BYTES = 64 * 1024


class SmallDisk:
    """`folder` has room for less than `LIMIT_BYTES`, inside `limited()`, until `make_room()`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={LIMIT_BYTES}", "tmpfs", str(folder)],
            capture_output=True,
            check=False,
        )
        self.is_mounted = mounted.returncode == 0
        if self.is_mounted:
            (folder / "ballast").write_bytes(b"\0" * (LIMIT_BYTES // 2))

    @contextlib.contextmanager
    def limited(self) -> Iterator[None]:
        """Where nothing can be mounted, no file of this process grows past the limit within."""
        if self.is_mounted:
            yield
            return
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES - 100, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    def make_room(self) -> None:
        """Free half of the disk."""
        if self.is_mounted:
            (self.folder / "ballast").unlink()

    @contextlib.contextmanager
    def read_only(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """As the kernel does with a disk that fails; without leave to mount, with the kernel's word for it."""

        def refuse(path: Path, _flags: int, _mode: int = 0) -> int:
            raise OSError(errno.EROFS, "Read-only file system", str(path))

        if self.is_mounted:
            subprocess.run(["mount", "-o", "remount,ro", str(self.folder)], check=True)
            yield
            subprocess.run(["mount", "-o", "remount,rw", str(self.folder)], check=True)
            return
        with monkeypatch.context() as patched:
            patched.setattr(os, "open", refuse)
            yield

    def remove(self) -> None:
        """Unmount."""
        if self.is_mounted:
            subprocess.run(["umount", str(self.folder)], check=True)
