"""What a caller says of a task, and the life that follows from it and from what is known."""

from msgspec import Struct
from msgspec.structs import replace

from preempt_exporter.gate.life import Life, TaskKey
from preempt_exporter.gate.settings import GateSettings

_SAID_BY_ENQUEUE = ("enqueued_ms", "deadline_ms", "task_budget", "prompt_tokens", "target_tokens")


class TaskRequest(Struct, frozen=True, kw_only=True):
    """What a caller says of a task when it enqueues it or asks for admission. None: not said."""

    lane: str | None = None
    prompt_tokens: int | None = None
    target_tokens: int | None = None
    deadline_ms: int | None = None
    """Duration from enqueue."""
    task_budget: int | None = None
    enqueued_ms: int | None = None
    """Moment of enqueue, if it was before this request; one in the future counts as now."""
    host: str | None = None
    """Where the task will run."""
    new_life: bool = False
    """Start again what was drained or completed."""


def planned_life(
    key: TaskKey, known: Life | None, request: TaskRequest, *, settings: GateSettings, now_ms: int
) -> Life:
    """The life as it will be once `request` is on a line: what is asked for, else what is known, else the default.

    `known` is the life that goes on; None begins one. The moment of enqueue never becomes later.
    """
    asked_ms = now_ms if request.enqueued_ms is None else min(request.enqueued_ms, now_ms)
    begun = known or Life(
        task_id=key[1],
        run=key[0],
        lane=settings.lane_default,
        state="queued",
        owner=settings.owner,
        enqueued_ms=asked_ms,
        last_ms=now_ms,
    )
    return replace(
        begun,
        lane=request.lane or begun.lane,
        enqueued_ms=min(begun.enqueued_ms, asked_ms),
        deadline_ms=_first(request.deadline_ms, begun.deadline_ms, settings.defaults.deadline_ms),
        task_budget=_first(request.task_budget, begun.task_budget, settings.defaults.task_budget),
        prompt_tokens=_first(request.prompt_tokens, begun.prompt_tokens),
        target_tokens=_first(request.target_tokens, begun.target_tokens),
        host=request.host or begun.host,
    )


def says_more(planned: Life, known: Life) -> bool:
    """Whether the plan says of the task what the lines of `known` do not: its enqueue moment, limits or sizes."""
    return any(getattr(planned, name) != getattr(known, name) for name in _SAID_BY_ENQUEUE)


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)
