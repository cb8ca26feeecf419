"""A child process that does not outlive its parent, however the parent dies. On Linux; elsewhere it may."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

PR_SET_PDEATHSIG = 1
"""Of prctl(2)."""

STATUS_KILLED = 128 + signal.SIGKILL


def dies_with(parent_pid: int) -> Callable[[], None]:
    """For `preexec_fn`, in a parent of one thread: the kernel kills the child when the parent `parent_pid` dies."""
    prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None

    def before_command() -> None:
        if prctl is not None:
            prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != parent_pid:  # it died before the kernel was asked
            os._exit(STATUS_KILLED)

    return before_command
