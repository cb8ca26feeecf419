"""What an operation of the service is: its place, what it takes, what it answers, how it is carried out."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from preempt_exporter.control.desk import Desk
from preempt_exporter.control.once import Begun

Work = Callable[[Desk, Mapping[str, str], Any], Any]
"""Desk, names from the path, decoded body; returns what is encoded as the answer."""

Recovery = Callable[[Desk, Mapping[str, str], Any, Begun], Any]
"""The answer of a keyed request that was begun and never answered; None: it did not happen, carry it out."""


def _carry_out_again(desk: Desk, names: Mapping[str, str], body: Any, begun: Begun) -> Any:
    return None


class Operation(Struct, frozen=True, kw_only=True):
    """One method on one path."""

    method: str
    path: str
    """Names in braces; `{shard:path}` and `{task_id:path}` may hold slashes."""
    summary: str
    takes: type | None
    """The record of the body; None: the body is not read, or read raw (`raw`)."""
    answers: Any
    """Type of the answer, for the OpenAPI document."""
    carry_out: Work
    recovered: Recovery = _carry_out_again
    raw: bool = False
    """The body is handed over as bytes."""
    fields: bool = False
    """The body is handed over as its JSON object: the room that decides decodes it (`takes` documents it)."""
    most_bytes: int = 64 * 1024
    refusals: tuple[int, ...] = ()
    """Statuses of problems that are this operation's own."""
    webhook: bool = False
    """Opened by the webhook's token."""
