"""One ledger followed: the next whole lines in reading order."""

from collections.abc import Iterator
from contextlib import suppress

from preempt_exporter.ledger.chunk import Chunk
from preempt_exporter.tail.judge import judge, verify
from preempt_exporter.tail.ledgers import LedgerFiles
from preempt_exporter.tail.lines import ContentChanged, last_piece, next_piece
from preempt_exporter.tail.positions import LedgerPositions, Notice, PastContent
from preempt_exporter.tail.seating import Seating
from preempt_exporter.tail.source import STATE_MAGIC, DamagedFile, PackedSource, PlainSource, is_our_state, is_packed
from preempt_exporter.tail.surroundings import FileMoved, Surroundings
from preempt_exporter.tail.track import Stage, Track

_MAX_RESTARTS = 8


class Budget:
    """How many bytes a read may still hand out."""

    def __init__(self, max_bytes: int) -> None:
        """At least one chunk goes out whatever the number."""
        self.left = max_bytes


class OtherChanged(Exception):
    """A file turned out to be truncated or rewritten while another was held against it."""

    def __init__(self, other: Track) -> None:
        """`other`: the track whose content changed."""
        super().__init__()
        self.other = other


class LedgerTail:
    """Hands out one ledger's lines. Each file is read to its present end before the next."""

    def __init__(self, files: LedgerFiles, around: Surroundings, kept: LedgerPositions | None = None) -> None:
        """`kept`: where an earlier tail of the same ledger stood."""
        self.live = files.live
        self.seating = Seating(files, around, kept)
        self._said_no_ledger: set[str] = set()
        self._around = around

    def wants_reading(self) -> bool:
        """Whether `read` may bring something now."""
        now_s = self._around.now_s()
        quiet_s = self._around.quiet_s
        return self.seating.past.wants_a_look(now_s) or any(
            track.wants_reading(now_s, quiet_s) for track in self.seating.tracks
        )

    def is_hot(self) -> bool:
        """Whether the ledger is to be looked at on every scan."""
        now_s = self._around.now_s()
        return self.seating.past.waits() or any(track.is_hot(now_s) for track in self.seating.tracks)

    def read(self, budget: Budget) -> Iterator[Chunk]:
        """Chunks in reading order until everything is read or the budget is used up."""
        self.seating.forget_the_oldest()
        for _ in range(_MAX_RESTARTS):
            self._take_up_remainders()
            for track in list(self.seating.tracks):
                if budget.left <= 0:
                    return
                if not track.wants_reading(self._around.now_s(), self._around.quiet_s):
                    continue
                try:
                    yield from self._read_track(track, budget)
                except (ContentChanged, OtherChanged, FileMoved) as change:
                    if isinstance(change, OtherChanged):
                        self._truncated(change.other)
                    elif isinstance(change, ContentChanged):
                        self._truncated(track)
                    self.seating.relist()
                    for other in self.seating.tracks:
                        other.dirty = other.dirty or other.stage is Stage.WAITING
                    break
                except DamagedFile:
                    self.seating.past.put_back(track)
                    self.seating.tracks.remove(track)
                except OSError as error:
                    self._failed(track, error)
            else:
                return

    def _take_up_remainders(self) -> None:
        """Vanished files that go on in a compressed form come before everything else."""
        found: list[Track] = []
        seating = self.seating
        trails = [track.trail for track in seating.tracks]
        leaving = any(track.seat == "detached" for track in seating.tracks)
        while (track := seating.past.find_remainder(seating.files.packed, trails, leaving=leaving)) is not None:
            found.append(track)
        after = sum(track.seat == "packed" for track in seating.tracks)
        seating.tracks[after:after] = found

    def _read_track(self, track: Track, budget: Budget) -> Iterator[Chunk]:
        around = self._around
        track.dirty = True  # Until it is looked at to its end: no other file takes its descriptor meanwhile.
        source = around.opened(track)
        if track.unreadable is not None:
            track.unreadable = None
            around.say(Notice("info", track.path, "can be read again"))
        if isinstance(source, PlainSource):
            if track.seat != "packed" and self._is_no_ledger(track, source):
                return
            verify(track, source)
            unsure = track.stage in (Stage.UNJUDGED, Stage.WAITING) or not track.trail.offset
            if unsure and not self._judged(track, source):
                return
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
        track.rechecked = track.quiet_for_s(now_s) >= around.quiet_s
        if track.stage is Stage.READING and track.seat != "live" and track.rechecked:
            if isinstance(source, PackedSource) and source.has_changed():
                raise DamagedFile("it was still being written")
            yield from self._finish(track)

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
            self.seating.forget(track, owed=False)

    def _judged(self, track: Track, source: PlainSource) -> bool:
        """Whether the file is to be read now, after what of its content was read elsewhere."""
        self._verify_others(track)
        now_s = self._around.now_s()
        verdict = judge(
            track,
            source,
            tracks=self.seating.tracks,
            past=self.seating.past.contents,
            now_s=now_s,
            quiet_s=self._around.quiet_s,
        )
        if isinstance(verdict.copies, PastContent) and track.seat == "rotated":
            self._taken_along(verdict.copies)
        if verdict.trail is not None:
            track.trail = verdict.trail
            track.skipping = verdict.skipping
            track.look_to(verdict.trail.offset)
            if isinstance(verdict.copies, Track) and verdict.copies.seat == "detached":
                verdict.copies.superseded = True
            if isinstance(verdict.copies, PastContent):
                self.seating.past.settled(verdict.copies, up_to=verdict.trail.offset)
        if verdict.likely:
            message = "begins with the last lines that were read, older ones cut off: goes on after them"
            self._around.suspect_loss(track.path, message)
        if verdict.follows is not None:
            self.seating.past.remove(verdict.follows)
            track.rotated_here = track.seat == "rotated" and verdict.follows.position.rotated_here
        track.copies_live = isinstance(verdict.copies, Track) and verdict.copies.seat == "live"
        track.stage = verdict.stage
        if verdict.stage is Stage.READING:
            return True
        track.dirty = False
        track.unread_since_s = None
        if verdict.stage is Stage.FINISHED and track.seat == "detached":
            self.seating.forget(track, owed=False)
        elif verdict.stage is Stage.FINISHED:
            self._around.close(track)
        return False

    def _verify_others(self, track: Track) -> None:
        """What `track` is held against must be what the others still hold: `OtherChanged` if it is not."""
        for other in self.seating.tracks:
            if other is track or other.seat == "packed" or not other.dirty or not other.trail.offset:
                continue
            try:
                source = self._around.opened(other)
                if isinstance(source, PlainSource):
                    verify(other, source)
            except OSError:
                continue
            except ContentChanged as change:
                raise OtherChanged(other) from change

    def _taken_along(self, content: PastContent) -> None:
        """A rotated file repeats past content: what stands under the live name came after it.

        Unless the live file is another than the one that held it, and may itself repeat it: that is judged first.
        """
        live = self.seating.live_track()
        held_it = live is not None and live.key == (content.position.device, content.position.inode)
        if live is None or held_it or live.stage is Stage.READING:
            content.position.rotated_here = True

    def _is_no_ledger(self, track: Track, source: PlainSource) -> bool:
        """Compressed data under a plain name and state files are none; said once, looked at again when it changes."""
        begin = b"" if track.trail.offset else source.read_at(0, len(STATE_MAGIC))
        if not (is_packed(begin) or is_our_state(begin)):
            return False
        track.dirty = False
        if track.path not in self._said_no_ledger:
            self._said_no_ledger.add(track.path)
            what = "holds compressed data" if is_packed(begin) else "is an exporter's state file"
            self._around.say(Notice("warning", track.path, f"{what}: not followed; name plain ledgers"))
        track.look_to(track.size)
        track.stage = Stage.FINISHED
        if track.seat == "detached":
            self.seating.forget(track, owed=False)
        return True

    def _truncated(self, track: Track) -> None:
        around = self._around
        around.stats.truncations += 1
        now_s = around.now_s()
        size = 0
        with suppress(OSError):
            size = track.source.stat().st_size if isinstance(track.source, PlainSource) else 0
        unread = track.unverified or track.known_bytes > track.trail.offset
        message = f"lost or changed what was read up to byte {track.trail.offset} (it has {size} bytes now)"
        around.say(Notice("warning", track.path, message + ": starts over with what is new in it"))
        copies = [other for other in self.seating.tracks if other.copies_live]
        for copy in copies:
            copy.rotated_here = True
        self.seating.past.add(track, owed=unread, vanished=not copies, rotated_here=bool(copies))
        track.size = size
        track.changed_s = now_s
        track.start_over(now_s)

    def _lost_its_last_line(self, track: Track) -> None:
        self._around.stats.truncations += 1
        track.size = track.trail.offset
        self._around.suspect_loss(track.path, "lost bytes of a last line that had no end yet")

    def _failed(self, track: Track, error: OSError) -> None:
        self._around.stats.read_errors += 1
        if track.seat != "detached":
            self._around.close(track)  # A stale handle of a network file system is good for nothing more.
        why = error.strerror or str(error)
        if track.failed(why, self._around.now_s()):
            self._around.say(Notice("warning", track.path, f"cannot be read: {why}; tried again every second"))

    def positions(self) -> LedgerPositions:
        """To be kept, and handed to the next `LedgerTail` of the same live name."""
        positions = LedgerPositions(files=[track.position() for track in self.seating.tracks])
        self.seating.past.remember_in(positions)
        return positions
