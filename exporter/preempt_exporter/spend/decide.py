"""The one place that decides a spend request: which outcome, which rows change, which lines are written.

Pure: the rows are loaded, the time is an argument. Both stores call it inside their transaction, so that they cannot
differ. The order of the checks is that of the contract; the first that holds is the answer.

Why fencing looks at the highest epoch *granted*, not the highest committed: otherwise a worker that was presumed dead
may commit first and its replacement second, which makes two artifacts.
"""

from preempt_exporter.spend.requests import CommitRequest, CompensateRequest, GrantRequest, Request, ReserveRequest
from preempt_exporter.spend.rows import Decision, Outside, ShardView
from preempt_exporter.spend.set_aside import set_aside
from preempt_exporter.spend.settle import commit, compensate
from preempt_exporter.spend.use_lease import use_lease


def decide(request: Request, view: ShardView, now_ms: int, outside: Outside) -> Decision:
    """Judge `request` at `now_ms` of the store's clock over the rows in `view`."""
    match request:
        case GrantRequest() | ReserveRequest():
            return set_aside(request, view, now_ms, outside)
        case CommitRequest():
            return commit(request, view, now_ms, outside)
        case CompensateRequest():
            return compensate(request, view, now_ms)
        case _:
            return use_lease(request, view, now_ms, outside)
