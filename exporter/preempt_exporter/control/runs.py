"""`/v1/runs`: budgets, epochs and artifacts of the spend service."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from preempt_exporter.control.bodies import CloseRunBody, OpenRunBody
from preempt_exporter.control.desk import Desk
from preempt_exporter.control.once import Begun
from preempt_exporter.control.operations import Operation, Work
from preempt_exporter.control.problems import Problem
from preempt_exporter.spend.rows import AcceptedArtifact, RunPhase
from preempt_exporter.spend.run_changes import CloseRun, OpenRun, RunChange


class RunAnswer(Struct, frozen=True, kw_only=True):
    """A run at one instant."""

    run: str
    phase: RunPhase
    stopped: bool
    """By the switch file or in the store."""
    budget_tokens: int | None
    cases_per_shard: int | None
    charge_burned: bool
    committed_tokens: int
    reserved_tokens: int
    burned_tokens: int
    leases_open: int
    leases_overdue: int
    version: int
    """Grows with every change of the accepted set: a reducer reads it before and after."""
    accepted: tuple[AcceptedArtifact, ...]
    """Accepted epochs and digests, by shard; parts under their own names."""
    accepted_shards: tuple[str, ...]
    """Whole shards: accepted as one, or by parts that cover every case."""


def _about(desk: Desk, run: str) -> RunAnswer:
    summary = desk.spend.run_summary(run)
    row = summary.run
    return RunAnswer(
        run=run,
        phase=row.phase,
        stopped=row.stopped or run in desk.switch_file.read().stopped_runs,
        budget_tokens=row.budget_tokens,
        cases_per_shard=row.cases_per_shard,
        charge_burned=row.charge_burned,
        committed_tokens=row.committed_tokens,
        reserved_tokens=row.reserved_tokens,
        burned_tokens=row.burned_tokens,
        leases_open=summary.leases_open,
        leases_overdue=summary.leases_overdue,
        version=row.version,
        accepted=summary.accepted,
        accepted_shards=summary.accepted_shards,
    )


def _look_up(desk: Desk, names: Mapping[str, str], body: Any) -> RunAnswer:
    found = _about(desk, names["run"])
    if found.phase is RunPhase.UNOPENED and not found.stopped:
        raise Problem(404, f"run {names['run']!r} was never opened here")
    return found


def _change(make: Callable[[str, Any], RunChange]) -> Work:
    def carry_out(desk: Desk, names: Mapping[str, str], body: Any) -> RunAnswer:
        desk.spend.change_run(make(names["run"], body))
        return _about(desk, names["run"])

    return carry_out


def _changed(desk: Desk, names: Mapping[str, str], body: Any, begun: Begun) -> RunAnswer | None:
    return _about(desk, names["run"]) if begun.lines else None


def _open(run: str, body: OpenRunBody) -> OpenRun:
    return OpenRun(run=run, **msgspec.structs.asdict(body))


def _close(run: str, body: CloseRunBody) -> CloseRun:
    return CloseRun(run=run, by=body.by, reason=body.reason)


RUN_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        method="GET",
        path="/v1/runs/{run}",
        summary="A run: its budget, and the accepted epochs and digests with a version",
        takes=None,
        answers=RunAnswer,
        carry_out=_look_up,
        refusals=(404,),
    ),
    Operation(
        method="POST",
        path="/v1/runs/{run}/open",
        summary="Open a run, or change what is named of an open one",
        takes=OpenRunBody,
        answers=RunAnswer,
        carry_out=_change(_open),
        recovered=_changed,
    ),
    Operation(
        method="POST",
        path="/v1/runs/{run}/close",
        summary="Take no more reservations; leases that are out may still be committed",
        takes=CloseRunBody,
        answers=RunAnswer,
        carry_out=_change(_close),
        recovered=_changed,
    ),
)
