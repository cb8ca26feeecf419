"""What an action on a lane means for the tasks and jobs in it."""

from typing import Literal, cast, get_args

LaneAction = Literal["reject_enqueue", "drain_and_reject", "abandon_lane", "route_to_paid"]
"""The actions of the rules pack that put a lane under a switch until `act resume`."""

LANE_ACTIONS: tuple[LaneAction, ...] = cast(tuple[LaneAction, ...], get_args(LaneAction))

_STOPS_NEW_TASKS = frozenset(LANE_ACTIONS) - {"route_to_paid"}
_STOPS_REPLAYS = frozenset({"drain_and_reject", "abandon_lane"})


def forbids_start(action: str | None, *, admitted_before: bool) -> bool:
    """Whether a lane under `action` (None: open) refuses a task's next start with `drain_mode`.

    `reject_enqueue` refuses new tasks only: one that was admitted in this life goes on and is admitted again after a
    preemption. `drain_and_reject` and `abandon_lane` refuse those too, so that nothing is replayed. `route_to_paid`
    is the router's affair: the lane itself stays open. An action that is not known here forbids, as a drain does:
    somebody wanted the lane closed.
    """
    if action is None:
        return False
    if action not in LANE_ACTIONS:
        return True
    return action in (_STOPS_REPLAYS if admitted_before else _STOPS_NEW_TASKS)


def forbids_routing(action: str | None, *, paid: bool = False) -> bool:
    """Whether the router sends no new job to a lane under `action` (None: open). Every action does.

    `paid`: the lane is the paid one. `route_to_paid` asks for nothing there, where its jobs go already: no job fails
    by it.
    """
    return action is not None and not (paid and action == "route_to_paid")
