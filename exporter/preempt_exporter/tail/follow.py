"""The tail: whole lines of every ledger that the arguments mean, each exactly once, pulled by one thread."""

import heapq
import os
from collections.abc import Collection, Iterator, Sequence

from msgspec.structs import replace

from preempt_exporter.clock import Clock
from preempt_exporter.ledger.chunk import Chunk
from preempt_exporter.tail.folders import Folders, ListFolder, list_entries
from preempt_exporter.tail.ledger_tail import Budget, LedgerTail
from preempt_exporter.tail.ledgers import LedgerFiles, covers, find_ledgers
from preempt_exporter.tail.positions import FileState, LedgerPositions, Notice, Positions, TailStats
from preempt_exporter.tail.source import OpenFile, open_regular
from preempt_exporter.tail.standing import Standing
from preempt_exporter.tail.surroundings import Surroundings
from preempt_exporter.tail.track import Track

QUIET_S = 5.0
"""How long a rotated or deleted file must not change before it is finished, and a copy before it adds nothing."""
FULL_SCAN_S = 10.0
"""How often every folder is listed and every name looked up, whatever times and notifications say."""
LOOKS_PER_S = 1000
"""Idle files and folders looked at per second, at most."""
LOOK_SHARE = 0.002
"""How much of the time looking at idle folders may take, and at idle files: a look costs 4 µs here, 20 µs there."""
_MIN_LOOKS = 32
_ROOM_EVERY_S = 10.0


