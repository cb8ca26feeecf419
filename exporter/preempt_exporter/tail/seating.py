"""Which file of a ledger is which: names on disk against the files known by device and inode, in reading order."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress

from preempt_exporter.tail.judge import verify
from preempt_exporter.tail.ledgers import LedgerFiles, files_of
from preempt_exporter.tail.lines import ContentChanged
from preempt_exporter.tail.past import KEPT, KEPT_AT_MOST, PastContents
from preempt_exporter.tail.positions import LedgerPositions, Notice, Seat
from preempt_exporter.tail.source import PlainSource
from preempt_exporter.tail.surroundings import FileMoved, Surroundings
from preempt_exporter.tail.track import Key, Stage, Track


class Seating:
    """The tracks of one ledger, in reading order."""

    def __init__(self, files: LedgerFiles, around: Surroundings, kept: LedgerPositions | None) -> None:
        """`kept`: where an earlier tail of the same ledger stood."""
        self.files = files
        self.live = files.live
        self.tracks: list[Track] = []
        self.unreachable: dict[str, str] = {}
        self.odd_files: set[str] = set()
        self.past = PastContents(os.path.dirname(files.live), around, kept)
        self._around = around
        self._inodes: tuple[int | None, ...] | None = None
        for position in kept.files if kept is not None else ():
            track = Track.restored_from(position, around.now_s())
            if position.seat == "packed":
                self.past.add(track, owed=True, vanished=False)
            else:
                track.turn = around.next_turn()
                self.tracks.append(track)
                around.owners[track.key] = self
        self._last_live = self._live_key()

    def resolve(self) -> None:
        """Match the names on disk with the files known by device and inode; content is judged when it is read."""
        self._around.resolutions += 1
        now_s = self._around.now_s()
        seats = self._seats(now_s)
        for track in list(self.tracks):
            if track.seat == "packed":
                continue
            seat = seats.pop(track.key, None)
            if seat is not None:
                self._sit(track, *seat, now_s)
            elif track.path in self.unreachable or (track.seat == "detached" and track.source is not None):
                continue
            elif track.stage is not Stage.FINISHED or self.past.sees_the_folder():
                self._detach(track, now_s)
        for key, seat in seats.items():
            self._take_in(key, *seat, now_s)
        self._put_in_order()
        live = self._live_key()
        if live is not None:
            # Between the rename and the new file there may have been a look that found none.
            self._around.stats.rotations += self._last_live not in (live, None)
            self._last_live = live
        self.past.note_packed(self.files.packed, self.files.rotated, now_s)

    def _put_in_order(self) -> None:
        """By name, oldest first; a file that has lost its name stays where it was among those that it was seen with."""
        order = {path: index for index, path in enumerate((*self.files.rotated, self.live))}
        packed = [track for track in self.tracks if track.seat == "packed"]
        plain = [track for track in self.tracks if track.seat in ("rotated", "live")]
        plain.sort(key=lambda track: order.get(track.path, -1))
        for track in self.tracks:
            if track.seat == "detached":
                later = (index for index, other in enumerate(plain) if other.turn > track.turn)
                plain.insert(next(later, len(plain)), track)
        self.tracks = [*packed, *plain]
        for track in self.tracks:
            track.turn = self._around.next_turn()

    def observe(self) -> None:
        """Look at the live name and at every open file; sort out names again if the live one leads elsewhere."""
        now_s = self._around.now_s()
        live = self.live_track()
        try:
            found = os.stat(self.live)
        except OSError as error:
            gone = error.errno in (errno.ENOENT, errno.ENOTDIR)
            if (gone and live is not None) or (not gone and self.live not in self.unreachable):
                self.resolve()
        else:
            if live is not None and (found.st_dev, found.st_ino) == live.key and self.live not in self.unreachable:
                live.note(found, now_s)
            elif live is not None or self.live not in self.odd_files:
                self.relist()
        for track in self.tracks:
            if track.seat in ("rotated", "detached"):
                self._observe_other(track, now_s)

    def _observe_other(self, track: Track, now_s: float) -> None:
        """A writer may still hold a rotated file, or another may have got its name and inode."""
        try:
            found = track.source.stat() if isinstance(track.source, PlainSource) else os.stat(track.path)
        except OSError:
            return
        if (found.st_dev, found.st_ino) == track.key:
            track.note(found, now_s)

    def sits_as(self, files: LedgerFiles, inodes: tuple[int | None, ...]) -> bool:
        """Whether a new listing says what the last one said, so that there is nothing to resolve."""
        same = files == self.files and inodes == self._inodes
        self.files, self._inodes = files, inodes
        return same

    def relist(self) -> None:
        """List the folder again, whatever its times say, and resolve."""
        self._around.folders.refresh(os.path.dirname(self.live), force=True)
        self.files = files_of(self.live, self._around.folders)
        self.resolve()

    def _seats(self, now_s: float) -> dict[Key, tuple[str, Seat, os.stat_result]]:
        seats: dict[Key, tuple[str, Seat, os.stat_result]] = {}
        unreachable: dict[str, str] = {}
        for path in (*self.files.rotated, self.live):
            try:
                found = os.stat(path)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                unreachable[path] = error.strerror or str(error)
                continue
            if stat.S_ISREG(found.st_mode):
                seats[(found.st_dev, found.st_ino)] = (path, "live" if path == self.live else "rotated", found)
            elif path not in self.odd_files:
                self.odd_files.add(path)
                self._around.say(Notice("warning", path, "not a regular file: not followed"))
        for path, why in unreachable.items():
            self._around.stats.read_errors += 1
            if path not in self.unreachable:
                self._around.say(Notice("warning", path, f"cannot be reached: {why}; tried again every few seconds"))
        self.unreachable = unreachable
        return seats

    def _sit(self, track: Track, path: str, seat: Seat, found: os.stat_result, now_s: float) -> None:
        if track.seat == "live" and seat == "rotated":
            # Over a restart an inode is weak evidence: the form may be a copy of the new live file that got it again.
            track.rotated_here = not track.unverified
            track.dirty = True
            track.changed_s = now_s
        elif seat == "live":
            track.rotated_here = False
            track.dirty = True
        reborn = track.unverified and track.seat == "detached"
        if track.path != path or track.seat != seat:
            track.path, track.seat = path, seat
            track.real_path = self._around.real_path(path)
        track.note(found, now_s)
        if reborn:
            # Its inode was free meanwhile: another file with the same beginning may have it, and be read further on.
            track.stage = Stage.UNJUDGED
        self._around.open_early(track)

    def _take_in(self, key: Key, path: str, seat: Seat, found: os.stat_result, now_s: float) -> None:
        """A file new to this ledger. One file is read once, even if two ledgers' names lead to it."""
        other = self._other_owner(key)
        if other is not None and other.seats(key):
            if path not in self.odd_files:
                self.odd_files.add(path)
                message = f"the same file as one of {other.live}: read there, not twice"
                self._around.say(Notice("info", path, message))
            return
        track = other.give_up(key, path) if other is not None else None
        if track is not None:
            self.tracks.append(track)
            self._sit(track, path, seat, found, now_s)
        else:
            track = Track(path, key, seat, now_s)
            track.turn = self._around.next_turn()
            track.real_path = self._around.real_path(path)
            track.note(found, now_s)
            self.tracks.append(track)
            self._around.open_early(track)
        self.odd_files.discard(path)
        self._around.owners[key] = self

    def claim(self, path: str) -> None:
        """Take over the track of the file at `path`, one of our names, from the ledger that it sat under before."""
        try:
            found = os.stat(path)
        except OSError:
            return
        key = (found.st_dev, found.st_ino)
        other = self._other_owner(key)
        if other is not None and not other.seats(key):
            track = other.give_up(key, path)
            if track is not None:
                self.tracks.append(track)
                self._around.owners[key] = self

    def _other_owner(self, key: Key) -> "Seating | None":
        owner = self._around.owners.get(key)
        return owner if isinstance(owner, Seating) and owner is not self else None

    def give_up(self, key: Key, path: str) -> Track | None:
        """Hand over the file that sits at `path` now, under another ledger's names; None: it is another file.

        An inode that is free is reused.
        """
        track = self._track_of(key)
        if track is None:
            return None
        before = track.path
        if track.trail.offset and track.source is None and not self._opens_at(path, track):
            track.path = before
            return None
        self.tracks.remove(track)
        return track

    def seats(self, key: Key) -> bool:
        """Whether the file sits under the name of ours where we saw it last."""
        track = self._track_of(key)
        if track is None or track.seat == "detached":
            return False
        try:
            found = os.stat(track.path)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == key

    def _track_of(self, key: Key) -> Track | None:
        return next((track for track in self.tracks if track.key == key), None)

    def _opens_at(self, path: str, track: Track) -> bool:
        """Open the file of `track` at `path`, where one of its inode is, if it holds all that was read."""
        track.path = path
        with suppress(OSError, FileMoved):
            source = self._around.opened(track)
            try:
                if isinstance(source, PlainSource):
                    verify(track, source)
            except ContentChanged:
                self._around.close(track)
        return track.source is not None

    def let_go(self) -> None:
        """No argument means this ledger any more: forget its files, which is no loss."""
        for track in self.tracks:
            self._around.close(track)
            if self._around.owners.get(track.key) is self:
                del self._around.owners[track.key]
        self.tracks.clear()

    def _detach(self, track: Track, now_s: float) -> None:
        """No name of ours leads to the file any more: read what is left of it, if it is open or can be found."""
        if track.stage is Stage.FINISHED:
            self.forget(track, owed=False)
            return
        was_idle = track.is_idle(now_s)
        track.seat = "detached"
        track.dirty = True
        track.changed_s = now_s
        if track.source is None and not any(self._opens_at(path, track) for path in self._whereabouts(track)):
            self.forget(track, owed=track.stage is not Stage.WAITING, was_idle=was_idle)

    def _whereabouts(self, track: Track) -> Iterator[str]:
        """Where a file may be that has lost its name here: where its link led, or under any name in its folder."""
        yield track.path
        yield track.real_path
        if not track.trail.offset:
            return  # Inodes are reused: without content to compare, any file could be meant.
        for path in dict.fromkeys((track.path, track.real_path)):
            folder = os.path.dirname(path)
            for name, inode in self._around.folders.get(folder).files.items():
                if inode == track.key[1]:
                    yield os.path.join(folder, name)

    def forget(self, track: Track, *, owed: bool, was_idle: bool = False) -> None:
        """Let go of a file; what was read of it is remembered. `owed`: there may be more that was not.

        `was_idle`: though nothing speaks for it.
        """
        self._around.close(track)
        self.tracks.remove(track)
        if self._around.owners.get(track.key) is self:
            del self._around.owners[track.key]
        self.past.add(track, owed=owed, vanished=track.seat != "packed", was_idle=was_idle)

    def forget_the_oldest(self) -> None:
        """Bound what is remembered of the past: far less once no file of ours may turn out to be a copy of it."""
        all_told = self.past.sees_the_folder() and not any(track.is_undecided() for track in self.tracks)
        self.past.forget_the_oldest(KEPT if all_told else KEPT_AT_MOST)

    def is_followed(self) -> bool:
        """Whether the ledger has a file, or one may still be found or reached."""
        return bool(self.tracks or self.unreachable) or self.past.waits()

    def live_track(self) -> Track | None:
        """The file under the live name, if there is one."""
        return next((track for track in reversed(self.tracks) if track.seat == "live"), None)

    def _live_key(self) -> Key | None:
        live = self.live_track()
        return live.key if live is not None else None
