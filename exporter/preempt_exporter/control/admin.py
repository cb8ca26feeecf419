"""`/admin`: what a person has done to lanes, runs and the mode."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from preempt_exporter.control.actions import ActAnswer, ActRequest
from preempt_exporter.control.bodies import LaneBody, ModeBody, ResumeBody
from preempt_exporter.control.desk import Desk
from preempt_exporter.control.once import Begun
from preempt_exporter.control.operations import Operation
from preempt_exporter.gate.switches import SwitchChange
from preempt_exporter.ledger.records import LaneDrain, LaneResume, Mode, Record, RunResume, RunStop


class LaneAnswer(Struct, frozen=True, kw_only=True):
    """One lane that is under an action or has tasks in flight."""

    lane: str
    action: str | None
    """None: open."""
    since_ms: int | None
    by: str | None
    reason: str | None
    in_flight: int


class SwitchboardAnswer(Struct, frozen=True, kw_only=True):
    """Everything that is switched."""

    mode: str
    lanes: tuple[LaneAnswer, ...]
    stopped_runs: tuple[str, ...]


def _drain(body: LaneBody) -> ActRequest:
    return ActRequest(action="drain_and_reject", lane=body.lane, by=body.by, reason=body.reason, dry_run=body.dry_run)


def _resume(body: ResumeBody) -> ActRequest:
    return ActRequest(
        action="resume", lane=body.lane, run=body.run, by=body.by, reason=body.reason, dry_run=body.dry_run
    )


def _mode(body: ModeBody) -> ActRequest:
    return ActRequest(action="mode", mode=body.mode, by=body.by, reason=body.reason, dry_run=body.dry_run)


def _act(body: ActRequest) -> ActRequest:
    return body


def _operation(path: str, summary: str, takes: type, request_of: Callable[[Any], ActRequest]) -> Operation:
    def carry_out(desk: Desk, names: Mapping[str, str], body: Any) -> ActAnswer:
        return desk.actions.carry_out(_signed(request_of(body)))

    def recovered(desk: Desk, names: Mapping[str, str], body: Any, begun: Begun) -> ActAnswer | None:
        """The line is there; where the switch file has not come to it, it does now."""
        request = request_of(body)
        if not begun.all_written or request.action == "reclaim_lease":
            return None
        line = begun.lines[-1]
        after = begun.later[begun.later.index(line) + 1 :]
        superseded = any(_subject(later) == _subject(line) for later in after)
        if isinstance(line, SwitchChange) and not superseded and not desk.actions.stands(request):
            desk.switch_file.change(line, _LineIsThere())
        return desk.actions.done(request)

    return Operation(
        method="POST",
        path=path,
        summary=summary,
        takes=takes,
        answers=ActAnswer,
        carry_out=carry_out,
        recovered=recovered,
    )


class _LineIsThere:
    """A ledger for a change whose line is on the ledger already."""

    def append(self, *records: Record) -> None:
        """Writes nothing."""


def _signed(request: ActRequest) -> ActRequest:
    """Nobody switches something without a name on it."""
    if request.by:
        return request
    return replace(request, by="control")


def _subject(line: Record) -> tuple[str, str] | None:
    """What a line switches."""
    match line:
        case LaneDrain() | LaneResume():
            return ("lane", line.lane)
        case RunStop() | RunResume():
            return ("run", line.run)
        case Mode():
            return ("mode", "")
    return None


def _look(desk: Desk, names: Mapping[str, str], body: Any) -> SwitchboardAnswer:
    switches = desk.switch_file.read()
    running = desk.gate.in_flight_by_lane()
    lanes = []
    for lane in sorted({*switches.lanes, *running}):
        switch = switches.lanes.get(lane)
        lanes.append(
            LaneAnswer(
                lane=lane,
                action=switch.action if switch else None,
                since_ms=switch.ts_ms if switch else None,
                by=switch.by if switch else None,
                reason=switch.reason if switch else None,
                in_flight=running.get(lane, 0),
            )
        )
    return SwitchboardAnswer(
        mode=switches.mode or desk.initial_mode,
        lanes=tuple(lanes),
        stopped_runs=tuple(sorted(switches.stopped_runs)),
    )


ADMIN_OPERATIONS: tuple[Operation, ...] = (
    _operation(
        "/admin/drain",
        "Drain a lane (`drain_and_reject`): what is in flight finishes, nothing more is admitted",
        LaneBody,
        _drain,
    ),
    _operation("/admin/resume", "The way back, for a lane or a run", ResumeBody, _resume),
    _operation("/admin/mode", "Change the admission mode", ModeBody, _mode),
    _operation("/admin/act", "Carry out any action of the rules pack", ActRequest, _act),
    Operation(
        method="GET",
        path="/admin/lanes",
        summary="Lanes under an action or with tasks in flight, the mode, stopped runs",
        takes=None,
        answers=SwitchboardAnswer,
        carry_out=_look,
    ),
)
