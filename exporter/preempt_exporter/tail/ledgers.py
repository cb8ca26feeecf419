"""Which ledgers do the arguments mean? A ledger is one path plus its rotated forms, in oldest-first reading order."""

import fnmatch
import os
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from msgspec import Struct

from preempt_exporter.tail.folders import Folders, rotated_form

FOLDER_SUFFIXES = (".jsonl", ".ndjson")
_GLOB = re.compile(r"[*?\[]")
_DEPTH_LIMIT = 64


class LedgerFiles(Struct, frozen=True):
    """The names of one ledger at one moment. Only `live` may be missing on disk."""

    live: str
    """Absolute path of the unrotated name."""
    rotated: tuple[str, ...] = ()
    """Absolute paths of plain rotated forms, oldest first."""
    packed: tuple[str, ...] = ()
    """Absolute paths of compressed rotated forms, oldest first."""
    oldest_first: tuple[str, ...] = ()
    """Both kinds in one order, `live` last."""


def is_glob(pattern: str) -> bool:
    """Whether the argument is a glob: it has `*`, `?` or `[` and no file of that very name exists."""
    return bool(_GLOB.search(pattern)) and not os.path.lexists(pattern)


def first_wildcard(pattern: str) -> int:
    """Where in a glob its first wildcard stands."""
    found = _GLOB.search(pattern)
    return found.start() if found else len(pattern)


def find_ledgers(patterns: Sequence[str], folders: Folders) -> dict[str, LedgerFiles]:
    """The ledgers that files, folders and globs mean now, by live path, in the order of their names.

    A file's path means that ledger whether it exists or not; a folder its `*.jsonl` and `*.ndjson` ledgers, not those
    of folders below; a glob the ledgers of the files that it matches, and a folder that it matches counts as named.
    `**` recurses, but not through symbolic links; names that begin with a dot want a pattern that does. A name that
    is a rotated form counts as its ledger, unless it is itself named and its live path is not.
    """
    named: set[str] = set()
    found: set[str] = set()
    for pattern in patterns:
        path = os.path.abspath(pattern)
        if is_glob(path):
            for match, folder in _matches(path, folders):
                found.update(_in_folder(match, folders) if folder else [_live_path(match)])
        elif os.path.isdir(path):
            found.update(_in_folder(path, folders))
        else:
            named.add(path)
    for path in named:
        live = _live_path(path)
        found.add(live if live in named or live in found else path)
    return {live: files_of(live, folders) for live in sorted(found)}


def covers(patterns: Sequence[str], live: str) -> bool:
    """Whether one of the arguments can mean the ledger `live`, whether or not it exists."""
    for pattern in patterns:
        path = os.path.abspath(pattern)
        if live == path or (os.path.dirname(live) == path and live.endswith(FOLDER_SUFFIXES)):
            return True
        if is_glob(path) and _whole_path(path).fullmatch(live):
            return True
    return False


def files_of(live: str, folders: Folders) -> LedgerFiles:
    """The ledger's files as its folder lists them."""
    folder, name = os.path.split(live)
    forms = folders.get(folder).forms.get(name, [])
    return LedgerFiles(
        live=live,
        rotated=tuple(os.path.join(folder, form.name) for form in forms if form.plain),
        packed=tuple(os.path.join(folder, form.name) for form in forms if not form.plain),
        oldest_first=(*(os.path.join(folder, form.name) for form in forms), live),
    )


def _live_path(path: str) -> str:
    folder, name = os.path.split(path)
    form = rotated_form(name)
    return os.path.join(folder, form[0]) if form else path


def _in_folder(path: str, folders: Folders) -> Iterator[str]:
    folder = folders.get(path)
    for name in (*folder.files, *folder.forms):
        if name.endswith(FOLDER_SUFFIXES) and not name.startswith("."):
            yield os.path.join(path, name)


def _matches(pattern: str, folders: Folders) -> Iterator[tuple[str, bool]]:
    """Paths that match, and whether each is a folder."""
    yield from _walk("/", pattern.strip("/").split("/"), folders, 0)


def _walk(base: str, parts: list[str], folders: Folders, depth: int) -> Iterator[tuple[str, bool]]:
    if depth > _DEPTH_LIMIT:
        return
    part, rest = parts[0], parts[1:]
    if not _GLOB.search(part):
        path = os.path.join(base, part)
        if rest:
            yield from _walk(path, rest, folders, depth + 1)
        elif part in (folder := folders.get(base)).files or part in folder.subfolders or part in folder.forms:
            yield path, part in folder.subfolders
        return
    folder = folders.get(base)
    if part == "**":
        yield from _walk(base, rest or ["*"], folders, depth + 1)
        for name, is_link in folder.subfolders.items():
            if not is_link and not name.startswith("."):
                yield from _walk(os.path.join(base, name), parts, folders, depth + 1)
        return
    matches = _component(part)
    for name in folder.subfolders:
        if matches.fullmatch(name) and _visible(name, part):
            path = os.path.join(base, name)
            if rest:
                yield from _walk(path, rest, folders, depth + 1)
            else:
                yield path, True
    if not rest:
        for name in folder.files:
            if matches.fullmatch(name) and _visible(name, part):
                yield os.path.join(base, name), False


def _visible(name: str, part: str) -> bool:
    return not name.startswith(".") or part.startswith(".")


@lru_cache(maxsize=256)
def _component(part: str) -> "re.Pattern[str]":
    return re.compile(fnmatch.translate(part))


@lru_cache(maxsize=256)
def _whole_path(pattern: str) -> "re.Pattern[str]":
    """A pattern for paths of which the glob may once have matched: `*` stays within a folder, `**` does not."""
    text = ""
    for part in pattern.strip("/").split("/"):
        text += "(/[^/]+)*" if part == "**" else "/" + fnmatch.translate(part)[4:-3].replace(".*", "[^/]*")
    return re.compile(text, re.DOTALL)
