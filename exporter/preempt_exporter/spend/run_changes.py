"""Opening, closing, stopping and resuming a run: what changes of its row, and the line that says so."""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from preempt_exporter.ledger.records import Count, RunClose, RunOpen, RunResume, RunStop
from preempt_exporter.spend.requests import Text, check_texts
from preempt_exporter.spend.rows import RunPhase, RunRow


class _Change(Struct, frozen=True, kw_only=True):
    """Who changes which run, and why."""

    run: str
    by: Text | None = None
    reason: Text | None = None

    def __post_init__(self) -> None:
        check_texts(self)


class OpenRun(_Change, frozen=True, kw_only=True):
    """Open a run, open a closed one again, or change an open one: only what is named changes.

    A lowered budget refuses new reservations and takes nothing back. A stopped run stays stopped.
    """

    budget_tokens: Count | None = None
    deadline_ms: Count | None = None
    tasks: Count | None = None
    cases_per_shard: Count | None = None
    charge_burned: bool | None = None


class CloseRun(_Change, frozen=True, kw_only=True):
    """Take no more reservations; leases that are out may still be committed."""


class SwitchRun(_Change, frozen=True, kw_only=True):
    """Stop a run (it grants nothing more) or resume it."""

    switch: Literal["stop", "resume"]


RunChange = OpenRun | CloseRun | SwitchRun
RunLine = RunOpen | RunClose | RunStop | RunResume


def change_run(row: RunRow, change: RunChange, now_ms: int) -> tuple[RunRow, RunLine]:
    """The run's row after `change`, and its ledger line."""
    match change:
        case OpenRun():
            return _open(row, change), RunOpen(
                run=change.run,
                ts_ms=now_ms,
                by=change.by,
                reason=change.reason,
                budget_tokens=change.budget_tokens,
                deadline_ms=change.deadline_ms,
                tasks=change.tasks,
                cases_per_shard=change.cases_per_shard,
            )
        case CloseRun():
            line = RunClose(run=change.run, ts_ms=now_ms, by=change.by, reason=change.reason)
            return replace(row, phase=RunPhase.CLOSED), line
        case SwitchRun(switch="stop"):
            stop = RunStop(run=change.run, ts_ms=now_ms, by=change.by, reason=change.reason)
            return replace(row, stopped=True), stop
        case SwitchRun():
            resume = RunResume(run=change.run, ts_ms=now_ms, by=change.by, reason=change.reason)
            return replace(row, stopped=False), resume


def _open(row: RunRow, change: OpenRun) -> RunRow:
    def kept_or(new: int | None, old: int | None) -> int | None:
        return old if new is None else new

    return replace(
        row,
        phase=RunPhase.OPEN,
        budget_tokens=kept_or(change.budget_tokens, row.budget_tokens),
        cases_per_shard=kept_or(change.cases_per_shard, row.cases_per_shard),
        charge_burned=row.charge_burned if change.charge_burned is None else change.charge_burned,
    )
