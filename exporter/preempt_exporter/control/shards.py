"""`/v1/runs/{run}/shards/{shard}`: reservations, leases, checkpoints and artifacts of the spend service."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from preempt_exporter.control.desk import Desk
from preempt_exporter.control.once import Begun
from preempt_exporter.control.operations import Operation, Work
from preempt_exporter.ledger.records import (
    Commit,
    Compensate,
    Record,
    Refuse,
    Release,
    Renew,
    Reserve,
    Resume,
    ShardCheckpoint,
)
from preempt_exporter.spend.parts import read_shard_name
from preempt_exporter.spend.requests import (
    CheckpointRequest,
    CommitRequest,
    CompensateRequest,
    GrantRequest,
    ReleaseRequest,
    RenewRequest,
    ReserveRequest,
    ResumeRequest,
    request_from,
)
from preempt_exporter.spend.rows import Outcome

_SHARD_REQUESTS: dict[str, tuple[type[Struct], str]] = {
    "grant": (GrantRequest, "The next epoch of the shard: the driver's to ask for"),
    "reserve": (ReserveRequest, "A reservation for an epoch that the driver numbered itself"),
    "renew": (RenewRequest, "Let the lease end `lease_ms` from now"),
    "checkpoint": (CheckpointRequest, "Progress up to a case"),
    "resume": (ResumeRequest, "Where to go on"),
    "commit": (CommitRequest, "Accept the artifact and bill its tokens"),
    "release": (ReleaseRequest, "Give the reservation back unspent"),
    "compensate": (CompensateRequest, "Take back an accepted artifact"),
}


def _ask(op: str) -> Work:
    def carry_out(desk: Desk, names: Mapping[str, str], fields: Any) -> Outcome:
        return desk.spend.apply(request_from(op, names["run"], names["shard"], fields))

    return carry_out


def _told(op: str) -> Callable[[Desk, Mapping[str, str], Any, Begun], Outcome | None]:
    def recovered(desk: Desk, names: Mapping[str, str], fields: Any, begun: Begun) -> Outcome | None:
        """The outcome, from the line that stands for it.

        A `resume` line at index 0 does not tell `RESUME` from `RESTART`; a worker does the same after both.
        """
        shard = names["shard"]
        for line in reversed(begun.lines):
            if getattr(line, "shard", None) == shard:
                told = _outcome_of(desk, line, op)
                if told is not None:
                    return told
        return None

    return recovered


def _outcome_of(desk: Desk, line: Record, op: str) -> Outcome | None:
    match line:
        case Reserve() if op in ("grant", "reserve"):
            word = "GRANTED" if op == "grant" else "RESERVED"
            more: dict[str, Any] = {"tokens": line.tokens, "lease_expires_ms": line.lease_expires_ms}
        case Renew() if op == "renew":
            word, more = "RENEWED", {"lease_expires_ms": line.lease_expires_ms}
        case ShardCheckpoint() if op == "checkpoint":
            word, more = "CHECKPOINTED", {"index": line.index, "tokens": line.tokens}
        case Resume() if op == "resume":
            word, more = "RESUME", {"index": line.index}
        case Commit() if op == "commit":
            accepted = desk.spend.shard_accepted(line.run, read_shard_name(line.shard).base)
            word, more = "COMMITTED", {"tokens": line.tokens, "shard_accepted": accepted}
        case Release() if op == "release":
            word, more = "RELEASED", {"tokens": line.tokens}
        case Compensate() if op == "compensate":
            word, more = "COMPENSATED", {"tokens": desk.spend.epoch_tokens(line.run, line.shard, line.epoch)}
        case Refuse():
            word, more = line.reason, {"refused": True, "tokens": line.tokens}
        case _:
            return None
    return Outcome(op=op, run=line.run, shard=line.shard, outcome=word, epoch=line.epoch, host=line.host, **more)


SHARD_OPERATIONS: tuple[Operation, ...] = tuple(
    Operation(
        method="POST",
        path=f"/v1/runs/{{run}}/shards/{{shard:path}}/{op}",
        summary=summary,
        takes=takes,
        answers=Outcome,
        carry_out=_ask(op),
        recovered=_told(op),
        fields=True,
    )
    for op, (takes, summary) in _SHARD_REQUESTS.items()
)
