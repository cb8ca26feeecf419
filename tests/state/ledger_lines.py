"""Lines of a ledger as examples write them: an event, seconds since the example began, and what the line says."""

from collections.abc import Mapping
from typing import Any

from preempt_exporter.settings import LaneSettings, TaskDefaults, TaskSettings
from tests.state.reference import Figures, Settings, Task, tell
from tests.state.reference_reading import LedgerLine

BEGIN_MS = 1_795_956_000_000
"""Second 0 of every example."""
LEDGER = "/ledgers/a.jsonl"
OTHER_LEDGER = "/ledgers/b.jsonl"


def at(second: float) -> int:
    """Unix ms of a second of the example."""
    return BEGIN_MS + round(second * 1000)


def line(
    event: str,
    second: float,
    *,
    ledger: str = LEDGER,
    read_at: float | None = None,
    fields: Mapping[str, Any] | None = None,
    **more: Any,
) -> LedgerLine:
    """An event of task `t` (or of what its fields name), read the moment it was written unless `read_at` says when."""
    given = {**(fields or {}), **more}
    about = {} if {"task_id", "shard"} & set(given) or event in NOT_OF_A_TASK else {"task_id": "t"}
    written = {"event": event, "ts_ms": at(second), **about, **NEEDED_BY_EVENT.get(event, {}), **given}
    return (ledger, written, at(second if read_at is None else read_at))


def attempt(second: float, *, ledger: str = LEDGER, **fields: Any) -> LedgerLine:
    """An attempt line of the free lane, a success of job `j` unless `fields` say otherwise."""
    written = {
        "job_id": "j",
        "lane": "free",
        "attempt": 1,
        "enqueue_s": 0,
        "start_s": 10,
        "end_s": 30,
        "outcome": "ok",
        "tokens_in": None,
        "tokens_out": None,
        "interventions": 0,
        "ts_ms": at(second),
        **fields,
    }
    return (ledger, written, at(second))


def spend(event: str, second: float, *, ledger: str = LEDGER, **fields: Any) -> LedgerLine:
    """A spend event of epoch 0 of shard 3 of run `r`, unless `fields` say otherwise."""
    return line(event, second, ledger=ledger, **{"run": "r", "shard": "3", "epoch": 0, **fields})


NOT_OF_A_TASK = ("run_open", "run_close", "run_stop", "run_resume", "lane_drain", "lane_resume", "mode")
NEEDED_BY_EVENT: dict[str, dict[str, Any]] = {
    "admit": {"queue_age_ms": 0, "deadline_slack_ms": 120_000, "preempts": 0},
    "reject": {"reason": "queue_age"},
    "preempt": {"wasted_tokens": 0, "restart_tokens": 0, "preempts": 1},
    "checkpoint": {"checkpoint_tokens": 100},
    "drain": {"action": "fail_task_not_replay"},
    "complete": {"output_tokens": 200, "restart_tokens": 0},
    "lane_drain": {"action": "drain_and_reject"},
    "reserve": {"tokens": 1850, "lease_expires_ms": at(60), "input_digest": "sha256:aa"},
    "renew": {"lease_expires_ms": at(120)},
    "shard_checkpoint": {"index": 30, "tokens": 1110, "input_digest": "sha256:aa"},
    "commit": {"tokens": 1850, "artifact_digest": "sha256:bb"},
    "release": {"tokens": 1850, "reason": "lease_expired"},
    "compensate": {"artifact_digest": "sha256:bb", "reason": "wrong answers"},
}


def figures(*lines: LedgerLine, now: float, **kwargs: Any) -> Figures:
    """What the reference says at second `now`; `kwargs` set task settings, defaults or lanes by name."""
    lanes = {name: kwargs.pop(name) for name in ("default", "names", "prefill_tokens_per_s") if name in kwargs}
    defaults = {name: kwargs.pop(name) for name in ("deadline_ms", "task_budget") if name in kwargs}
    settings = Settings(
        task=TaskSettings(series_of_worst=None, defaults=TaskDefaults(**defaults), **kwargs), lane=LaneSettings(**lanes)
    )
    return tell(list(lines), settings, at(now))


def task(*lines: LedgerLine, now: float, **kwargs: Any) -> Task:
    """Task `t` without a run, as the reference tells it."""
    return figures(*lines, now=now, **kwargs).tasks[None, "t"]
