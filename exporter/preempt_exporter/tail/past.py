"""Content whose file is gone: kept so that copies of it add nothing, and so that a remainder can still be found."""

import os
from collections.abc import Sequence

from msgspec.structs import replace

from preempt_exporter.tail.identity import Relation, Trail, compare
from preempt_exporter.tail.positions import FilePosition, LedgerPositions, Notice, PastContent
from preempt_exporter.tail.source import DamagedFile, PackedSource
from preempt_exporter.tail.surroundings import Surroundings
from preempt_exporter.tail.track import RETRY_S, Key, Stage, Track

KEPT = 16
"""Contents remembered per ledger once no file is undecided; logrotate's usual histories are shorter."""
KEPT_AT_MOST = 1_000
"""Also where every second brings a rotation, so that there is always an undecided file."""
_NO_SIZE_KNOWN = 1 << 62
_LOOK_EVERY_S = 0.5

_Look = tuple[int, Key, int, int]
"""Which past content was held against which compressed form, of which size and time."""


class PastContents:
    """The past of one ledger."""

    def __init__(self, folder: str, around: Surroundings, kept: LedgerPositions | None) -> None:
        """`folder`: where the ledger and its forms lie. `kept`: what an earlier run remembered."""
        self._folder = folder
        self._around = around
        self.contents: list[PastContent] = []
        self._owed_since_s: dict[int, float] = {}
        self._examined: set[_Look] = set()
        self._unopened: dict[str, tuple[str, float]] = {}
        """Compressed forms that could not be opened: why, and when each is tried again."""
        self._packed: set[Key] = set(kept.packed_seen) if kept is not None else set()
        self._knows_packed = kept is not None
        self._unexplained: dict[str, float] = {}
        self._vanished: list[PastContent] = []
        if kept is not None:
            self._unexplained = dict.fromkeys(kept.packed_unexplained, around.now_s())
            self._vanished = list(kept.vanished)
        self._plain_names: set[str] = set()
        self._looked_s = float("-inf")
        for content in kept.past if kept is not None else ():
            self.contents.append(replace(content))
            if content.owed:
                self._owe(self.contents[-1])

    def add(
        self, track: Track, *, owed: bool, vanished: bool, rotated_here: bool = False, was_idle: bool = False
    ) -> None:
        """Remember what was read of `track`. `owed`: lines may be left; `vanished`: its plain file is gone.

        `rotated_here`: a copy under a rotated name has the content now. `was_idle`: as in `PastContent`.
        """
        position = track.position()
        position.rotated_here = position.rotated_here or rotated_here
        if track.trail.offset:
            content = self._content_of(position)
            content.was_idle = was_idle
            if owed:
                self._owe(content)
        else:
            content = PastContent(position=position)
            if owed and track.known_bytes:
                message = f"gone before any of its {track.known_bytes} bytes was read"
                self._around.suspect_loss(track.path, message)
        if vanished:
            self._vanished.append(content)

    def _content_of(self, position: FilePosition) -> PastContent:
        """What is remembered of the same bytes, say of the file that was copied; else it is remembered from now on."""
        for content in self.contents:
            if content.position.trail == position.trail:
                content.position.rotated_here |= position.rotated_here
                return content
        self.contents.append(PastContent(position=position, owed=False))
        return self.contents[-1]

    def forget_the_oldest(self, kept: int) -> None:
        """Remember the newest `kept`, what is owed, and what was read of the same text further on."""
        if len(self.contents) <= kept:
            return
        owed = [content.position.trail for content in self.contents if content.owed]
        for content in self.contents[:-kept]:
            trail = content.position.trail
            if not any(trail.offset >= other.offset and trail.head.startswith(other.head) for other in owed):
                self.remove(content)

    def put_back(self, track: Track) -> None:
        """A compressed form broke off in the middle: looked at again if it changes, as one that is being written."""
        self._around.stats.read_errors += 1
        content = self._content_of(track.position())
        if isinstance(track.source, PackedSource):
            self._examined.add(_look(content, track.source.found))
        self._around.close(track)
        self._owe(content)

    def remove(self, content: PastContent) -> None:
        """Forget it, or let another file go on with it."""
        self.contents = [other for other in self.contents if other is not content]
        self._owed_since_s.pop(id(content), None)
        self._examined = {examined for examined in self._examined if examined[0] != id(content)}

    def settled(self, content: PastContent, *, up_to: int) -> None:
        """A copy was found that ends at `up_to`: nothing more is owed if that is all that had been read."""
        if up_to >= content.position.trail.offset:
            content.owed = False
            self._owed_since_s.pop(id(content), None)

    def waits(self) -> bool:
        """Whether something is still to be found or explained."""
        return bool(self._owed_since_s) or not all(map(self._stands_beside_its_plain_file, self._unexplained))

    @property
    def unreadable(self) -> dict[str, str]:
        """Compressed forms that may hold what is owed and cannot be opened, and why."""
        return {path: why for path, (why, _) in self._unopened.items()} if self._owed_since_s else {}

    def wants_a_look(self, now_s: float) -> bool:
        """Whether it is time to look for it again."""
        return self.waits() and now_s - self._looked_s >= _LOOK_EVERY_S

    def note_packed(self, packed: Sequence[str], rotated: Sequence[str], now_s: float) -> None:
        """Take in which compressed forms there are; a new one should be the compression of a file that was read.

        Where the folder is away or cannot be listed or one of them cannot be reached, nothing is known anew.
        """
        if not self.sees_the_folder() or not self._around.folders.get(self._folder).is_there:
            return
        self._unopened = {path: failure for path, failure in self._unopened.items() if path in packed}
        there: set[Key] = set()
        for path in packed:
            try:
                found = os.stat(path)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:
                return
            key = (found.st_dev, found.st_ino)
            there.add(key)
            if self._knows_packed and key not in self._packed:
                self._unexplained.setdefault(path, now_s)
        self._packed = there
        self._knows_packed = True
        self._plain_names = set(rotated)
        self._vanished = self._vanished[-max(KEPT, len(self._unexplained)) :]

    def find_remainder(self, packed: Sequence[str], known: Sequence[Trail], *, leaving: bool) -> Track | None:
        """A compressed form that goes on where a vanished file was left; gives up, with a notice, after a while.

        `known`: what was read of the files that are there. `leaving`: one that has lost its name is not past yet.
        """
        now_s = self._around.now_s()
        if not self.waits():
            return None
        self._looked_s = now_s
        if not self.sees_the_folder():
            self._wait_anew(now_s)
            return None
        for content in [content for content in self.contents if content.owed]:
            for path in packed:
                track = self._remainder(content, path, known, now_s)
                if track is not None:
                    return track
            if content.owed and now_s - self._owed_since_s[id(content)] > 2 * self._around.quiet_s:
                content.owed = False
                del self._owed_since_s[id(content)]
                if not content.was_idle:
                    message = (
                        f"read up to byte {content.position.trail.offset}, then gone without a trace: lines after "
                        "that, if there were any, are lost"
                    )
                    self._around.suspect_loss(content.position.path, message)
        if not leaving:
            self._explain_packed(now_s)
        return None

    def _remainder(self, content: PastContent, path: str, known: Sequence[Trail], now_s: float) -> Track | None:
        source = self._opened(content, path, now_s)
        if source is None:
            return None
        try:
            goes_on = compare(source.read_at, _NO_SIZE_KNOWN, content.position.trail) is Relation.CONTINUES
            if goes_on and self._read_further(content, source, known):
                self.settled(content, up_to=content.position.trail.offset)
                goes_on = False
        except DamagedFile:
            self._around.stats.read_errors += 1
            goes_on = False
        except OSError as error:
            self._examined.discard(_look(content, source.found))
            self._cannot_open(path, error, now_s)
            goes_on = False
        if not goes_on:
            source.close()
            return None
        track = Track(path, (source.found.st_dev, source.found.st_ino), "packed", now_s)
        track.real_path = path
        track.trail = replace(content.position.trail)
        track.skipping = content.position.skipping
        track.stage = Stage.READING
        track.source = source
        self.remove(content)
        self._unexplained.pop(path, None)
        self._vanished = [other for other in self._vanished if other.position.trail != content.position.trail]
        return track

    def _opened(self, content: PastContent, path: str, now_s: float) -> PackedSource | None:
        """The compressed form at `path`, unless `content` was held against it as it is, or it cannot be opened now.

        Where it changed there is more to wait for.
        """
        _, retry_s = self._unopened.get(path, ("", now_s))
        if now_s < retry_s:
            return None
        try:
            if _look(content, os.stat(path)) in self._examined:
                return None
            source = self._around.opened_packed(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self._cannot_open(path, error, now_s)
            return None
        if self._unopened.pop(path, None) is not None:
            self._around.say(Notice("info", path, "can be read again"))
        self._examined.add(_look(content, source.found))
        self._owed_since_s[id(content)] = now_s
        return source

    def _cannot_open(self, path: str, error: OSError, now_s: float) -> None:
        self._around.stats.read_errors += 1
        why = error.strerror or str(error)
        if path not in self._unopened:
            self._around.say(Notice("warning", path, f"cannot be read: {why}; tried again every second"))
        self._unopened[path] = (why, now_s + RETRY_S)
        self._wait_anew(now_s)

    def _wait_anew(self, now_s: float) -> None:
        """Any of what is owed may be in what cannot be seen now."""
        self._owed_since_s = dict.fromkeys(self._owed_since_s, now_s)

    def _read_further(self, content: PastContent, source: PackedSource, known: Sequence[Trail]) -> bool:
        """Whether more of the same text was read from another file: then only what follows that is new."""
        trails = [*known, *(other.position.trail for other in self.contents)]
        longer = [trail for trail in trails if trail.offset > content.position.trail.offset]
        return any(
            compare(source.read_at, source.plain_size(trail.offset + 1), trail) is not Relation.DIFFERENT
            for trail in longer
            if source.read_at(0, len(trail.head)) == trail.head
        )

    def sees_the_folder(self) -> bool:
        """Whether the folder can be listed, so that what is not there has gone."""
        return self._around.folders.get(self._folder).error is None

    def _explain_packed(self, now_s: float) -> None:
        for path, since_s in list(self._unexplained.items()):
            if self._stands_beside_its_plain_file(path) or now_s - since_s < 2 * self._around.quiet_s:
                continue
            del self._unexplained[path]
            if self._vanished:
                self._vanished.pop(0)
            else:
                self._around.suspect_loss(path, "a compressed form of no file that was read: its lines are missing")

    def _owe(self, content: PastContent) -> None:
        content.owed = True
        self._owed_since_s[id(content)] = self._around.now_s()

    def _stands_beside_its_plain_file(self, path: str) -> bool:
        """While it is being made, or for good where both are kept: there is nothing to explain."""
        return path.removesuffix(".gz").removesuffix(".zst") in self._plain_names

    def remember_in(self, positions: LedgerPositions) -> None:
        """Write down what the next run is to remember."""
        positions.past = [replace(content) for content in self.contents]
        positions.packed_seen = sorted(self._packed)
        positions.packed_unexplained = list(self._unexplained)
        positions.vanished = [replace(content) for content in self._vanished]


def _look(content: PastContent, found: os.stat_result) -> _Look:
    return (id(content), (found.st_dev, found.st_ino), found.st_size, found.st_mtime_ns)
