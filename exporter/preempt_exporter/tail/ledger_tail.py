"""One ledger followed: which file holds what, and the next whole lines in reading order."""

import errno
import os
import stat
from collections.abc import Iterator

from preempt_exporter.ledger.chunk import Chunk
from preempt_exporter.tail.identity import Relation, compare
from preempt_exporter.tail.judge import judge
from preempt_exporter.tail.ledgers import LedgerFiles, files_of
from preempt_exporter.tail.lines import ContentChanged, last_piece, next_piece
from preempt_exporter.tail.past import PastContents
from preempt_exporter.tail.positions import LedgerPositions, Notice, PastContent, Seat
from preempt_exporter.tail.source import DamagedFile, PlainSource, is_packed
from preempt_exporter.tail.surroundings import FileMoved, Surroundings
from preempt_exporter.tail.track import Key, Stage, Track

_MAX_RESTARTS = 8


class Budget:
    """How many bytes a read may still hand out."""

    def __init__(self, max_bytes: int) -> None:
        """At least one chunk goes out whatever the number."""
        self.left = max_bytes


class LiveChanged(Exception):
    """The live file turned out to be truncated or rewritten while another was judged against it."""

    def __init__(self, live: Track) -> None:
        """`live`: the track whose content changed."""
        super().__init__()
        self.live = live


