"""The whole history of ledgers at one moment, for commands that read and end: compressed forms too, oldest first."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from msgspec import Struct

from preempt_exporter.clock import SystemClock
from preempt_exporter.errors import UnreadableInput
from preempt_exporter.ledger.chunk import Chunk
from preempt_exporter.tail.folders import Folders, Form, rotated_form
from preempt_exporter.tail.identity import Relation, Trail, compare
from preempt_exporter.tail.ledgers import LedgerFiles, files_of, find_ledgers, first_wildcard, is_glob
from preempt_exporter.tail.lines import ContentChanged, last_piece, next_piece
from preempt_exporter.tail.source import (
    STATE_MAGIC,
    DamagedFile,
    PackedSource,
    PlainSource,
    is_our_state,
    is_packed,
    open_regular,
)

AnySource = PlainSource | PackedSource


class Consumed(Struct):
    """How much was read, as the tail counts it."""

    bytes: int = 0
    """Those of dropped lines among them, those of a content that another form held already not."""


def read_batch(
    patterns: Sequence[str], *, pending_too: bool = True, consumed: Consumed | None = None
) -> Iterator[Chunk]:
    """Every line of every ledger that files, folders and globs mean, each once, in bounded memory.

    A path stands for its whole ledger: its rotated forms, plain and compressed, come before it, oldest first. A
    rotated form that is named without its live path stands for itself; several of one ledger are that ledger as far
    as it was named. Content that another file of the same ledger holds already (a copy made by copy-and-truncate, a
    compressed form kept beside the plain one) comes once. One file under two names is read once. A last line without
    newline comes as it is; without `pending_too` one under a live name does not, since its end may still be written.
    `consumed` counts while the chunks are taken.

    Raises `UnreadableInput` for a named path that is not there, for one that cannot be read, and for compressed data
    that is damaged, unless the next form holds it all. A folder or glob that means no ledger gives nothing.
    """
    folders = Folders(SystemClock())
    seen: set[tuple[int, int]] = set()
    for ledger in batch_ledgers(patterns, folders):
        yield from _read_ledger(ledger, seen, Consumed() if consumed is None else consumed, pending_too=pending_too)


def batch_ledgers(patterns: Sequence[str], folders: Folders) -> Iterator[LedgerFiles]:
    """The ledgers to be read, by live path; each is listed when its turn comes. `UnreadableInput` as `read_batch`."""
    for pattern in patterns:
        if is_glob(os.path.abspath(pattern)):
            continue
        try:
            os.stat(pattern)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise UnreadableInput(pattern, "no such file or folder; check the path") from error
        except OSError as error:
            raise UnreadableInput(pattern, error) from error
    found = find_ledgers(patterns, folders)
    for pattern in patterns:
        why = _folder_error(os.path.abspath(pattern), folders)
        if why is not None:
            raise UnreadableInput(pattern, why)
    alone = _forms_named_alone(found)
    for live in sorted({*found, *alone}):
        if live in alone:
            yield LedgerFiles(live=live, oldest_first=tuple(form.name for form in sorted(alone[live])))
        elif not any(form.name == live for forms in alone.values() for form in forms):
            folders.refresh(os.path.dirname(live))
            yield files_of(live, folders)


def _folder_error(path: str, folders: Folders) -> str | None:
    """Why a folder that was named cannot be listed, or the one that a glob starts from; None for a file.

    Folders that only a wildcard leads to are passed by, as a shell does.
    """
    if is_glob(path):
        path = os.path.dirname(path[: first_wildcard(path)])
    elif not os.path.isdir(path):
        return None
    return folders.get(path).error


def _forms_named_alone(found: dict[str, LedgerFiles]) -> dict[str, list[Form]]:
    """By live path, the rotated forms that were named without it, where they are several."""
    alone: dict[str, list[Form]] = {}
    for path, files in found.items():
        form = rotated_form(path) if len(files.oldest_first) == 1 else None
        if form is not None:
            alone.setdefault(form[0], []).append(form[1])
    return {live: forms for live, forms in alone.items() if len(forms) > 1}


def _read_ledger(
    ledger: LedgerFiles, seen: set[tuple[int, int]], consumed: Consumed, *, pending_too: bool
) -> Iterator[Chunk]:
    with ExitStack() as opened:
        # All at once, so that a rotation while the first is read does not hide the others.
        sources: list[tuple[str, AnySource]] = []
        for path in ledger.oldest_first:
            source = _open(path, seen)
            if source is not None:
                opened.callback(source.close)
                sources.append((path, source))
        before: list[_Reading] = []
        broken: UnreadableInput | None = None
        for path, source in sources:
            reading = _Reading(ledger.live, path, source)
            try:
                reading.skip_what_came_before(before)
                if broken is not None and not (before[-1].trail.offset and reading.trail == before[-1].trail):
                    raise broken
                broken = None
                begun = reading.trail.offset
                yield from reading.to_end(last_too=pending_too or path != ledger.live)
                consumed.bytes += reading.trail.offset - begun
            except DamagedFile as damage:
                broken = UnreadableInput(path, str(damage))
            except OSError as error:
                raise UnreadableInput(path, error) from error
            before.append(reading)
        if broken is not None:
            raise broken


class _Reading:
    """One file on its way to its end."""

    def __init__(self, live: str, path: str, source: AnySource) -> None:
        self.trail = Trail()
        self.skipping = False
        self._live = live
        self._path = path
        self._source = source
        self._adds_nothing = False

    def skip_what_came_before(self, before: "Sequence[_Reading]") -> None:
        """Go on after the content that another form of the ledger held already."""
        for other in before:
            if not other.trail.offset or not self._begins_like(other.trail):
                continue
            size = self._source.plain_size(other.trail.offset + 1)
            relation = compare(self._source.read_at, size, other.trail)
            if relation is Relation.PREFIX:
                self._adds_nothing = True
            if relation is Relation.CONTINUES and other.trail.offset > self.trail.offset:
                self.trail, self.skipping = other.trail, other.skipping

    def _begins_like(self, trail: Trail) -> bool:
        begin = self._source.read_at(0, len(trail.head))
        return begin == trail.head[: len(begin)]

    def to_end(self, *, last_too: bool) -> Iterator[Chunk]:
        """Chunks up to a last line without newline, and with `last_too` that one as well."""
        if self._adds_nothing:
            return
        try:
            while (piece := next_piece(self._source, self.trail, skipping=self.skipping).piece) is not None:
                if piece.data:
                    yield Chunk(ledger=self._live, path=self._path, offset=piece.offset, data=piece.data)
                self.trail, self.skipping = piece.trail, piece.skipping
            last = last_piece(self._source, self.trail, skipping=self.skipping) if last_too else None
        except ContentChanged as change:
            raise UnreadableInput(self._path, "was truncated or rewritten while it was read; run again") from change
        if last is not None:
            if last.data:
                yield Chunk(ledger=self._live, path=self._path, offset=last.offset, data=last.data)
            self.trail, self.skipping = last.trail, last.skipping


def _open(path: str, seen: set[tuple[int, int]]) -> AnySource | None:
    """The file; None for one that was read under another name, that went away, or that is an exporter's state."""
    try:
        descriptor = open_regular(path)
        found = os.fstat(descriptor)
        key = (found.st_dev, found.st_ino)
        if key in seen:
            os.close(descriptor)
            return None
        seen.add(key)
        begin = os.pread(descriptor, len(STATE_MAGIC), 0)
        if is_packed(begin) or is_our_state(begin):
            os.close(descriptor)
            return PackedSource(path) if is_packed(begin) else None
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableInput(path, error) from error
    return PlainSource(descriptor)
