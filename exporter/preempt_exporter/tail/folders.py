"""What folders hold, listed again only when they changed."""

import os
import re
import stat
from collections.abc import Callable, Iterator

from msgspec import Struct, field
from msgspec.structs import replace

from preempt_exporter.clock import Clock

_FORM = re.compile(r"(?P<live>.+)[.-](?P<stamp>[0-9]+)(?P<packed>\.gz|\.zst)?", re.DOTALL)
_DATE_DIGITS = 6
_TICK_MS = 50


class Form(Struct, frozen=True, order=True):
    """A rotated form of a ledger, ordered oldest first.

    Six digits and more are a date or a time, which grow; fewer are a count, whose highest is the oldest. A
    compressed form comes before the plain one of the same number.
    """

    dated: int
    age: int
    plain: bool
    name: str


def rotated_form(name: str) -> tuple[str, Form] | None:
    """The live name that `name` is a rotated form of, and which; None for a name that is no rotated form."""
    match = _FORM.fullmatch(name)
    if match is None:
        return None
    stamp = match["stamp"]
    dated = len(stamp) >= _DATE_DIGITS
    form = Form(dated=0 if dated else 1, age=int(stamp) if dated else -int(stamp), plain=not match["packed"], name=name)
    return match["live"], form


class Folder(Struct, kw_only=True):
    """One listing."""

    key: tuple[int, ...] = ()
    """Device, inode and times of the folder when it was listed."""
    settled: bool = False
    """False soon after a change: a second one within the same tick of the file system's clock would not show."""
    files: dict[str, int] = field(default_factory=dict)
    """Names to inode numbers of everything that is no folder."""
    subfolders: dict[str, bool] = field(default_factory=dict)
    """Names of folders, and whether the name is a symbolic link."""
    forms: dict[str, list[Form]] = field(default_factory=dict)
    """Live names to their rotated forms, oldest first."""
    error: str | None = None
    """Why it could not be listed, so that the names are those of the last time; None where there is no such folder."""

    @property
    def is_there(self) -> bool:
        """Whether there was such a folder."""
        return len(self.key) > 1


ListFolder = Callable[[str], "Iterator[os.DirEntry[str]]"]


def list_entries(path: str) -> "Iterator[os.DirEntry[str]]":
    """The entries of a folder; `OSError` when it cannot be read."""
    with os.scandir(path) as entries:
        yield from entries


class Folders:
    """Listings by path."""

    def __init__(self, clock: Clock, list_folder: ListFolder = list_entries) -> None:
        """`list_folder` is an argument so that a test can forbid it."""
        self._clock = clock
        self._list = list_folder
        self._known: dict[str, Folder] = {}

    def paths(self) -> list[str]:
        """The folders looked at so far."""
        return list(self._known)

    def get(self, path: str) -> Folder:
        """The listing, made now when there is none yet."""
        folder = self._known.get(path)
        if folder is None:
            self.refresh(path)
            folder = self._known[path]
        return folder

    def forget_all_but(self, wanted: set[str]) -> None:
        """Drop listings that nothing asks for any more."""
        for path in self._known.keys() - wanted:
            del self._known[path]

    def refresh(self, path: str, *, force: bool = False) -> bool:
        """List again if the folder changed (or `force`); whether the names in it did."""
        known = self._known.get(path, Folder())
        key = _key(path)
        if key == known.key and known.settled and not force and known.error is None:
            return False
        fresh = self._listing(path, known)
        fresh.key = key
        fresh.settled = key == known.key and self._clock.now_ms() - _changed_ms(key) > _TICK_MS
        self._known[path] = fresh
        return (fresh.files, fresh.subfolders, fresh.error) != (known.files, known.subfolders, known.error)

    def _listing(self, path: str, known: Folder) -> Folder:
        folder = Folder()
        try:
            for entry in self._list(path):
                if _is_folder(entry):
                    folder.subfolders[entry.name] = entry.is_symlink()
                else:
                    folder.files[entry.name] = entry.inode()
        except (FileNotFoundError, NotADirectoryError):
            return Folder()
        except OSError as error:
            return replace(known, error=error.strerror or str(error))
        for name in folder.files:
            found = rotated_form(name)
            if found is not None:
                folder.forms.setdefault(found[0], []).append(found[1])
        for forms in folder.forms.values():
            forms.sort()
        return folder


def _changed_ms(key: tuple[int, ...]) -> int:
    return key[2] // 1_000_000 if len(key) > 2 else 0


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _key(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError as error:
        return (error.errno or 0,)
    if not stat.S_ISDIR(found.st_mode):
        return (0,)
    return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns)
