"""The switch file: lane actions, admission mode and stopped runs of one ledger, obeyed by all who act on it.

It lies beside the ledger (`<ledger>.switches`), is replaced as a whole and never torn, and is read again only when it
was replaced. Every change is a ledger line too, so that those who watch know of it.
"""

import contextlib
import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from preempt_exporter.decide.admission import AdmissionMode
from preempt_exporter.decide.lane_action import LANE_ACTIONS
from preempt_exporter.errors import LedgerWriteError, UnreadableInput, UsageError
from preempt_exporter.gate.live_path import live_path
from preempt_exporter.ledger.records import LaneDrain, LaneResume, Mode, RunResume, RunStop
from preempt_exporter.ledger.sink import LedgerSink

SwitchChange = LaneDrain | LaneResume | Mode | RunStop | RunResume


class Switched(Struct, frozen=True, kw_only=True):
    """Who switched something, when and why, as far as they said."""

    ts_ms: int | None = None
    by: str | None = None
    reason: str | None = None


class LaneSwitch(Switched, frozen=True, kw_only=True):
    """A lane under an action."""

    action: str


class Switches(Struct, frozen=True, kw_only=True):
    """What is switched now."""

    version: int = 1
    lanes: dict[str, LaneSwitch] = {}
    """Lanes under an action; others are open."""
    mode: AdmissionMode | None = None
    """None: nobody changed it, the initial mode holds."""
    stopped_runs: dict[str, Switched] = {}

    def lane_action(self, lane: str) -> str | None:
        """The action that a lane is under; None: open."""
        switch = self.lanes.get(lane)
        return None if switch is None else switch.action

    def lane_actions(self) -> dict[str, str]:
        """Every lane under an action."""
        return {lane: switch.action for lane, switch in self.lanes.items()}

    def after(self, change: SwitchChange) -> "Switches":
        """The switches once `change` has happened."""
        said = {"ts_ms": change.ts_ms, "by": change.by, "reason": change.reason}
        if isinstance(change, LaneDrain):
            switch = LaneSwitch(action=change.action, **said)  # type: ignore[arg-type]
            return replace(self, lanes={**self.lanes, change.lane: switch})
        if isinstance(change, LaneResume):
            return replace(self, lanes={lane: s for lane, s in self.lanes.items() if lane != change.lane})
        if isinstance(change, Mode):
            return replace(self, mode=change.mode)
        if isinstance(change, RunStop):
            return replace(self, stopped_runs={**self.stopped_runs, change.run: Switched(**said)})  # type: ignore[arg-type]
        return replace(self, stopped_runs={run: s for run, s in self.stopped_runs.items() if run != change.run})


class SwitchFile:
    """One ledger's switches. Any number of processes may read and change them."""

    def __init__(self, ledger: str | os.PathLike[str]) -> None:
        """`ledger` is the ledger's live path, however it is spelled; the switch file need not exist."""
        self.path = Path(f"{live_path(ledger)}.switches")
        self._seen: tuple[int, int, int] | None = None
        self._switches = Switches()
        self._guard = threading.Lock()

    def read(self) -> Switches:
        """What is switched now; one `stat` while nothing changed.

        Raises `UnreadableInput` for a file that cannot be read or is no switch file: whoever asks must then admit
        nothing, since a drain may be written there.
        """
        with self._guard:
            try:
                status = self.path.stat()
                seen = (status.st_ino, status.st_mtime_ns, status.st_size)
                if seen != self._seen:
                    self._switches = msgspec.json.decode(self.path.read_bytes(), type=Switches)
                    self._seen = seen
            except FileNotFoundError:
                self._switches, self._seen = Switches(), None
            except OSError as error:
                raise UnreadableInput(str(self.path), error) from error
            except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
                why = f"is no switch file ({error}); repair it, or delete it and switch again"
                raise UnreadableInput(str(self.path), why) from error
            return self._switches

    def change(self, change: SwitchChange, sink: LedgerSink) -> Switches:
        """Put the change on the ledger and into the file, and return what is switched then.

        Everything that can fail comes before the ledger line; what is left after it is one rename. Saying the same
        again is a line again and changes nothing else. Raises `UsageError` for an action that does not exist,
        `LedgerWriteError` or `UnreadableInput` when nothing was switched.
        """
        changed = self.change_unless(lambda switches: False, change, sink)
        assert changed is not None
        return changed

    def change_unless(
        self, is_held: Callable[[Switches], bool], change: SwitchChange, sink: LedgerSink
    ) -> Switches | None:
        """As `change`, unless `is_held` says of what is switched now that nothing is left to do: then None.

        Nobody else changes the file between the two.
        """
        if isinstance(change, LaneDrain) and change.action not in LANE_ACTIONS:
            raise UsageError(f"{change.action!r} is no action on a lane; there are {', '.join(LANE_ACTIONS)}")
        with self._alone():
            before = self.read()
            if is_held(before):
                return None
            switches = before.after(change)
            aside = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
            try:
                _write_to_disk(aside, msgspec.json.encode(switches) + b"\n")
                sink.append(change)
                aside.replace(self.path)
            except OSError as error:
                raise LedgerWriteError(str(self.path), error) from error
            finally:
                with contextlib.suppress(OSError):
                    aside.unlink(missing_ok=True)
            _sync_folder(self.path.parent)
            return switches

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """No other process changes the file meanwhile."""
        try:
            lock = _opened_lock(f"{self.path}.lock")
        except OSError as error:
            raise LedgerWriteError(f"{self.path}.lock", error) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _opened_lock(path: str) -> int:
    """The lock file, made if it is missing; one that root or another user made is only read, which suffices to lock."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except PermissionError:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _write_to_disk(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
