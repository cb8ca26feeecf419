"""Short ways to fold lines in tests: lines as dicts, read at a given moment."""

import json
from typing import Any

from preempt_exporter.ledger.decode import decode_chunk
from preempt_exporter.settings import LaneSettings, TaskDefaults, TaskSettings, Thresholds
from preempt_exporter.state.life import Life
from preempt_exporter.state.rates import LaneMeasurements
from preempt_exporter.state.survey import Survey, survey
from preempt_exporter.state.task_row import TaskRow, task_rows
from preempt_exporter.state.watched import Watched

T0_MS = 1_800_000_000_000
"""The moment that tests count from."""

Line = dict[str, Any]


def event(name: str, at_ms: int = 0, task_id: str = "t", **fields: Any) -> Line:
    """An admission event at `T0_MS + at_ms`, with the fields its kind requires filled in."""
    required: dict[str, Line] = {
        "admit": {"queue_age_ms": 0, "deadline_slack_ms": 100_000, "preempts": 0},
        "reject": {"reason": "restart_tokens"},
        "preempt": {"wasted_tokens": 10, "restart_tokens": 10, "preempts": 1},
        "checkpoint": {"checkpoint_tokens": 5},
        "drain": {"action": "fail_task_not_replay"},
        "complete": {"output_tokens": 7, "restart_tokens": 0},
    }
    return {"event": name, "task_id": task_id, "ts_ms": T0_MS + at_ms, **required.get(name, {}), **fields}


def attempt(number: int = 1, outcome: str = "ok", **fields: Any) -> Line:
    """An attempt line of job `j` in lane `free`: waited 10 s, ran 5 s."""
    line = {"job_id": "j", "lane": "free", "attempt": number, "enqueue_s": 0, "start_s": 10, "end_s": 15}
    return line | {"outcome": outcome, "tokens_in": 100, "tokens_out": 20, "interventions": 0} | fields


def watched(
    *,
    defaults: TaskDefaults | None = None,
    limit: int = 100_000,
    linger_ms: int = 300_000,
    abandon_after_ms: int | None = None,
    silent_after_ms: int | None = None,
    lanes: LaneSettings | None = None,
) -> Watched:
    """An empty watched state."""
    tasks = TaskSettings(
        defaults=defaults or TaskDefaults(),
        limit=limit,
        linger_ms=linger_ms,
        abandon_after_ms=abandon_after_ms,
        silent_after_ms=silent_after_ms,
    )
    return Watched(tasks, lanes or LaneSettings())


def fold(state: Watched, *lines: Line, ledger: str = "a", now_ms: int = 1_000_000_000) -> Watched:
    """Fold lines of one ledger, read at `T0_MS + now_ms`."""
    decoded = decode_chunk("".join(json.dumps(line) + "\n" for line in lines).encode())
    assert not decoded.bad, decoded.bad
    state.fold(decoded.records, ledger, T0_MS + now_ms)
    return state


def life(state: Watched, task_id: str = "t", run: str | None = None) -> Life:
    """The newest life of a task."""
    return state.figures.runs[run].lives[task_id]


def look(state: Watched, now_ms: int, thresholds: Thresholds | None = None) -> Survey:
    """A survey at `T0_MS + now_ms`."""
    thresholds = thresholds or Thresholds()
    return survey(state.figures, state.tasks, thresholds, LaneMeasurements(state.lanes, thresholds), T0_MS + now_ms)


def rows(state: Watched, now_ms: int, thresholds: Thresholds | None = None) -> list[TaskRow]:
    """Task rows at `T0_MS + now_ms`."""
    thresholds = thresholds or Thresholds()
    return task_rows(state.figures, state.tasks, thresholds, LaneMeasurements(state.lanes, thresholds), T0_MS + now_ms)
