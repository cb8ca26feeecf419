"""`/v1/tasks`: what queues and workers ask of the gate."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from preempt_exporter.control.bodies import (
    CheckpointBody,
    CompleteBody,
    DrainBody,
    Entrance,
    HeartbeatBody,
    OfTask,
    PreemptBody,
)
from preempt_exporter.control.desk import Desk
from preempt_exporter.control.once import Begun
from preempt_exporter.control.operations import Operation, Work
from preempt_exporter.decide.admission import VerdictName
from preempt_exporter.errors import UsageError
from preempt_exporter.gate.answers import Answer, Outcome
from preempt_exporter.gate.gate import Gate
from preempt_exporter.gate.life import TaskKey
from preempt_exporter.gate.request import TaskRequest
from preempt_exporter.ledger.records import MAX_ID_BYTES, Drain, Preempt, Reject, TaskEvent

Ask = Callable[[Gate, TaskKey, Any], Answer]


def _request(body: Entrance) -> TaskRequest:
    return TaskRequest(
        lane=body.lane,
        prompt_tokens=body.prompt_tokens,
        target_tokens=body.target_tokens,
        deadline_ms=body.deadline_ms,
        task_budget=body.task_budget,
        enqueued_ms=body.enqueued_ms,
        host=body.host,
        new_life=body.new_life,
    )


def _checkpoint(gate: Gate, key: TaskKey, body: CheckpointBody) -> Answer:
    return gate.checkpoint(
        key,
        checkpoint_tokens=body.checkpoint_tokens,
        output_tokens=body.output_tokens,
        input_digest=body.input_digest,
        next_within_ms=body.next_within_ms,
    )


def _heartbeat(gate: Gate, key: TaskKey, body: HeartbeatBody) -> Answer:
    return gate.heartbeat(key, output_tokens=body.output_tokens, next_within_ms=body.next_within_ms)


_OPERATIONS: tuple[tuple[str, type[OfTask], str, Ask], ...] = (
    (
        "enqueue",
        Entrance,
        "Begin the task's life, or put a rejected one back into the queue",
        lambda gate, key, body: gate.enqueue(key, _request(body)),
    ),
    (
        "admit",
        Entrance,
        "Decide whether the task may start now; an unknown task is enqueued by it",
        lambda gate, key, body: gate.admit(key, _request(body)),
    ),
    ("heartbeat", HeartbeatBody, "The worker still holds its slot", _heartbeat),
    ("checkpoint", CheckpointBody, "Progress that a restart will not repeat", _checkpoint),
    (
        "preempt",
        PreemptBody,
        "The slot was lost; waste and totals are the gate's to know",
        lambda gate, key, body: gate.preempt(key, output_tokens=body.output_tokens, inferred=body.inferred or None),
    ),
    (
        "complete",
        CompleteBody,
        "The task is done",
        lambda gate, key, body: gate.complete(key, output_tokens=body.output_tokens),
    ),
    (
        "drain",
        DrainBody,
        "Fail the task rather than replay it",
        lambda gate, key, body: gate.drain(key, action=body.action),
    ),
)


def _key(names: Mapping[str, str], body: OfTask) -> TaskKey:
    task_id = names["task_id"]
    if not task_id or len(task_id.encode()) > MAX_ID_BYTES:
        raise UsageError(f"task_id: give 1 to {MAX_ID_BYTES} bytes")
    return (body.run, task_id)


def _work(ask: Ask) -> Work:
    def carry_out(desk: Desk, names: Mapping[str, str], body: Any) -> Answer:
        return ask(desk.gate, _key(names, body), body)

    return carry_out


def _recovered(name: str) -> Callable[[Desk, Mapping[str, str], Any, Begun], Answer | None]:
    def recovered(desk: Desk, names: Mapping[str, str], body: Any, begun: Begun) -> Answer | None:
        """What it wrote is on the ledger whole: the answer, with the task's figures as they are now."""
        desk.gate.catch_up()
        key = _key(names, body)
        now = desk.gate.about(key)
        if not begun.all_written or now is None or (name == "admit" and _has_moved_since(key, begun)):
            return None
        desk.gate.is_told_now(key)
        reject = next((line for line in begun.lines if isinstance(line, Reject)), None)
        lost = next((line for line in begun.lines if isinstance(line, Preempt)), None)
        outcome: Outcome = "recorded"
        verdict: VerdictName | None = None
        if reject is not None:
            verdict = msgspec.convert(f"reject_{reject.reason}", VerdictName)
        if name == "enqueue":
            outcome = "queued"
        elif name == "admit":
            outcome = "admitted" if reject is None else "rejected"
            verdict = verdict or "admit"
        return replace(
            now,
            outcome=outcome,
            verdict=verdict,
            reason=None if reject is None else reject.reason,
            drained=reject is not None and any(isinstance(line, Drain) for line in begun.lines),
            wasted_tokens=0 if lost is None else lost.wasted_tokens,
        )

    return recovered


def _has_moved_since(key: TaskKey, begun: Begun) -> bool:
    """Whether others moved the task after its lines: an admission that is over starts nobody, it is decided anew."""
    after = begun.later[begun.later.index(begun.lines[-1]) + 1 :]
    return any(isinstance(line, TaskEvent) and (line.run, line.task_id) == key for line in after)


TASK_OPERATIONS: tuple[Operation, ...] = tuple(
    Operation(
        method="POST",
        path=f"/v1/tasks/{{task_id:path}}/{name}",
        summary=summary,
        takes=takes,
        answers=Answer,
        carry_out=_work(ask),
        recovered=_recovered(name),
    )
    for name, takes, summary, ask in _OPERATIONS
)
