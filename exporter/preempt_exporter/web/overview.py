"""The page's one question: the queue at a glance, the tasks with the least slack, and everything else it shows."""

from collections import Counter

import msgspec
from msgspec import Raw, Struct

from preempt_exporter.web.source import Exposition


class _Glance(Struct, gc=False):
    """What of a task is summed up."""

    task_id: str = ""
    run: str | None = None
    lane: str = ""
    state: str = ""
    next_action: str = "none"
    deadline_slack_ms: float | None = None
    fits_one_more_preemption: bool | None = None


class Overview(Struct, kw_only=True):
    """The answer; `tasks` are as the exposition gave them, in its order, at most as many as asked for."""

    tasks_total: int
    tasks_matching: int
    states: dict[str, int]
    next_actions: dict[str, int]
    past_deadline: int
    cannot_absorb: int
    """Tasks that one more preemption would lose."""
    tasks_offset: int
    """How many matching tasks stand before the first of `tasks`."""
    tasks: list[Raw]
    lanes: Raw
    runs: Raw
    health: Raw


_decode_raw = msgspec.json.Decoder(list[Raw]).decode
_decode_glances = msgspec.json.Decoder(list[_Glance]).decode
_encode = msgspec.json.Encoder().encode

LIVE_STATES = frozenset({"queued", "running", "preempted"})


def overview(exposition: Exposition, *, offset: int = 0, limit: int | None = None, match: str = "") -> bytes:
    """Ask `exposition` everything; list `limit` tasks from `offset` on.

    Only tasks whose id, run, lane or state contains `match`, in whatever case, are listed; totals cover every task.
    """
    tasks_json = exposition.tasks()
    tasks = _decode_raw(tasks_json)
    glances = _decode_glances(tasks_json)
    live = [glance for glance in glances if glance.state in LIVE_STATES]
    if match:
        wanted = match.casefold()
        tasks = [task for task, glance in zip(tasks, glances, strict=True) if _matches(glance, wanted)]
    return _encode(
        Overview(
            tasks_total=len(glances),
            tasks_matching=len(tasks),
            states=dict(Counter(glance.state for glance in glances)),
            next_actions=dict(Counter(glance.next_action for glance in glances)),
            past_deadline=sum(1 for glance in live if (glance.deadline_slack_ms or 0) < 0),
            cannot_absorb=sum(1 for glance in live if glance.fits_one_more_preemption is False),
            tasks_offset=offset,
            tasks=tasks[offset : None if limit is None else offset + limit],
            lanes=Raw(exposition.lanes()),
            runs=Raw(exposition.runs()),
            health=Raw(exposition.health()),
        )
    )


def tasks_within(tasks_json: bytes, *, limit: int) -> bytes:
    """The first `limit` objects of a JSON list."""
    return _encode(_decode_raw(tasks_json)[:limit])


def _matches(glance: _Glance, wanted: str) -> bool:
    return any(wanted in (text or "").casefold() for text in (glance.task_id, glance.run, glance.lane, glance.state))
