"""What an attempt needs of whoever decides about its task: the task's own gate here, or the control service."""

from typing import Protocol

from preempt_exporter.gate.answers import Answer
from preempt_exporter.gate.gate import Gate
from preempt_exporter.gate.life import TaskKey
from preempt_exporter.gate.request import TaskRequest
from preempt_exporter.settings import TaskDefaults
from preempt_exporter.wrapper.task_gate import ask_to_start, declare_lost_if_running


class Slot(Protocol):
    """One task's place. Methods raise `LedgerWriteError`, `UnreadableInput` or `StoreUnavailable`: nothing was done."""

    def start(self, request: TaskRequest, *, left_behind: bool) -> Answer:
        """Ask whether the task may start; `left_behind`: an attempt of this host died and did not say so."""
        ...

    def beat(self, next_within_ms: int) -> Answer:
        """It runs, and will be heard of again within so many milliseconds."""
        ...

    def preempt(self) -> Answer:
        """The slot was lost."""
        ...

    def complete(self) -> Answer:
        """The task is done."""
        ...

    def drain(self) -> Answer:
        """The task failed and is not replayed."""
        ...


class GateSlot:
    """Decided here, by a gate for this task alone."""

    def __init__(self, gate: Gate, key: TaskKey, defaults: TaskDefaults) -> None:
        """The task's lock must be held: whoever is on the ledger as running is then not running any more."""
        self._gate = gate
        self._key = key
        self._defaults = defaults

    def start(self, request: TaskRequest, *, left_behind: bool) -> Answer:
        """A life that is running lost its slot unseen, whatever was left behind; then the decision.

        In a draining lane it failed with that, and the decision is made.
        """
        lost = declare_lost_if_running(self._gate, self._key)
        if lost is not None and lost.drained and not request.new_life:
            return lost
        return ask_to_start(self._gate, self._key, request, self._defaults)

    def beat(self, next_within_ms: int) -> Answer:
        """A heartbeat line. Who holds the lock runs, so a task that was declared lost meanwhile is so no longer."""
        self._gate.catch_up()
        return self._gate.heartbeat(self._key, next_within_ms=next_within_ms, still_holds_slot=True)

    def preempt(self) -> Answer:
        """With the progress that the command itself reported."""
        self._gate.catch_up()
        return self._gate.preempt(self._key)

    def complete(self) -> Answer:
        """With the progress that the command itself reported."""
        self._gate.catch_up()
        known = self._gate.about(self._key)
        if known is not None and known.state == "preempted":
            self._gate.heartbeat(self._key, still_holds_slot=True)
        return self._gate.complete(self._key)

    def drain(self) -> Answer:
        """A drain line."""
        self._gate.catch_up()
        return self._gate.drain(self._key)
