"""Processes that an attempt left running: found by the attempt's own mark in their environment, and ended.

Otherwise the next attempt would run beside them. On Linux alone, which shows environments in `/proc`; elsewhere
nothing is found.
"""

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

ATTEMPT_VARIABLE = "PREEMPT_ATTEMPT_ID"
"""Every process of an attempt inherits it."""

PATIENCE_S = 5.0
LOOK_EVERY_S = 0.02


def end_leftovers(
    attempt: str, *, pause: Callable[[float], object], processes: Path = Path("/proc"), own_pid: int | None = None
) -> int:
    """Kill what carries the mark of `attempt`, wait until it is gone, and say how many there were.

    `pause` waits for that many seconds. Gives up waiting after `PATIENCE_S`: a process that hangs in the kernel is
    killed as soon as it comes back.
    """
    own_pid = os.getpid() if own_pid is None else own_pid
    found = _marked(attempt, processes) - {own_pid}
    count = len(found)
    for _ in range(round(PATIENCE_S / LOOK_EVERY_S)):
        if not found:
            break
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        pause(LOOK_EVERY_S)
        found = _marked(attempt, processes) - {own_pid}
    return count


def are_left(attempt: str, *, processes: Path = Path("/proc")) -> bool:
    """Whether processes of `attempt` are running."""
    return bool(_marked(attempt, processes))


def _marked(attempt: str, processes: Path) -> set[int]:
    mark = f"{ATTEMPT_VARIABLE}={attempt}".encode()
    marked = set()
    for folder in processes.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                marked.add(int(folder.name))
    return marked
