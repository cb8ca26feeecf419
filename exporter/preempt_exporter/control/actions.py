"""What each action of the rules pack does, and the way back: for `act` directly, for the service, for the webhook."""

from collections.abc import Callable, Sequence
from typing import Annotated, Literal, cast, get_args

from msgspec import Meta, Struct

from preempt_exporter.clock import Clock
from preempt_exporter.decide.lane_action import LANE_ACTIONS
from preempt_exporter.errors import UsageError
from preempt_exporter.gate.gate import Gate
from preempt_exporter.gate.switches import SwitchChange, Switches, SwitchFile
from preempt_exporter.ledger.records import Id, Lane, LaneDrain, LaneResume, Mode, RunResume, RunStop
from preempt_exporter.ledger.sink import LedgerSink
from preempt_exporter.spend.run_changes import SwitchRun
from preempt_exporter.spend.service import SpendService

ActionName = Literal[
    "reject_enqueue",
    "drain_and_reject",
    "abandon_lane",
    "route_to_paid",
    "reclaim_lease",
    "stop_run",
    "fix_idempotency",
    "inspect_ledger",
    "restart_exporter",
    "resume",
    "mode",
]
ACTION_NAMES: tuple[ActionName, ...] = cast(tuple[ActionName, ...], get_args(ActionName))
FOR_A_PERSON = ("fix_idempotency", "inspect_ledger", "restart_exporter")
AUTOMATIC = tuple(name for name in ACTION_NAMES if name not in (*FOR_A_PERSON, "resume", "mode"))
"""What an alert may have carried out."""

STRENGTH = ("route_to_paid", "reject_enqueue", "drain_and_reject", "abandon_lane")
"""Each closes all that the ones before it close; the router chooses no lane under any of them."""

Words = Annotated[str, Meta(max_length=1024)]
"""Who, or why."""
ModeName = Literal["normal", "reject_preempt_budget"]
ActOutcome = Literal["done", "would", "already", "for_a_person"]


class ActRequest(Struct, frozen=True, kw_only=True):
    """One action on a lane or a run, who wants it and why."""

    action: ActionName
    lane: Lane | None = None
    run: Id | None = None
    mode: ModeName | None = None
    by: Words | None = None
    reason: Words | None = None
    dry_run: bool = False
    """Say what would be done, and do nothing."""


class ActAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was done."""

    action: ActionName
    outcome: ActOutcome
    says: str
    """The same in words."""
    lane: str | None = None
    run: str | None = None
    mode: ModeName | None = None
    in_flight: int | None = None
    """Tasks of the lane that are running and may finish; None: nobody here knows."""
    tasks_declared_lost: int | None = None
    leases_reclaimed: int | None = None


class Actions:
    """Carries actions out on one ledger's switch file, tasks and leases."""

    def __init__(
        self,
        switch_file: SwitchFile,
        sink: LedgerSink,
        clock: Clock,
        *,
        gates: Callable[[], Sequence[Gate]],
        spend: SpendService | None,
        in_flight: Callable[[str], int] | None = None,
        stops_in_store: bool = False,
    ) -> None:
        """`gates` decide about silent tasks, asked when needed; `spend` holds the leases, where there are any.

        `stops_in_store`: a stopped run is stopped in the spend store too, for drivers that do not see the switch file.
        """
        self._switch_file = switch_file
        self._sink = sink
        self._clock = clock
        self._gates = gates
        self._spend = spend
        self._in_flight = in_flight
        self._stops_in_store = stops_in_store

    def carry_out(self, request: ActRequest) -> ActAnswer:
        """Do it, or with `dry_run` say what would be done.

        Raises `UsageError` where lane, run or mode do not fit the action; `LedgerWriteError`, `StoreUnavailable` or
        `UnreadableInput` where it could not be done.
        """
        _check_target(request)
        if request.action in FOR_A_PERSON:
            return _answer(request, "for_a_person", f"{request.action} is a person's work: see the runbook")
        if request.action == "reclaim_lease":
            return self._reclaim(request)
        if request.dry_run:
            if _is_weaker(request, self._switch_file.read()):
                return self._already(request)
            return _answer(request, "would", f"would {_in_words(request)}")
        change = self._change(request)
        if self._switch_file.change_unless(lambda now: _is_weaker(request, now), change, self._sink) is None:
            return self._already(request)
        self._tell_store(request)
        return self.done(request)

    def _already(self, request: ActRequest) -> ActAnswer:
        held = self._switch_file.read().lane_action(request.lane or "")
        says = f"lane {request.lane} is under {held}, which includes {request.action}: resume it first"
        return _answer(request, "already", says, in_flight=self._running(request.lane or ""))

    def done(self, request: ActRequest) -> ActAnswer:
        """The answer once it is done."""
        running = None if request.lane is None else self._running(request.lane)
        return _answer(request, "done", _in_words(request), in_flight=running)

    def is_covered(self, request: ActRequest) -> bool:
        """Whether the lane or run is already under the same action, or a stronger one."""
        switches = self._switch_file.read()
        if request.action == "stop_run":
            return request.run in switches.stopped_runs
        return switches.lane_action(request.lane or "") == request.action or _is_weaker(request, switches)

    def stands(self, request: ActRequest) -> bool:
        """Whether the switch file says what the action asked for."""
        switches = self._switch_file.read()
        if request.action == "resume":
            return switches.lane_action(request.lane or "") is None and request.run not in switches.stopped_runs
        if request.action == "mode":
            return switches.mode == request.mode
        return self.is_covered(request)

    def _change(self, request: ActRequest) -> SwitchChange:
        said = {"ts_ms": self._clock.now_ms(), "by": request.by, "reason": request.reason}
        match request.action:
            case "mode":
                return Mode(mode=request.mode or "normal", **said)  # type: ignore[arg-type]
            case "stop_run":
                return RunStop(run=request.run or "", **said)  # type: ignore[arg-type]
            case "resume" if request.run is not None:
                return RunResume(run=request.run, **said)  # type: ignore[arg-type]
            case "resume":
                return LaneResume(lane=request.lane or "", **said)  # type: ignore[arg-type]
        return LaneDrain(lane=request.lane or "", action=request.action, **said)  # type: ignore[arg-type]

    def _tell_store(self, request: ActRequest) -> None:
        if self._spend is None or request.run is None:
            return
        stopped = self._spend.run_summary(request.run).run.stopped
        said = {"run": request.run, "by": request.by, "reason": request.reason}
        if request.action == "resume" and stopped:
            self._spend.change_run(SwitchRun(switch="resume", **said))  # type: ignore[arg-type]
        elif request.action == "stop_run" and self._stops_in_store and not stopped:
            self._spend.change_run(SwitchRun(switch="stop", **said))  # type: ignore[arg-type]

    def _reclaim(self, request: ActRequest) -> ActAnswer:
        if request.dry_run:
            silent = [
                key
                for gate in self._gates()
                for key, lane in gate.silent()
                if request.lane in (None, lane) and request.run in (None, key[0])
            ]
            says = f"would declare tasks lost that are silent ({len(silent)}) and return expired leases to the budget"
            return _answer(request, "would", says, tasks=len(silent))
        lost = [key for gate in self._gates() for key in gate.reap(lane=request.lane, run=request.run)]
        leases = None if self._spend is None else self._spend.reclaim_expired(request.run)
        says = f"silent tasks declared lost: {len(lost)}"
        says += "; no spend store to reclaim leases in" if leases is None else f", expired leases returned: {leases}"
        return _answer(request, "done", says, tasks=len(lost), leases=leases)

    def _running(self, lane: str) -> int | None:
        return None if self._in_flight is None else self._in_flight(lane)


def _is_weaker(request: ActRequest, switches: Switches) -> bool:
    """Whether the lane is under an action that closes all that this one would close, and more."""
    held = switches.lane_action(request.lane or "")
    if held is None or request.action not in STRENGTH:
        return False
    return held not in STRENGTH or STRENGTH.index(held) > STRENGTH.index(request.action)


def _check_target(request: ActRequest) -> None:
    action, lane, run = request.action, request.lane, request.run
    if action in LANE_ACTIONS and (lane is None or run is not None):
        raise UsageError(f"{action} is for a lane: give it as --lane L (in a request: lane), and no run")
    if action == "stop_run" and (run is None or lane is not None):
        raise UsageError("stop_run is for a run: give it as --run R (in a request: run), and no lane")
    if action == "resume" and (lane is None) == (run is None):
        raise UsageError("resume is for a lane or a run: give --lane L or --run R (in a request: lane, run), not both")
    if action == "mode" and request.mode is None:
        raise UsageError("which mode? Give normal or reject_preempt_budget")
    if action == "mode" and (lane is not None or run is not None):
        raise UsageError("a mode is the whole ledger's: name no lane and no run")
    if action != "mode" and request.mode is not None:
        raise UsageError(f"{action} takes no mode: leave out {request.mode}")


def _answer(
    request: ActRequest,
    outcome: ActOutcome,
    says: str,
    *,
    in_flight: int | None = None,
    tasks: int | None = None,
    leases: int | None = None,
) -> ActAnswer:
    return ActAnswer(
        action=request.action,
        outcome=outcome,
        says=says,
        lane=request.lane,
        run=request.run,
        mode=request.mode,
        in_flight=in_flight,
        tasks_declared_lost=tasks,
        leases_reclaimed=leases,
    )


def _in_words(request: ActRequest) -> str:
    if request.action == "mode":
        return f"set the admission mode to {request.mode}"
    if request.action == "resume":
        return f"resume {f'lane {request.lane}' if request.lane is not None else f'run {request.run}'}"
    if request.action == "stop_run":
        return f"stop run {request.run}: it grants nothing more"
    return f"put lane {request.lane} under {request.action}"
