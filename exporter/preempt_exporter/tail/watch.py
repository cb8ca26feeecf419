"""Waking up: notifications where they work, a slow poll beside them, and polling alone where they do not.

A notification only wakes the reader, and names what to look at first; sizes, names and offsets decide. None has to
arrive: queues overflow, watches run out, threads die, network file systems do not tell. watchdog watches folders, one
thread each, and holds an unpaired rename back for half a second, which the poll does not.
"""

import errno
import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

from watchdog.events import FileClosedNoWriteEvent, FileOpenedEvent, FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, ObservedWatch

from preempt_exporter.clock import Clock
from preempt_exporter.tail.positions import Notice

Mode = Literal["auto", "poll"]

ACTIVE_POLL_S = 0.1
"""Longest wait while something happened within `ACTIVE_S`."""
ACTIVE_S = 2.0
IDLE_POLL_S = 1.0
"""Longest wait beside notifications that seem to work."""
POLL_S = 0.25
"""Longest wait without them."""
COVER_EVERY_S = 60.0
"""How often links are followed anew while the folders stay the same and those watched are where they were."""
GAP_S = 0.02
"""Shortest time between two wakes: a busy writer wakes us fifty times a second, not once per line."""
REST_PER_LOOK = 3.0
"""A look takes in all that was written meanwhile: after a long one, at thousands of busy ledgers, the reader rests."""
MAX_REST_S = 0.2
MAX_WATCHED_FOLDERS = 64
_MAX_NAMED = 10_000
_NETWORK = (
    *("9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs"),
    *("glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "pvfs2", "smb3", "smbfs"),
    *("vboxsf", "virtiofs"),
)


class Watch(FileSystemEventHandler):
    """Wakes one waiting thread. `cover` the tail's folders, `wait`, hand `take_changed` to `Tail.scan`."""

    def __init__(
        self,
        *,
        clock: Clock,
        mode: Mode = "auto",
        observer: Callable[[], BaseObserver] = Observer,
        filesystem_type: Callable[[str], str] | None = None,
    ) -> None:
        """`observer` and `filesystem_type` (of the file system that a path is on) are arguments for tests."""
        self._clock = clock
        self._make_observer = observer
        self._filesystem_type = filesystem_type or mounted_type
        self._observer: BaseObserver | None = None
        self._polls_only = mode == "poll"
        self._watched: dict[str, tuple[ObservedWatch, tuple[int, int]]] = {}
        self._names: dict[str, set[str]] = {}
        self._covered: list[str] = []
        self._covered_s = float("-inf")
        self._refused: set[str] = set()
        self._said_too_many = False
        self._woken = threading.Event()
        self._urgent = threading.Event()
        self._lock = threading.Lock()
        self._changed: set[str] = set()
        self._notices: list[Notice] = []
        self._active_s = float("-inf")
        self._returned_s = clock.monotonic_s()

    @property
    def polls(self) -> bool:
        """Whether some folder that was to be covered is polled only."""
        return self._polls_only or bool(self._refused)

    def cover(self, folders: Iterable[str]) -> None:
        """Watch these folders as far as they exist, and no others; call it again whenever they may have changed."""
        if self._polls_only:
            return
        moved = [real for real, (_, watched) in self._watched.items() if _identity(real) != watched]
        self._follow_links(list(folders), anew=bool(moved))
        for real in {*moved, *(self._watched.keys() - self._names.keys())}:
            self._stop_watching(real)
        for real in self._names:
            if self._polls_only:
                return
            if real in self._watched or real in self._refused:
                continue
            identity = _identity(real)
            if identity is not None:
                self._start_watching(real, identity)

    def _follow_links(self, folders: list[str], *, anew: bool) -> None:
        """Note which folder each name leads to; for thousands of folders that costs too much at every look."""
        now_s = self._clock.monotonic_s()
        if folders == self._covered and not anew and now_s - self._covered_s < COVER_EVERY_S:
            return
        names: dict[str, set[str]] = {}
        for folder in folders:
            names.setdefault(os.path.realpath(folder), set()).add(folder)
        with self._lock:
            self._names = names
        self._refused &= names.keys()
        self._covered, self._covered_s = folders, now_s

    def wait(self, timeout_s: float) -> None:
        """Return when something may have changed, or it is time for a poll, or after `timeout_s` seconds."""
        self._check_threads()
        begun_s = self._clock.monotonic_s()
        rested_s = begun_s + min(REST_PER_LOOK * (begun_s - self._returned_s), MAX_REST_S)
        if self._woken.wait(min(timeout_s, self._longest_wait_s())):
            next_s = max(self._active_s + GAP_S, rested_s)
            self._urgent.wait(min(max(next_s - self._clock.monotonic_s(), 0.0), timeout_s))
            self._active_s = self._clock.monotonic_s()
        self._woken.clear()
        self._urgent.clear()
        self._returned_s = self._clock.monotonic_s()

    def wake(self) -> None:
        """Make `wait` return at once; from any thread, or a signal handler."""
        self._urgent.set()
        self._woken.set()

    def take_changed(self) -> set[str]:
        """Paths that notifications named since the last call, under the names that `cover` was given."""
        with self._lock:
            changed, self._changed = self._changed, set()
            names = self._names
        return {
            os.path.join(folder, os.path.basename(path))
            for path in changed
            for folder in names.get(os.path.dirname(path), ())
        }

    def take_notices(self) -> list[Notice]:
        """What deserves a line in the log since the last call."""
        notices, self._notices = self._notices, []
        return notices

    def close(self) -> None:
        """Stop the threads."""
        observer, self._observer = self._observer, None
        self._watched.clear()
        if observer is not None and observer.is_alive():
            observer.stop()
            observer.join()

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Called by watchdog's thread. Our own opening and closing of files is no news."""
        if isinstance(event, FileOpenedEvent | FileClosedNoWriteEvent):
            return
        with self._lock:
            if len(self._changed) < _MAX_NAMED:
                self._changed.update(os.fsdecode(path) for path in (event.src_path, event.dest_path) if path)
        self._woken.set()

    def _longest_wait_s(self) -> float:
        if self._clock.monotonic_s() - self._active_s < ACTIVE_S:
            return ACTIVE_POLL_S
        return POLL_S if self.polls else IDLE_POLL_S

    def _start_watching(self, real: str, identity: tuple[int, int]) -> None:
        kind = self._filesystem_type(real)
        if kind in _NETWORK:
            self._refuse(real, f"on a network file system ({kind}): polled, notifications do not tell of other hosts")
            return
        if len(self._watched) >= MAX_WATCHED_FOLDERS:
            self._refused.add(real)
            if not self._said_too_many:
                self._said_too_many = True
                message = f"more than {MAX_WATCHED_FOLDERS} folders: this one and those after it are polled"
                self._notices.append(Notice("info", real, message))
            return
        try:
            if self._observer is None:
                self._observer = self._make_observer()
                self._observer.start()
            self._watched[real] = (self._observer.schedule(self, real), identity)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                return
            hint = "raise fs.inotify.max_user_watches or max_user_instances; " if error.errno in _LIMITS else ""
            self._refuse(real, f"cannot be watched ({error.strerror or error}): {hint}polled instead")
        except RuntimeError as error:
            self._refuse(real, f"cannot be watched ({error}): polled instead")

    def _refuse(self, real: str, message: str) -> None:
        self._refused.add(real)
        self._notices.append(Notice("warning", real, message))

    def _stop_watching(self, real: str) -> None:
        watch, _ = self._watched.pop(real)
        try:
            if self._observer is not None:
                self._observer.unschedule(watch)
        except (KeyError, OSError):
            return

    def _check_threads(self) -> None:
        observer = self._observer
        if observer is None:
            return
        if observer.is_alive() and all(emitter.is_alive() for emitter in observer.emitters):
            return
        self._polls_only = True
        self._notices.append(Notice("warning", "", "a watcher thread died: every folder is polled from now on"))
        self.close()


_LIMITS = (errno.ENOSPC, errno.EMFILE)


def mounted_type(path: str, mounts: Path = Path("/proc/self/mounts")) -> str:
    """The type of the file system that `path` is on, as the kernel's table of mounts names it; empty if unknown."""
    try:
        table = mounts.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
    best, kind = "", ""
    for line in table.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = fields[1].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