class Tail:
    """Follows ledgers. Call `scan`, then drain `read`; both from one thread, as often as `watch.Watch` wakes you."""

    def __init__(
        self,
        patterns: Sequence[str],
        *,
        clock: Clock,
        positions: Positions | None = None,
        quiet_s: float = QUIET_S,
        max_open_files: int = 256,
        open_file: OpenFile = open_regular,
        list_folder: ListFolder = list_entries,
    ) -> None:
        """`patterns`: files, folders and globs, existing or not (`ledgers.find_ledgers`). Nothing is touched yet.

        `positions`: where an earlier tail stood; lines before that are not handed out again. `max_open_files` bounds
        the descriptors held; files that lost their name while being read come on top. `open_file` and `list_folder`
        are arguments so that a test can make them fail.
        """
        self._patterns = list(patterns)
        self._clock = clock
        self._folders = Folders(clock, list_folder)
        self._around = Surroundings(
            clock=clock,
            folders=self._folders,
            open_file=open_file,
            quiet_s=quiet_s,
            max_open_files=max_open_files,
        )
        self._kept = positions if positions is not None else Positions()
        self._ledgers: dict[str, LedgerTail] = {}
        self._busy: dict[str, LedgerTail] = {}
        self._started = False
        self._catching_up: list[Track] = []
        self._full_scan_s = float("-inf")
        self._scanned_s = clock.monotonic_s()
        self._idle_turn: Iterator[LedgerTail] = iter(())
        self._folder_turn: Iterator[str] = iter(())
        self._first_to_read = 0
        self._idle_standing: Standing | None = None
        """How the ledgers that are not busy stand in sum; None: to be summed up again."""
        self._room_s = float("-inf")
        self._folder_errors: dict[str, str] = {}

    # -- looking ------------------------------------------------------------------------------------------------

    def scan(self, changed: Collection[str] = ()) -> None:
        """Find files and see what happened to them: `fstat`, names and folder times decide.

        `changed`: paths of files or folders that a notification named; they are looked at now. Otherwise files that
        changed lately are looked at every time and idle ones in turn, at most `LOOKS_PER_S` and for no longer than
        `LOOK_SHARE` of the time, with everything listed anew every `FULL_SCAN_S`.
        """
        now_s = self._clock.monotonic_s()
        since_s = now_s - self._scanned_s
        self._scanned_s = now_s
        full = now_s - self._full_scan_s >= FULL_SCAN_S and len(self._folders.paths()) <= LOOKS_PER_S
        if full:
            self._full_scan_s = now_s
        if self._refresh_folders(changed, since_s, full=full):
            self._find_ledgers()
        self._observe(changed, since_s)
        if not self._started:
            self._started = True
            self._begin_catching_up()
        if now_s - self._room_s >= _ROOM_EVERY_S:
            self._room_s = now_s
            self._measure_room()

    def folders(self) -> list[str]:
        """The folders whose changes matter, existing or not: what a watch has to cover."""
        return [*self._folders.paths(), *self._around.link_targets]

    def _refresh_folders(self, changed: Collection[str], since_s: float, *, full: bool) -> bool:
        """Whether any folder's names changed."""
        if not self._started:
            return True
        known = self._folders.paths()
        due = set(known) if full else {*changed, *map(os.path.dirname, changed)}.intersection(known)
        news = [self._folders.refresh(path, force=full) for path in due]
        if not full:
            for _ in self._looks(len(known), since_s):
                path = next(self._folder_turn, None)
                if path is None:
                    self._folder_turn = iter(known)
                    path = next(self._folder_turn)
                if path not in due:
                    news.append(self._folders.refresh(path))
        return any(news)

    def _looks(self, most: int, since_s: float) -> Iterator[None]:
        """As many turns as idle things may be looked at, `since_s` seconds after the last time."""
        stop_s = self._clock.monotonic_s() + since_s * LOOK_SHARE
        for look in range(min(most, max(_MIN_LOOKS, int(since_s * LOOKS_PER_S)))):
            if look >= _MIN_LOOKS and self._clock.monotonic_s() > stop_s:
                return
            yield

    def _find_ledgers(self) -> None:
        found = find_ledgers(self._patterns, self._folders)
        changed: list[LedgerTail] = []
        if not self._started:
            for live, kept in self._kept.ledgers.items():
                self._ledgers[live] = LedgerTail(found.get(live, LedgerFiles(live)), self._around, kept)
            changed += self._ledgers.values()
        for live, files in found.items():
            ledger = self._ledgers.get(live)
            if ledger is None:
                ledger = self._ledgers[live] = LedgerTail(files, self._around)
                changed.append(ledger)
            elif not ledger.seating.sits_as(files, self._inodes(files)):
                changed.append(ledger)
        if not self._started:
            self._hand_over(found)
        for live in self._ledgers.keys() - found.keys():
            self._ledgers[live].seating.files = LedgerFiles(live)
            changed.append(self._ledgers[live])
        for ledger in dict.fromkeys(changed):
            ledger.seating.resolve()
            self._busy[ledger.live] = ledger
        self._drop_empty(found)
        self._say_folder_errors()

    def _inodes(self, files: LedgerFiles) -> tuple[int | None, ...]:
        folder, name = os.path.split(files.live)
        listed = self._folders.get(folder).files
        return (listed.get(name), *(listed.get(os.path.basename(path)) for path in files.rotated))

    def _hand_over(self, found: dict[str, LedgerFiles]) -> None:
        """Files that moved to another ledger's names while nobody looked go on where they were left."""
        for live, files in found.items():
            for path in (*files.rotated, live):
                self._ledgers[live].seating.claim(path)

    def _drop_empty(self, found: dict[str, LedgerFiles]) -> None:
        for live in [live for live in self._ledgers if live not in found]:
            ledger = self._ledgers[live]
            unwanted = not covers(self._patterns, live)
            if unwanted:
                ledger.seating.let_go()
            if unwanted or not ledger.seating.is_followed():
                del self._ledgers[live]
                self._busy.pop(live, None)

    def _say_folder_errors(self) -> None:
        errors = {path: error for path in self._folders.paths() if (error := self._folders.get(path).error) is not None}
        for path, error in errors.items():
            self._around.stats.read_errors += 1
            if self._folder_errors.get(path) != error:
                message = f"folder cannot be listed: {error}; tried again every few seconds"
                self._around.say(Notice("warning", path, message))
        self._folder_errors = errors

    def _observe(self, changed: Collection[str], since_s: float) -> None:
        due = dict(self._busy)
        for path in changed:
            ledger = self._ledgers.get(path)
            if ledger is not None:
                due[path] = ledger
        for ledger in due.values():
            self._look_at(ledger)
        for _ in self._looks(len(self._ledgers), since_s):
            ledger = next(self._idle_turn, None)
            if ledger is None:
                self._idle_turn = iter(list(self._ledgers.values()))
                ledger = next(self._idle_turn)
            if ledger.live not in due and self._ledgers.get(ledger.live) is ledger:
                self._look_at(ledger)

    def _look_at(self, ledger: LedgerTail) -> None:
        ledger.seating.observe()
        if ledger.is_hot():
            if ledger.live not in self._busy:
                self._idle_standing = None
            self._busy[ledger.live] = ledger
        elif self._busy.pop(ledger.live, None) is not None:
            self._idle_standing = None

    # -- reading ------------------------------------------------------------------------------------------------

    def read(self, max_bytes: int) -> Iterator[Chunk]:
        """Whole lines that are there now, about `max_bytes` at most, fairly over the ledgers.

        Fold each chunk before you ask for the next: once the iterator is advanced past it, `positions` includes it.
        Drain the iterator; a chunk that was taken and not advanced past comes again. Errors are counted, said by
        `take_notices`, and tried again; none is raised.
        """
        budget = Budget(max_bytes)
        waiting = [ledger for ledger in self._busy.values() if ledger.wants_reading()]
        first = self._first_to_read % len(waiting) if waiting else 0
        for ledger in waiting[first:] + waiting[:first]:
            if budget.left <= 0:
                break
            self._first_to_read += 1
            yield from ledger.read(budget)

    def has_more(self) -> bool:
        """Whether `read` would hand out something right now, so that there is no need to wait first."""
        return any(ledger.wants_reading() for ledger in self._busy.values())

    def caught_up(self) -> bool:
        """Whether every readable file was read to the size it had at the first scan; true for good once it is.

        Files that are unreadable, vanish or shrink meanwhile, and copies of what was read, do not hold it up.
        """
        if not self._started:
            return False
        present = (
            {track for ledger in self._ledgers.values() for track in ledger.seating.tracks} if self._catching_up else ()
        )
        self._catching_up = [
            track for track in self._catching_up if track in present and not track.reached_start_size()
        ]
        return not self._catching_up

    def _begin_catching_up(self) -> None:
        for ledger in self._ledgers.values():
            for track in ledger.seating.tracks:
                track.start_size = track.size
                self._catching_up.append(track)

    # -- what is known ------------------------------------------------------------------------------------------

    def followed(self) -> set[str]:
        """The live names of the ledgers that have a file, or of which one may still be found or reached."""
        return {live for live, ledger in self._ledgers.items() if ledger.seating.is_followed()}

    def positions(self) -> Positions:
        """Where every file was left. Valid until the next `read`; encode it together with the state it belongs to."""
        if not self._started:
            return self._kept
        ledgers: dict[str, LedgerPositions] = {}
        for live, ledger in self._ledgers.items():
            ledgers[live] = ledger.positions()
        return Positions(ledgers=ledgers)

    def state_version(self) -> tuple[int, bool]:
        """Changes with `positions` where `stats` do not tell: names sorted out anew, and files that are settling."""
        return self._around.resolutions, bool(self._busy)

    @property
    def stats(self) -> TailStats:
        """Counters since the start, and gauges as of now."""
        stats = self._around.stats
        now_s = self._clock.monotonic_s()
        idle = self._idle_standing
        if idle is None or idle.resolutions != self._around.resolutions:
            idle = Standing(resolutions=self._around.resolutions)
            for live, ledger in self._ledgers.items():
                if live not in self._busy:
                    idle.add(ledger.seating)
            self._idle_standing = idle
        now = replace(idle)
        for live, ledger in self._busy.items():
            if live in self._ledgers:
                now.add(ledger.seating)
        stats.files = now.files
        stats.unreadable_files = now.unreadable + len(self._folder_errors)
        stats.lag_bytes = now.lag_bytes
        stats.pending_bytes = now.pending_bytes
        stats.lag_seconds = 0.0 if now.unread_since_s is None else max(now_s - now.unread_since_s, 0.0)
        return stats

    def files(self, limit: int) -> list[FileState]:
        """The followed files, at most `limit`: those that cannot be read and those furthest behind first.

        Folders that cannot be listed and names that cannot be reached come before them: what they hold is unknown.
        """
        hidden = [FileState(path, 0, f"folder cannot be listed: {why}") for path, why in self._folder_errors.items()]
        for ledger in self._ledgers.values():
            unreadable = ledger.seating.unreachable | ledger.seating.past.unreadable
            hidden += [FileState(path, 0, why) for path, why in unreadable.items()]
        tracks = (track for ledger in self._ledgers.values() for track in ledger.seating.tracks)
        worst = heapq.nlargest(limit, tracks, key=lambda track: (track.unreadable is not None, track.lag_bytes))
        return [*hidden, *(FileState(track.path, track.lag_bytes, track.unreadable) for track in worst)][:limit]

    def take_notices(self) -> list[Notice]:
        """What happened since the last call and deserves a line in the log."""
        notices = self._around.notices
        self._around.notices = []
        return notices

    def close(self) -> None:
        """Let go of every descriptor; `positions` stays as it is."""
        self._around.close_all()

    def _measure_room(self) -> None:
        """The least room over the file systems of the folders."""
        room: dict[int, int] = {}
        for path in self._folders.paths():
            try:
                device = os.stat(path).st_dev
                if device not in room:
                    found = os.statvfs(path)
                    room[device] = found.f_bavail * found.f_frsize
            except OSError:
                continue
        self._around.stats.filesystem_avail_bytes = min(room.values(), default=None)
