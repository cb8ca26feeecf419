"""The gate for one task: decides from that task's lines and the switch file, and owns what no service enqueued."""

from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from preempt_exporter.clock import Clock
from preempt_exporter.gate.answers import Answer
from preempt_exporter.gate.gate import Gate
from preempt_exporter.gate.life import FINAL_STATES, TaskKey
from preempt_exporter.gate.request import TaskRequest
from preempt_exporter.gate.settings import GateSettings
from preempt_exporter.ledger.sink import LedgerSink
from preempt_exporter.ledger.torn_line import end_torn_line
from preempt_exporter.settings import TaskDefaults

OWNER = "run"
SERVICE_OWNER = GateSettings().owner


class _EveryoneButTheService(Struct, frozen=True):
    """Tasks of the control service are the service's; all others were enqueued by hand, by `run` or by `admit`."""

    def __contains__(self, owner: object) -> bool:
        return owner != SERVICE_OWNER


def gate_for_one_task(
    ledger: Path, sink: LedgerSink, clock: Clock, key: TaskKey, *, settings: GateSettings, attempt: str
) -> Gate:
    """Read the task's life from the ledger, rotated forms and a last line without newline included.

    `attempt` names this process among all that ever write to the ledger, without `-`. Raises UnreadableInput, and
    LedgerWriteError where such a last line cannot be ended.
    """
    end_torn_line(ledger)
    return Gate(
        ledger,
        sink,
        clock,
        settings=replace(settings, owner=OWNER, adopts=_EveryoneButTheService()),
        instance=attempt,
        keep=lambda other: other == key,
    )


def ask_to_start(gate: Gate, key: TaskKey, request: TaskRequest, defaults: TaskDefaults) -> Answer:
    """Enqueue the task unless a life of it goes on, then decide whether it may start.

    A task without a deadline is enqueued by its admission: the gate says both of it in one write.
    """
    known = gate.about(key)
    begins = known is None or (known.state in FINAL_STATES and request.new_life)
    if begins and (request.deadline_ms is not None or defaults.deadline_ms is not None):
        queued = gate.enqueue(key, request)
        if queued.outcome == "refused":
            return queued
    return gate.admit(key, request)


def declare_lost_if_running(gate: Gate, key: TaskKey) -> Answer | None:
    """A start that holds the task's lock and finds it running: nobody saw the slot go. None: it does not run."""
    known = gate.about(key)
    if known is None or known.state != "running":
        return None
    return gate.preempt(key, inferred=True)
