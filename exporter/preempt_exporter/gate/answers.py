"""What the gate answers: a decision and its reason, something recorded, or a refusal that changed nothing."""

from typing import Literal

from msgspec import Struct

from preempt_exporter.decide.admission import VerdictName
from preempt_exporter.gate.life import Life, LifeState

Outcome = Literal["queued", "admitted", "rejected", "recorded", "refused"]

Refusal = Literal[
    "unknown_task",
    "not_running",
    "already_running",
    "already_live",
    "ended",
    "not_owner",
    "run_stopped",
    "digest_mismatch",
]
"""Why nothing was done, and nothing written:

- `unknown_task`: no line ever named it, or it was forgotten.
- `not_running`: it is queued, was preempted, or was rejected; a worker that hears this has lost its slot.
- `already_running`: another attempt holds the slot.
- `already_live`: it is enqueued already.
- `ended`: it was drained or completed; only a new life starts it again.
- `not_owner`: somebody else enqueued it and decides about it.
- `run_stopped`: its run grants nothing until it is resumed.
- `digest_mismatch`: the checkpoint is of another input than the earlier one.
"""


class Answer(Struct, frozen=True, kw_only=True):
    """The answer to one operation on one task."""

    outcome: Outcome
    verdict: VerdictName | None = None
    """Of an admission decision; of a preemption that the lane's drain lets nobody follow up."""
    reason: str | None = None
    """The ledger's word for a rejection, or the refusal."""
    state: LifeState | None = None
    """The task's state now; None: unknown task."""
    queue_age_ms: int | None = None
    deadline_slack_ms: int | None = None
    preempts: int = 0
    restart_tokens: int = 0
    checkpoint_tokens: int = 0
    """Where an admitted worker resumes."""
    input_digest: str | None = None
    """Of the input that the checkpoint belongs to."""
    wasted_tokens: int = 0
    """What a recorded preemption wasted."""
    drained: bool = False
    """A task that had run was failed by a rejection, or by a preemption in a draining lane, and is not replayed."""


def answer_about(
    life: Life | None,
    now_ms: int,
    outcome: Outcome,
    *,
    verdict: VerdictName | None = None,
    reason: str | None = None,
    wasted_tokens: int = 0,
) -> Answer:
    """An answer with the task's figures as they are now."""
    if life is None:
        return Answer(outcome=outcome, verdict=verdict, reason=reason)
    return Answer(
        outcome=outcome,
        verdict=verdict,
        reason=reason,
        state=life.state,
        queue_age_ms=life.queue_age_ms(now_ms),
        deadline_slack_ms=life.deadline_slack_ms(now_ms),
        preempts=life.preempts,
        restart_tokens=life.restart_tokens,
        checkpoint_tokens=life.checkpoint_tokens,
        input_digest=life.input_digest,
        wasted_tokens=wasted_tokens,
        drained=reason is not None and outcome in ("rejected", "recorded") and life.state == "drained",
    )


def refused(life: Life | None, now_ms: int, why: Refusal) -> Answer:
    """Nothing was done."""
    return answer_about(life, now_ms, "refused", reason=why)