class LedgerTail:
    """Tracks of one ledger, oldest first. Each is read to its present end before the next."""

    def __init__(self, files: LedgerFiles, around: Surroundings, kept: LedgerPositions | None = None) -> None:
        """`kept`: where an earlier tail of the same ledger stood."""
        self.files = files
        self.live = files.live
        self.tracks: list[Track] = []
        self.unreachable: dict[str, str] = {}
        self.past = PastContents(self.live, around, kept)
        self._around = around
        self._odd_files: set[str] = set()
        if kept is not None:
            for position in kept.files:
                track = Track.restored_from(position, around.now_s())
                if position.seat == "packed":
                    self.past.add(track, owed=True, vanished=False)
                else:
                    track.turn = around.next_turn()
                    self.tracks.append(track)
                    around.owners[track.key] = self

    # -- which file is which ------------------------------------------------------------------------------------

    def resolve(self) -> None:
        """Match the names on disk with the files known by device and inode; content is judged when it is read."""
        now_s = self._around.now_s()
        seats = self._seats(now_s)
        live_before = self._live_key()
        for track in list(self.tracks):
            if track.seat == "packed":
                continue
            seat = seats.pop(track.key, None)
            if seat is not None:
                self._sit(track, *seat, now_s)
            elif track.path in self.unreachable or (track.seat == "detached" and track.source is not None):
                continue
            else:
                self._detach(track, now_s)
        for key, seat in seats.items():
            self._take_in(key, *seat, now_s)
        self._put_in_order()
        if live_before is not None and self._live_key() not in (live_before, None):
            self._around.stats.rotations += 1
        self.past.note_packed(self.files.packed, self.files.rotated, now_s)

    def _put_in_order(self) -> None:
        """By name, oldest first; a file that has lost its name before those that were found after it."""
        order = {path: index for index, path in enumerate((*self.files.rotated, self.live))}
        seated = [track for track in self.tracks if track.seat in ("rotated", "live")]
        seated.sort(key=lambda track: order.get(track.path, -1))
        for track in self.tracks:
            if track.seat not in ("rotated", "live"):
                later = (i for i, other in enumerate(seated) if track.seat == "packed" or other.turn > track.turn)
                seated.insert(next(later, len(seated)), track)
        self.tracks = seated

    def observe(self) -> None:
        """Look at the live name and at every open file; sort out names again if the live one leads elsewhere."""
        now_s = self._around.now_s()
        live = self._live_track()
        try:
            found = os.stat(self.live)
        except OSError as error:
            gone = error.errno in (errno.ENOENT, errno.ENOTDIR)
            if (gone and live is not None) or (not gone and self.live not in self.unreachable):
                self.resolve()
        else:
            if live is not None and (found.st_dev, found.st_ino) == live.key and self.live not in self.unreachable:
                live.note(found, now_s)
            elif live is not None or self.live not in self._odd_files:
                self.relist()
        for track in self.tracks:
            if track.seat in ("rotated", "detached") and isinstance(track.source, PlainSource):
                track.note(track.source.stat(), now_s)

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
            elif path not in self._odd_files:
                self._odd_files.add(path)
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
        if track.path != path or track.seat != seat:
            track.path, track.seat = path, seat
            track.real_path = self._around.real_path(path)
        track.note(found, now_s)
        self._around.open_early(track)

    def _take_in(self, key: Key, path: str, seat: Seat, found: os.stat_result, now_s: float) -> None:
        """A file new to this ledger. One file is read once, even if two ledgers' names lead to it."""
        owner = self._around.owners.get(key)
        if isinstance(owner, LedgerTail) and owner is not self:
            track = owner.give_up(key)
            if track is None:
                if path not in self._odd_files:
                    self._odd_files.add(path)
                    message = f"the same file as one of {owner.live}: read there, not twice"
                    self._around.say(Notice("info", path, message))
                return
            self.tracks.append(track)
            self._sit(track, path, seat, found, now_s)
        else:
            track = Track(path, key, seat, now_s)
            track.turn = self._around.next_turn()
            track.real_path = self._around.real_path(path)
            track.note(found, now_s)
            self.tracks.append(track)
            self._around.open_early(track)
        self._odd_files.discard(path)
        self._around.owners[key] = self

    def claim(self, path: str) -> None:
        """Take over the track of the file at `path`, one of our names, from the ledger that it sat under before."""
        try:
            found = os.stat(path)
        except OSError:
            return
        key = (found.st_dev, found.st_ino)
        owner = self._around.owners.get(key)
        if isinstance(owner, LedgerTail) and owner is not self:
            track = owner.give_up(key)
            if track is not None:
                self.tracks.append(track)
                self._around.owners[key] = self

    def give_up(self, key: Key) -> Track | None:
        """Hand the file over to the ledger under whose names it sits now; None while it still sits under ours."""
        for track in self.tracks:
            if track.key != key:
                continue
            if track.seat != "detached":
                try:
                    found = os.stat(track.path)
                except OSError:
                    found = None
                if found is not None and (found.st_dev, found.st_ino) == key:
                    return None
            self.tracks.remove(track)
            return track
        return None

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
            self._forget(track, owed=False)
            return
        track.seat = "detached"
        track.dirty = True
        track.changed_s = now_s
        for path in self._whereabouts(track):
            if track.source is not None:
                return
            track.path = path
            try:
                source = self._around.opened(track)
                if isinstance(source, PlainSource) and not self._holds_what_was_read(track, source):
                    self._around.close(track)
            except (OSError, FileMoved):
                continue
        if track.source is None:
            self._forget(track, owed=track.stage is not Stage.WAITING)

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

    def _forget(self, track: Track, *, owed: bool) -> None:
        self._around.close(track)
        self.tracks.remove(track)
        if self._around.owners.get(track.key) is self:
            del self._around.owners[track.key]
        self.past.add(track, owed=owed, vanished=track.seat != "packed")

    # -- reading ------------------------------------------------------------------------------------------------

    def wants_reading(self) -> bool:
        """Whether `read` may bring something now."""
        now_s = self._around.now_s()
        quiet_s = self._around.quiet_s
        return self.past.wants_a_look(now_s) or any(track.wants_reading(now_s, quiet_s) for track in self.tracks)

    def is_hot(self) -> bool:
        """Whether the ledger is to be looked at on every scan."""
        now_s = self._around.now_s()
        return self.past.waits() or any(track.is_hot(now_s) for track in self.tracks)

    def read(self, budget: Budget) -> Iterator[Chunk]:
        """Chunks in reading order until everything is read or the budget is used up."""
        for _ in range(_MAX_RESTARTS):
            found = self.past.find_remainder(self.files.packed)
            if found is not None:
                self.tracks.insert(0, found)
            for track in list(self.tracks):
                if budget.left <= 0:
                    return
                if not track.wants_reading(self._around.now_s(), self._around.quiet_s):
                    continue
                try:
                    yield from self._read_track(track, budget)
                except (ContentChanged, LiveChanged, FileMoved) as change:
                    if isinstance(change, LiveChanged):
                        self._truncated(change.live)
                    elif isinstance(change, ContentChanged):
                        self._truncated(track)
                    self.relist()
                    if not isinstance(change, FileMoved):
                        changed = change.live if isinstance(change, LiveChanged) else track
                        changed.turn = self._around.next_turn()
                    for other in self.tracks:
                        other.dirty = other.dirty or other.stage is Stage.WAITING
                    break
                except DamagedFile:
                    self.past.put_back(track)
                    self.tracks.remove(track)
                except OSError as error:
                    self._failed(track, error)
            else:
                return

    def _read_track(self, track: Track, budget: Budget) -> Iterator[Chunk]:
        around = self._around
        source = around.opened(track)
        if track.unreadable is not None:
            track.unreadable = None
            around.say(Notice("info", track.path, "can be read again"))
        if isinstance(source, PlainSource):
            if track.seat != "packed" and self._holds_packed_data(track, source):
                return
            unsure = track.stage in (Stage.UNJUDGED, Stage.WAITING) or not track.trail.offset
            if unsure and not self._judged(track, source):
                return
            self._verify(track, source)
        while True:
            cut = next_piece(source, track.trail, skipping=track.skipping)
            if cut.piece is None and cut.seen < track.seen:
                self._lost_its_last_line(track)
            track.look_to(max(cut.seen, track.trail.offset))
            piece = cut.piece
            if piece is None:
                break
            if piece.data:
                yield Chunk(ledger=self.live, path=track.path, offset=piece.offset, data=piece.data)
            moved = track.consume(piece)
            around.stats.bytes_read += moved
            budget.left -= moved
            if budget.left <= 0:
                return
        now_s = around.now_s()
        if isinstance(source, PlainSource):
            found = source.stat()
            track.note(found, now_s)
            if found.st_size > track.seen:
                return
        track.dirty = False
        if track.stage is Stage.READING and track.seat != "live":
            quiet = track.quiet_for_s(now_s) >= around.quiet_s or track.seat == "packed"
            if quiet:
                yield from self._finish(track)

    def _verify(self, track: Track, source: PlainSource) -> None:
        """Device and inode are the file's: see that its head still is, and all that is known of it after a restart."""
        trail = track.trail
        if track.unverified:
            changed = not self._holds_what_was_read(track, source)
        else:
            anchor = source.read_at(trail.offset - len(trail.anchor), len(trail.anchor))
            changed = anchor != trail.anchor or source.read_at(0, len(trail.head)) != trail.head
        if changed:
            raise ContentChanged

    def _holds_what_was_read(self, track: Track, source: PlainSource) -> bool:
        return compare(source.read_at, source.stat().st_size, track.trail) is not Relation.DIFFERENT

    def _finish(self, track: Track) -> Iterator[Chunk]:
        """The file is not written any more: its last line is whole even without its end."""
        source = self._around.opened(track)
        piece = last_piece(source, track.trail, skipping=track.skipping)
        if piece is not None:
            if piece.data:
                yield Chunk(ledger=self.live, path=track.path, offset=piece.offset, data=piece.data)
            self._around.stats.bytes_read += track.consume(piece)
        track.stage = Stage.FINISHED
        self._around.close(track)
        if track.seat in ("detached", "packed"):
            self._forget(track, owed=False)

    def _judged(self, track: Track, source: PlainSource) -> bool:
        """Whether the file is to be read now, after what of its content was read elsewhere."""
        self._verify_live_before(track)
        now_s = self._around.now_s()
        verdict = judge(
            track,
            source,
            tracks=self.tracks,
            past=self.past.contents,
            now_s=now_s,
            quiet_s=self._around.quiet_s,
        )
        if isinstance(verdict.copies, PastContent) and track.seat == "rotated":
            self._taken_along(verdict.copies)
        if verdict.trail is not None:
            track.trail = verdict.trail
            track.skipping = verdict.skipping
            track.look_to(verdict.trail.offset)
            if isinstance(verdict.copies, PastContent):
                self.past.settled(verdict.copies, up_to=verdict.trail.offset)
        if verdict.follows is not None:
            self.past.remove(verdict.follows)
            track.rotated_here = track.seat == "rotated"
        track.copies_live = isinstance(verdict.copies, Track) and verdict.copies.seat == "live"
        track.stage = verdict.stage
        if verdict.stage is Stage.READING:
            return True
        track.dirty = False
        track.unread_since_s = None
        if verdict.stage is Stage.FINISHED and track.seat == "detached":
            self._forget(track, owed=False)
        elif verdict.stage is Stage.FINISHED:
            self._around.close(track)
        return False

    def _verify_live_before(self, track: Track) -> None:
        """What another file is held against must be what the live one still holds: `LiveChanged` if it is not."""
        live = self._live_track()
        if live is None or live is track or not live.dirty or not live.trail.offset:
            return
        try:
            source = self._around.opened(live)
            if isinstance(source, PlainSource):
                self._verify(live, source)
        except OSError:
            return
        except ContentChanged as change:
            raise LiveChanged(live) from change

    def _taken_along(self, content: PastContent) -> None:
        """A rotated file repeats past content: what stands under the live name came after it.

        Unless the live file is another than the one that held it, and may itself repeat it: that is judged first.
        """
        live = self._live_track()
        held_it = live is not None and live.key == (content.position.device, content.position.inode)
        if live is None or held_it or live.stage is Stage.READING:
            content.position.rotated_here = True

    def _holds_packed_data(self, track: Track, source: PlainSource) -> bool:
        """Compressed data under a plain name is no ledger text; said once, and looked at again when it changes."""
        if track.trail.offset or not is_packed(source.read_at(0, 4)):
            return False
        track.dirty = False
        if track.path not in self._odd_files:
            self._odd_files.add(track.path)
            self._around.say(Notice("warning", track.path, "holds compressed data: not followed; name its plain file"))
        track.look_to(track.size)
        if track.seat == "detached":
            self._forget(track, owed=False)
        return True

    def _truncated(self, track: Track) -> None:
        around = self._around
        around.stats.truncations += 1
        now_s = around.now_s()
        size = track.source.stat().st_size if isinstance(track.source, PlainSource) else 0
        unread = track.unverified or track.known_bytes > track.trail.offset
        message = f"lost or changed what was read up to byte {track.trail.offset} (it has {size} bytes now)"
        around.say(Notice("warning", track.path, message + ": starts over with what is new in it"))
        copies = [other for other in self.tracks if other.copies_live]
        for copy in copies:
            copy.rotated_here = True
        self.past.add(track, owed=unread, vanished=not copies, rotated_here=bool(copies))
        track.size = size
        track.changed_s = now_s
        track.start_over(now_s)

    def _lost_its_last_line(self, track: Track) -> None:
        self._around.stats.truncations += 1
        track.size = track.trail.offset
        self._around.suspect_loss(track.path, "lost bytes of a last line that had no end yet")

    def _failed(self, track: Track, error: OSError) -> None:
        self._around.stats.read_errors += 1
        why = error.strerror or str(error)
        if track.failed(why, self._around.now_s()):
            self._around.say(Notice("warning", track.path, f"cannot be read: {why}; tried again every second"))

    # -- what is known ------------------------------------------------------------------------------------------

    def positions(self) -> LedgerPositions:
        """To be kept, and handed to the next `LedgerTail` of the same live name."""
        return LedgerPositions(
            files=[track.position() for track in self.tracks],
            past=self.past.kept(),
            packed_seen=self.past.packed_seen(),
        )

    def _live_track(self) -> Track | None:
        return next((track for track in reversed(self.tracks) if track.seat == "live"), None)

    def _live_key(self) -> Key | None:
        live = self._live_track()
        return live.key if live is not None else None
