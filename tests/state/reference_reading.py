"""Reading, told slowly: which lines count, when they happened, and what each of them says.

Written from the ledger's contract alone, as a second opinion on the exporter's state. Nothing here is fast.
"""

from dataclasses import dataclass, field
from typing import Any

Deviations = frozenset[str]
"""Where to follow the exporter although the contract, as the reference reads it, says otherwise: `deviations.py`."""

REMEMBERED_IDS = 100_000
REMEMBERED_ATTEMPTS = 10_000

ENQUEUE_FIELDS = ("enqueued_ms", "deadline_ms", "task_budget", "prompt_tokens", "target_tokens")
TASK_FIELDS: dict[str, tuple[str, ...]] = {
    "enqueue": ENQUEUE_FIELDS,
    "admit": ("queue_age_ms", "deadline_slack_ms", "preempts", *ENQUEUE_FIELDS),
    "reject": ("reason", "queue_age_ms", "deadline_slack_ms", "preempts", "restart_tokens", "task_budget"),
    "heartbeat": ("output_tokens", "next_within_ms"),
    "preempt": ("wasted_tokens", "restart_tokens", "preempts", "deadline_slack_ms", "inferred"),
    "checkpoint": ("checkpoint_tokens", "output_tokens", "input_digest", "next_within_ms"),
    "drain": ("action",),
    "complete": ("output_tokens", "restart_tokens"),
}
RUN_FIELDS: dict[str, tuple[str, ...]] = {
    "run_open": ("budget_tokens", "deadline_ms", "tasks", "cases_per_shard", "by", "reason"),
    "run_close": ("by", "reason"),
    "run_stop": ("by", "reason"),
    "run_resume": ("by", "reason"),
    "lane_drain": ("action", "by", "reason"),
    "lane_resume": ("by", "reason"),
    "mode": ("mode", "by", "reason"),
}
SPEND_FIELDS: dict[str, tuple[str, ...]] = {
    "reserve": ("tokens", "lease_expires_ms", "input_digest"),
    "renew": ("lease_expires_ms",),
    "shard_checkpoint": ("index", "tokens", "input_digest"),
    "resume": ("index",),
    "commit": ("tokens", "artifact_digest"),
    "release": ("tokens", "reason", "burned_tokens"),
    "refuse": ("op", "reason", "tokens"),
    "compensate": ("artifact_digest", "reason"),
}
FIELDS_OF_EVENT = TASK_FIELDS | RUN_FIELDS | SPEND_FIELDS
ATTEMPT_FIELDS = (
    *("job_id", "attempt", "enqueue_s", "start_s", "end_s", "outcome", "tokens_in", "tokens_out", "interventions"),
    *("idempotent", "checkpointed"),
)
FIELDS_OF_EVERY_LINE = ("event", "ts_ms", "lane", "run", "host", "id", "task_id", "shard", "epoch")
NAMES_THAT_MAY_BE_INTEGERS = ("run", "shard", "task_id", "job_id")

LedgerLine = tuple[str, dict[str, Any], int]
"""The ledger's name, the line, and the moment it was read (Unix ms)."""


@dataclass(frozen=True)
class Line:
    """A line that counts, with its moment no later than when it was read."""

    ledger: str
    fields: dict[str, Any]
    read_ms: int

    @property
    def event(self) -> str:
        """The event's name; empty for an attempt line."""
        return str(self.fields.get("event", ""))

    @property
    def moment_ms(self) -> int:
        """A `ts_ms` in the future counts as now; a line without one happened when it was read."""
        return min(int(self.fields.get("ts_ms", self.read_ms)), self.read_ms)

    @property
    def run(self) -> str | None:
        """The run that the line names."""
        return None if self.get("run") is None else str(self.get("run"))

    @property
    def lane(self) -> str | None:
        """The lane that the line names."""
        return None if self.get("lane") is None else str(self.get("lane"))

    def get(self, name: str) -> Any:
        """A field's value, None where the line does not give it."""
        return self.fields.get(name)

    def has(self, *names: str) -> bool:
        """Whether the line gives all of these."""
        return all(self.fields.get(name) is not None for name in names)


@dataclass
class Reading:
    """All lines once read, before anybody asks what they mean."""

    lines_total: int = 0
    duplicates: int = 0
    conflicting: int = 0
    skew_ms: int = 0
    fresh: list[Line] = field(default_factory=list)
    """Lines that are no repeats, in reading order."""


def understood(line: dict[str, Any]) -> dict[str, Any]:
    """What the contract knows of a line: its kind's fields, integer names as decimal strings, whole floats as such."""
    event = line.get("event")
    known: tuple[str, ...] = ATTEMPT_FIELDS if event is None else FIELDS_OF_EVENT[event]
    fields: dict[str, Any] = {}
    for name in (*FIELDS_OF_EVERY_LINE, *known):
        value = line.get(name)
        if value is None or (name in ("lane", "host") and value == ""):
            continue
        if isinstance(value, float) and value.is_integer() and not name.endswith("_s"):
            value = int(value)
        if name in NAMES_THAT_MAY_BE_INTEGERS and isinstance(value, int):
            value = str(value)
        fields[name] = value
    return fields


def read(lines: list[LedgerLine]) -> Reading:
    """Take repeats out, ledger by ledger; count what must be counted."""
    reading = Reading()
    ids: dict[str, list[str]] = {}
    attempts: dict[str, list[dict[str, Any]]] = {}
    for ledger, raw, read_ms in lines:
        reading.lines_total += 1
        line = Line(ledger, understood(raw), read_ms)
        seen_ids = ids.setdefault(ledger, [])
        seen_attempts = attempts.setdefault(ledger, [])
        is_attempt = line.event == ""
        repeats_an_id = line.has("id") and line.get("id") in seen_ids[-REMEMBERED_IDS:]
        repeats_an_attempt = is_attempt and line.fields in seen_attempts[-REMEMBERED_ATTEMPTS:]
        if repeats_an_id or repeats_an_attempt:
            reading.duplicates += 1
            continue
        if is_attempt:
            known_names = [attempt_name(earlier) for earlier in seen_attempts[-REMEMBERED_ATTEMPTS:]]
            if attempt_name(line.fields) in known_names:
                reading.conflicting += 1
            seen_attempts.append(line.fields)
        if line.has("id"):
            seen_ids.append(line.get("id"))
        if line.has("ts_ms"):
            reading.skew_ms = max(reading.skew_ms, line.get("ts_ms") - read_ms)
        reading.fresh.append(line)
    return reading


def attempt_name(fields: dict[str, Any]) -> tuple[Any, ...]:
    """(`run`, `lane`, `job_id`, `attempt`)."""
    return tuple(fields.get(name) for name in ("run", "lane", "job_id", "attempt"))
