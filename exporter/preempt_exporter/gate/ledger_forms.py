"""A ledger's files on disk: the live path and its rotated forms, plain or compressed, oldest first."""

import gzip
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from msgspec import Struct

from preempt_exporter.errors import UnreadableInput

_ROTATED = re.compile(r"[.-](\d[\d.-]*)(\.gz|\.zst)?")

READ_BYTES = 1 << 20


class Form(Struct, frozen=True):
    """One file of the ledger, as it was when listed."""

    path: Path
    device: int
    inode: int
    size: int
    """On disk; of a compressed form not the size of its content."""
    live: bool

    @property
    def compressed(self) -> bool:
        """Whether its content has to be unpacked."""
        return self.path.suffix in (".gz", ".zst")

    def open(self) -> IO[bytes]:
        """Its content from the first byte."""
        if self.path.suffix == ".gz":
            return cast(IO[bytes], gzip.open(self.path, "rb"))
        if self.path.suffix == ".zst":
            from preempt_exporter.zstandard_frames import ZstandardFrames

            return cast(IO[bytes], ZstandardFrames(self.path.open("rb")))
        return self.path.open("rb")

    def pieces(self, offset: int) -> Iterator[bytes]:
        """Content from `offset` on. Raises `UnreadableInput`."""
        try:
            with self.open() as file:
                if offset and file.seek(offset) != offset:
                    return
                while piece := file.read(READ_BYTES):
                    yield piece
        except Exception as error:  # each way of packing has exceptions of its own for a broken file
            raise UnreadableInput(str(self.path), error if isinstance(error, OSError) else str(error)) from error

    def content_before(self, offset: int, length: int) -> bytes:
        """The `length` bytes before `offset`; fewer where the content ends before."""
        start = max(0, offset - length)
        found = b""
        for piece in self.pieces(start):
            found += piece
            if len(found) >= offset - start:
                break
        return found[: offset - start]


def is_rotated_name(name: str, *, of: str) -> bool:
    """Whether a file of this name beside the ledger of the name `of` is a rotated form of it."""
    return name.startswith(of) and _ROTATED.fullmatch(name[len(of) :]) is not None


def live_form(ledger: Path) -> Form | None:
    """The live path, if it is there. Raises `UnreadableInput`."""
    try:
        status = ledger.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableInput(str(ledger), error) from error
    if not stat.S_ISREG(status.st_mode):
        # A pipe would never begin to be read, and a device never end.
        raise UnreadableInput(str(ledger), "not a regular file; name one, or a name that is not taken")
    return Form(ledger, status.st_dev, status.st_ino, status.st_size, True)


def forms_of(ledger: Path) -> list[Form]:
    """Rotated forms by the time of their last line, the oldest first, then the live path if it is there.

    A compressed form whose plain form is still there is left out, and so is a plain one that is so far a copy of the
    live path's beginning: rotation by copying has not cut the live path yet. Raises `UnreadableInput`.
    """
    rotated: list[tuple[int, int, Form]] = []
    live = live_form(ledger)
    try:
        with os.scandir(ledger.parent) as entries:
            for entry in entries:
                if not entry.name.startswith(ledger.name):
                    continue
                match = _ROTATED.fullmatch(entry.name[len(ledger.name) :])
                if match is None or not entry.is_file():
                    continue
                status = entry.stat()
                form = Form(Path(entry.path), status.st_dev, status.st_ino, status.st_size, False)
                number = int(re.sub(r"\D", "", match.group(1)))
                # `.2` is older than `.1`, a date is not: numbers only break ties, and dates never tie.
                rotated.append((status.st_mtime_ns, -number, form))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UnreadableInput(str(ledger), error) from error
    rotated.sort(key=lambda item: item[:2])
    plain = {str(form.path) for _, _, form in rotated if not form.compressed}
    forms = [
        form
        for _, _, form in rotated
        if (not form.compressed or str(form.path.with_suffix("")) not in plain)
        and not (live is not None and _is_beginning_of(form, live))
    ]
    return [*forms, live] if live is not None else forms


def _is_beginning_of(form: Form, live: Form) -> bool:
    if form.compressed or form.size > live.size or form.size == 0:
        return False
    try:
        with form.open() as copied, live.open() as original:
            while piece := copied.read(READ_BYTES):
                if original.read(len(piece)) != piece:
                    return False
    except OSError as error:
        raise UnreadableInput(str(form.path), error) from error
    return True
