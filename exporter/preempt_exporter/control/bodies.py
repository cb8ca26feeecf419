"""What requests carry, as records: decoded from JSON whatever the Content-Type, and the source of the OpenAPI document.

As in the ledger, unknown fields are ignored, an integer `run` is read as its decimal string, a float with a whole
value as an integer, and an empty `lane`, `run` or `host` means absent.
"""

from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from preempt_exporter.control.actions import ModeName, Words
from preempt_exporter.control.problems import Problem
from preempt_exporter.ledger.records import MAX_EXACT_INTEGER, Count, Host, Id, Lane

_ABSENT_WHEN_EMPTY = ("lane", "run", "host")

BodyT = TypeVar("BodyT", bound=Struct)


class OfTask(Struct, frozen=True, kw_only=True):
    """Which task, beside its id: a task without `run` is another than one with it."""

    run: Id | None = None


class Entrance(OfTask, frozen=True, kw_only=True):
    """What is said of a task that joins the queue or asks for admission."""

    lane: Lane | None = None
    host: Host | None = None
    prompt_tokens: Count | None = None
    target_tokens: Count | None = None
    deadline_ms: Count | None = None
    """Duration from enqueue."""
    task_budget: Count | None = None
    enqueued_ms: Count | None = None
    """Unix milliseconds; now unless said."""
    new_life: bool = False
    """Start again what was drained or completed."""


class HeartbeatBody(OfTask, frozen=True, kw_only=True):
    """The worker still holds its slot."""

    output_tokens: Count | None = None
    next_within_ms: Count | None = None
    """Silence longer than this means lost."""


class CheckpointBody(OfTask, frozen=True, kw_only=True):
    """Progress that a restart will not repeat."""

    checkpoint_tokens: Count
    output_tokens: Count | None = None
    input_digest: Words | None = None
    next_within_ms: Count | None = None


class PreemptBody(OfTask, frozen=True, kw_only=True):
    """The slot was lost; needs nothing."""

    output_tokens: Count | None = None
    """How far the worker had got, where that is known better than from its last sign of life."""
    inferred: bool | None = None
    """Nobody saw it, but the worker fell silent."""


class CompleteBody(OfTask, frozen=True, kw_only=True):
    """The task is done; the progress known last stands unless it is said."""

    output_tokens: Count | None = None


class DrainBody(OfTask, frozen=True, kw_only=True):
    """Fail the task rather than replay it."""

    action: Literal["fail_task_not_replay"] = "fail_task_not_replay"


class OpenRunBody(Struct, frozen=True, kw_only=True):
    """Open a run, or change what is named of an open one."""

    budget_tokens: Count | None = None
    deadline_ms: Count | None = None
    tasks: Count | None = None
    cases_per_shard: Count | None = None
    charge_burned: bool | None = None
    by: Words | None = None
    reason: Words | None = None


class CloseRunBody(Struct, frozen=True, kw_only=True):
    """Take no more reservations."""

    by: Words | None = None
    reason: Words | None = None


class LaneBody(Struct, frozen=True, kw_only=True):
    """Drain a lane."""

    lane: Lane
    by: Words | None = None
    reason: Words | None = None
    dry_run: bool = False


class ResumeBody(Struct, frozen=True, kw_only=True):
    """The way back, for a lane or a run."""

    lane: Lane | None = None
    run: Id | None = None
    by: Words | None = None
    reason: Words | None = None
    dry_run: bool = False


class ModeBody(Struct, frozen=True, kw_only=True):
    """Change the admission mode."""

    mode: ModeName
    by: Words | None = None
    reason: Words | None = None
    dry_run: bool = False


def json_object(raw: bytes) -> dict[str, Any]:
    """The body as an object; an empty one is `{}`. Raises `Problem`."""
    if not raw.strip():
        return {}
    try:
        found = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Problem(400, f"the body is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise Problem(422, "the body must be a JSON object")
    present = {name: value for name, value in found.items() if not (value == "" and name in _ABSENT_WHEN_EMPTY)}
    return {name: _as_the_ledger_reads(name, value) for name, value in present.items()}


def body_from(fields: dict[str, Any], kind: type[BodyT]) -> BodyT:
    """The record that the fields make. Raises `Problem` that names the field."""
    try:
        return msgspec.convert(fields, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise Problem(422, str(error)) from error


def _as_the_ledger_reads(name: str, value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) <= MAX_EXACT_INTEGER:
        value = int(value)
    if name in ("run", "job_id") and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value
