"""Signals as messages: they wake the wrapper up and are handed to its command, instead of ending it."""

import contextlib
import os
import select
import signal
from collections import deque
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Self

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
ENDS_A_PROCESS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
"""What somebody sends who wants the attempt to end; the others are messages to the command."""
LONGEST_WAIT_S = 86_400.0
"""The system refuses waits of centuries; whoever waits looks again anyway."""
FROM_THE_KEYBOARD = frozenset({signal.SIGINT, signal.SIGQUIT})


class ToldToEnd(BaseException):
    """A signal that ends a process came while there was no command yet that could be handed it."""

    def __init__(self, number: signal.Signals) -> None:
        """Which signal."""
        super().__init__(number)
        self.number = number


class SignalInbox:
    """While entered, collects signals for this process. For the main thread only.

    What the process was started to ignore (`nohup`, a shell's background job) stays ignored, for the command too.
    """

    def __init__(self) -> None:
        """Nothing is caught yet."""
        self._arrived: deque[signal.Signals] = deque()
        self._before: dict[signal.Signals, signal.Handlers] = {}
        self._wakeup_before = -1
        self._read_end = self._write_end = -1
        self._raises = False

    def __enter__(self) -> Self:
        """Begin to collect."""
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        os.set_blocking(self._write_end, False)
        self._wakeup_before = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        for number in (*FORWARDED, signal.SIGCHLD):
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN or number is signal.SIGCHLD:
                signal.signal(number, self._keep)
                self._before[number] = before  # type: ignore[assignment]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Put back what was there before."""
        for number, before in self._before.items():
            signal.signal(number, before)
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self._read_end)
        os.close(self._write_end)

    def wait(self, timeout_s: float) -> list[signal.Signals]:
        """What arrived since the last look, no SIGCHLD; waits for the first for at most `timeout_s` s or a day."""
        ready, _, _ = select.select([self._read_end], [], [], min(max(0.0, timeout_s), LONGEST_WAIT_S))
        if ready:
            os.read(self._read_end, 4096)
        arrived = []
        while self._arrived:
            arrived.append(self._arrived.popleft())
        return arrived

    @contextlib.contextmanager
    def ending_at_once(self) -> Iterator[None]:
        """While inside, what ends a process raises `ToldToEnd` where it arrives, or has arrived before."""
        self._raises = True
        try:
            early = next((number for number in self._arrived if number in ENDS_A_PROCESS), None)
            if early is not None:
                raise ToldToEnd(early)
            yield
        finally:
            self._raises = False

    def _keep(self, number: int, _frame: FrameType | None) -> None:
        if self._raises and number in ENDS_A_PROCESS:
            self._raises = False
            raise ToldToEnd(signal.Signals(number))
        if number != signal.SIGCHLD:
            self._arrived.append(signal.Signals(number))


def terminal_told_everyone(number: signal.Signals) -> bool:
    """Whether a key at the terminal sent the signal to the command as well, so that it must not get it twice."""
    if number not in FROM_THE_KEYBOARD:
        return False
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
