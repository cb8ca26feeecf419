"""One file of a ledger while it is followed: its name now, how far it was read, and whether it wants reading."""

import enum
import os

from msgspec.structs import replace

from preempt_exporter.tail.identity import Trail
from preempt_exporter.tail.lines import Piece
from preempt_exporter.tail.positions import FilePosition, Seat
from preempt_exporter.tail.source import PackedSource, PlainSource

Key = tuple[int, int]
"""Device and inode."""

RETRY_S = 1.0
IDLE_S = 600.0
"""Who deletes a ledger that was read so long ago is clearing up."""
HOT_S = 10.0
"""How long after its last change a file is looked at on every scan."""


class Stage(enum.Enum):
    """What is to be done with a file's next bytes."""

    UNJUDGED = "unjudged"
    """Nothing was read under this identity: first see whether the content was read under another."""
    WAITING = "waiting"
    """So far all of it was read elsewhere: perhaps a copy in the making."""
    READING = "reading"
    FINISHED = "finished"


class Track:
    """Mutable; only its `LedgerTail` changes it."""

    def __init__(self, path: str, key: Key, seat: Seat, now_s: float) -> None:
        """A file first noticed at `now_s` (monotonic seconds), of which nothing was read."""
        self.path = path
        self.real_path = path
        self.key = key
        self.seat: Seat = seat
        self.trail = Trail()
        self.skipping = False
        self.stage = Stage.UNJUDGED
        self.rotated_here = False
        self.turn = 0
        """Grows in reading order with every look at the names: which of two files was the later one when last seen."""
        self.found_s = now_s
        self.empty_s: float | None = None
        """When the live file was seen empty: what it holds since was written after that."""
        self.source: PlainSource | PackedSource | None = None
        self.size = 0
        self.seen = 0
        self.mtime_ns = 0
        self.changed_s = now_s
        self.unread_since_s: float | None = None
        self.dirty = True
        self.unverified = False
        self.known_bytes = 0
        self.rechecked = False
        """Whether it was looked at once more after its last change: times of one tick hide a rewrite of equal size."""
        self.copies_live = False
        self.superseded = False
        """Another file goes on with its content: nothing is owed if it vanishes."""
        self.unreadable: str | None = None
        self.retry_s = 0.0
        self.start_size: int | None = None

    @classmethod
    def restored_from(cls, position: FilePosition, now_s: float) -> "Track":
        """The track that `position` was made of; its content is held against the trail before anything is read."""
        track = cls(position.path, (position.device, position.inode), position.seat, now_s)
        track.real_path = position.real_path
        track.trail = replace(position.trail)
        track.skipping = position.skipping
        track.seen = track.size = position.trail.offset
        # Without content to hold against it, an inode is no evidence over a restart.
        track.rotated_here = position.rotated_here and position.trail.offset > 0
        track.unverified = True
        if position.finished:
            track.stage = Stage.FINISHED
        elif not position.unjudged and position.trail.offset:
            track.stage = Stage.READING
        return track

    def position(self) -> FilePosition:
        """The track as it is to be kept."""
        return FilePosition(
            path=self.path,
            real_path=self.real_path,
            device=self.key[0],
            inode=self.key[1],
            seat=self.seat,
            trail=self.trail,
            skipping=self.skipping,
            unjudged=self.stage in (Stage.UNJUDGED, Stage.WAITING) or self.may_be_a_copy(),
            finished=self.stage is Stage.FINISHED or self.superseded,
            rotated_here=self.rotated_here,
        )

    def note(self, found: os.stat_result, now_s: float) -> None:
        """Take in what `stat` or `fstat` says; a change makes the file want reading."""
        if (found.st_size, found.st_mtime_ns) == (self.size, self.mtime_ns):
            return
        self.mtime_ns = found.st_mtime_ns
        if found.st_size < self.size:
            self.known_bytes = max(self.known_bytes, self.size)
        self.size = found.st_size
        self.changed_s = now_s
        self.dirty = True
        self.rechecked = False
        if self.size > self.seen and self.unread_since_s is None:
            self.unread_since_s = now_s
        if self.size == 0 and self.seat == "live" and not self.trail.offset:
            self.empty_s = now_s
        if self.stage is Stage.FINISHED:
            self.stage = Stage.READING
            if not self.trail.offset:
                # It ended empty: nothing says that it is still the same file and no copy that got its inode.
                self.rotated_here = False
                self.empty_s = None
                self.found_s = now_s
        if self.stage is Stage.READING and self.may_be_a_copy():
            self.stage = Stage.UNJUDGED

    def may_be_a_copy(self) -> bool:
        """Whether new bytes in it may be those of another file: it never was the live one."""
        return self.seat == "rotated" and not self.rotated_here

    def is_undecided(self) -> bool:
        """Whether it is still to be told what of its content was read under another identity."""
        return self.stage in (Stage.UNJUDGED, Stage.WAITING) and self.size > 0 and self.unreadable is None

    def quiet_for_s(self, now_s: float) -> float:
        """Seconds since the file was last seen to change."""
        return now_s - self.changed_s

    def is_idle(self, now_s: float) -> bool:
        """Whether it has stood unchanged and read to its end for so long that its deletion is no surprise."""
        read_to_its_end = not self.unverified and self.size == self.trail.offset
        return read_to_its_end and self.quiet_for_s(now_s) >= IDLE_S

    def wants_reading(self, now_s: float, quiet_s: float) -> bool:
        """Whether a read may bring something: new bytes, a timer that ran out, or an error to be tried again."""
        if self.unreadable is not None:
            return now_s >= self.retry_s
        if self.dirty:
            return True
        recheck = self.stage is Stage.READING and not self.rechecked
        timed = recheck or self.stage is Stage.WAITING or (self.seat != "live" and self.stage is not Stage.FINISHED)
        return timed and self.quiet_for_s(now_s) >= quiet_s

    def is_hot(self, now_s: float) -> bool:
        """Whether the file is to be looked at on every scan."""
        return (
            self.dirty
            or self.unreadable is not None
            or self.stage is Stage.WAITING
            or (self.seat != "live" and self.stage is not Stage.FINISHED)
            or self.quiet_for_s(now_s) < HOT_S
        )

    def consume(self, piece: Piece) -> int:
        """Move past a piece that was handed out; the number of bytes."""
        moved = piece.trail.offset - self.trail.offset
        self.trail = piece.trail
        self.skipping = piece.skipping
        self.look_to(piece.trail.offset)
        return moved

    def look_to(self, seen: int) -> None:
        """The file was looked at up to `seen`."""
        self.seen = seen
        self.size = max(self.size, seen)
        self.known_bytes = self.size
        self.unverified = False
        if self.seen >= self.size:
            self.unread_since_s = None

    def start_over(self, now_s: float) -> None:
        """Forget what was read: the file holds something else now."""
        self.trail = Trail()
        self.skipping = False
        self.found_s = now_s
        self.seen = self.known_bytes = 0
        self.copies_live = self.unverified = False
        self.stage = Stage.UNJUDGED
        self.empty_s = now_s if self.size == 0 and self.seat == "live" else None
        self.rotated_here = False
        self.dirty = True

    def failed(self, why: str, now_s: float) -> bool:
        """Cannot be read now; whether that is news."""
        news = self.unreadable != why
        self.unreadable = why
        self.retry_s = now_s + RETRY_S
        return news

    def close(self) -> None:
        """Let go of the descriptor."""
        if self.source is not None:
            self.source.close()
            self.source = None

    @property
    def lag_bytes(self) -> int:
        """Bytes not consumed."""
        if self.stage in (Stage.WAITING, Stage.FINISHED) or self.unreadable is not None:
            return 0
        return max(self.size - self.trail.offset, 0)

    @property
    def pending_bytes(self) -> int:
        """Bytes of a line whose end is still missing."""
        return min(max(self.seen - self.trail.offset, 0), self.lag_bytes)

    def reached_start_size(self) -> bool:
        """Whether this file no longer keeps the tail from having caught up."""
        return (
            self.start_size is None
            or self.seen >= self.start_size
            or self.size < self.start_size
            or self.unreadable is not None
            or self.stage in (Stage.WAITING, Stage.FINISHED)
        )
