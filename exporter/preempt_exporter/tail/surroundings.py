"""What the files of all ledgers share: the clock, the file system, the counters, and the budget of descriptors."""

import os
from collections import OrderedDict
from contextlib import suppress

from preempt_exporter.clock import Clock
from preempt_exporter.tail.folders import Folders
from preempt_exporter.tail.positions import Notice, TailStats
from preempt_exporter.tail.source import OpenFile, PackedSource, PlainSource
from preempt_exporter.tail.track import Key, Stage, Track

_NOTICES_KEPT = 1000


class FileMoved(Exception):
    """The path no longer leads to the file that was found there."""


class Surroundings:
    """Passed down, never global."""

    def __init__(
        self, *, clock: Clock, folders: Folders, open_file: OpenFile, quiet_s: float, max_open_files: int
    ) -> None:
        """`quiet_s`: how long a rotated or deleted file must not change before it counts as finished."""
        self.clock = clock
        self.folders = folders
        self.quiet_s = quiet_s
        self.stats = TailStats()
        self.notices: list[Notice] = []
        self.owners: dict[Key, object] = {}
        self.link_targets: set[str] = set()
        self.resolutions = 0
        """How often any ledger's names were matched with its files."""
        self._turn = 0
        self._open_file = open_file
        self._max_open_files = max_open_files
        self._open: OrderedDict[Track, None] = OrderedDict()

    def next_turn(self) -> int:
        """A number higher than any before."""
        self._turn += 1
        return self._turn

    def now_s(self) -> float:
        """Monotonic seconds."""
        return self.clock.monotonic_s()

    def real_path(self, path: str) -> str:
        """`path` without symbolic links; the folder that a link leads to is one to watch."""
        real = os.path.realpath(path)
        if os.path.basename(real) != os.path.basename(path):
            self.link_targets.add(os.path.dirname(real))
        return real

    def say(self, notice: Notice) -> None:
        """Keep a notice until it is fetched; beyond a thousand the newest are dropped."""
        if len(self.notices) < _NOTICES_KEPT:
            self.notices.append(notice)

    def suspect_loss(self, path: str, message: str) -> None:
        """Count and say that lines may be missing or doubled."""
        self.stats.suspected_loss += 1
        self.say(Notice("warning", path, message))

    def opened(self, track: Track) -> PlainSource | PackedSource:
        """The track's source, opened if need be. `OSError`; `FileMoved` when the name leads nowhere or elsewhere."""
        if track.source is None:
            try:
                source = PlainSource(self._open_file(track.path))
            except (FileNotFoundError, NotADirectoryError) as error:
                raise FileMoved from error
            found = source.stat()
            if (found.st_dev, found.st_ino) != track.key:
                source.close()
                raise FileMoved
            track.source = source
        self._open[track] = None
        self._open.move_to_end(track)
        self._close_surplus(track)
        return track.source

    def opened_packed(self, path: str) -> PackedSource:
        """The compressed form at `path`. `OSError` when it cannot be opened."""
        return PackedSource(path, self._open_file)

    def open_early(self, track: Track) -> None:
        """Open a file that is to be read, while there are descriptors left: what is open survives its deletion."""
        if track.source is not None or track.stage is Stage.FINISHED or len(self._open) >= self._max_open_files:
            return
        with suppress(OSError, FileMoved):
            self.opened(track)

    def close(self, track: Track) -> None:
        """Let go of the track's descriptor."""
        self._open.pop(track, None)
        track.close()

    def close_all(self) -> None:
        """Let go of every descriptor."""
        for track in list(self._open):
            self.close(track)

    def _close_surplus(self, needed: Track) -> None:
        """Close what was used longest ago; a file that has lost its name could never be opened again and stays."""
        if len(self._open) <= self._max_open_files:
            return
        for track in self._open:
            if track is not needed and track.seat in ("live", "rotated") and not track.dirty:
                self.close(track)
                return
