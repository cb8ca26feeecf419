"""One attempt: the command runs, the ledger hears that it lives and how it ended, signals and status pass through."""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from preempt_exporter.clock import Clock
from preempt_exporter.errors import LedgerWriteError, StoreUnavailable, UnreadableInput, UsageError
from preempt_exporter.gate.answers import Answer
from preempt_exporter.wrapper.dies_with import dies_with
from preempt_exporter.wrapper.signals import ENDS_A_PROCESS, SignalInbox, terminal_told_everyone
from preempt_exporter.wrapper.slot import Slot

PROMISED_HEARTBEATS = 3
"""A worker promises to be heard of within three intervals, so that one slow write is not taken for its loss."""

FIRST_HEARTBEAT_MS = 1_000
"""The first one comes early: before it nobody knows how long to wait for the next."""

LAST_WORD_PATIENCE_S = 10.0
LAST_WORD_EVERY_S = 0.2
STATUS_OF_SIGNAL = 128
STATUS_OF_SIGTERM = STATUS_OF_SIGNAL + signal.SIGTERM
"""What a shell, or another `run`, exits with when SIGTERM ended what it waited for."""

STATUS_NOT_STARTED = 126

NOT_DONE = (LedgerWriteError, UnreadableInput, StoreUnavailable, UsageError)
"""What a slot raises when it could not be told something."""


class Ended(Struct, frozen=True):
    """How the command ended."""

    status: int
    """To exit with: the command's own, or 128 + the signal that ended it, as shells say it."""
    preempted: bool
    """SIGTERM ended it or what it waited for, or was sent to the wrapper while it ran."""


class RunningAttempt:
    """The wrapped command of one admitted task."""

    def __init__(
        self,
        slot: Slot,
        clock: Clock,
        inbox: SignalInbox,
        *,
        heartbeat_ms: int,
        say: Callable[[str], object],
    ) -> None:
        """`say` tells the operator what the ledger could not be told; the task must have been admitted."""
        self._slot = slot
        self._clock = clock
        self._inbox = inbox
        self._heartbeat_ms = heartbeat_ms
        self._say = say
        self._silenced = False

    def run(self, command: Sequence[str], environ: Mapping[str, str]) -> Ended:
        """Start the command and stay until it ends. Its last line on the ledger is written by `finish`."""
        early = next((number for number in self._inbox.wait(0) if number in ENDS_A_PROCESS), None)
        if early is not None:
            return Ended(STATUS_OF_SIGNAL + early, preempted=early is signal.SIGTERM)
        try:
            # The wrapper has one thread, so nothing it forks can hold a lock of another.
            child = subprocess.Popen(command, env=dict(environ), preexec_fn=dies_with(os.getpid()))  # noqa: PLW1509
        except (OSError, subprocess.SubprocessError) as error:
            self._say(f"{command[0]}: {error}")
            return Ended(STATUS_NOT_STARTED, preempted=False)
        told_to_end = self._until_it_ends(child)
        status = child.returncode
        preempted = told_to_end or status in (-signal.SIGTERM, STATUS_OF_SIGTERM)
        return Ended(status if status >= 0 else STATUS_OF_SIGNAL - status, preempted)

    def finish(self, ended: Ended) -> Answer | None:
        """Write how it ended: `preempt`, `complete` or `drain`. None: the ledger could not be told."""
        give_up_s = self._clock.monotonic_s() + LAST_WORD_PATIENCE_S
        while True:
            try:
                if ended.preempted:
                    return self._slot.preempt()
                return self._slot.complete() if ended.status == 0 else self._slot.drain()
            except NOT_DONE as error:
                if self._clock.monotonic_s() >= give_up_s:
                    self._say(f"{error}; the next start will take this attempt for lost")
                    return None
            self._inbox.wait(LAST_WORD_EVERY_S)

    def _until_it_ends(self, child: subprocess.Popen[bytes]) -> bool:
        """Pass signals on and keep the heartbeat; whether SIGTERM was among the signals."""
        told_to_end = False
        next_s = self._clock.monotonic_s() + min(self._heartbeat_ms, FIRST_HEARTBEAT_MS) / 1000
        while child.poll() is None:
            for number in self._inbox.wait(next_s - self._clock.monotonic_s()):
                told_to_end = told_to_end or number is signal.SIGTERM
                if not terminal_told_everyone(number):
                    child.send_signal(number)
            if child.poll() is None and self._clock.monotonic_s() >= next_s:
                self._beat()
                next_s = self._clock.monotonic_s() + self._heartbeat_ms / 1000
        return told_to_end or signal.SIGTERM in self._inbox.wait(0)

    def _beat(self) -> None:
        try:
            self._slot.beat(PROMISED_HEARTBEATS * self._heartbeat_ms)
            self._silenced = False
        except NOT_DONE as error:
            if not self._silenced:
                self._say(f"no heartbeat: {error}")
            self._silenced = True
