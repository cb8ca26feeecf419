"""`POST /v1/route`: the router, asked with what the ledger says of lanes, hosts and jobs, and with the switch file."""

import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from preempt_exporter.clock import Clock
from preempt_exporter.control.desk import Desk
from preempt_exporter.control.operations import Operation
from preempt_exporter.control.problems import Problem
from preempt_exporter.decide.routing import RoutingDecision
from preempt_exporter.errors import UsageError
from preempt_exporter.gate.ledger_reader import LedgerReader
from preempt_exporter.ledger.records import Attempt, Preempt, Record
from preempt_exporter.router.job_request import JobRequest
from preempt_exporter.router.router import Router
from preempt_exporter.router.router_yml import RouterConfig
from preempt_exporter.state.repeats import LedgerMemory


class RoutingDesk:
    """A router that learns from one ledger, its rotated forms included."""

    def __init__(self, config: RouterConfig, ledger: Path, clock: Clock) -> None:
        """Reads nothing before the first question."""
        self._router = Router(config)
        self._reader = LedgerReader(ledger)
        self._clock = clock
        self._memory = LedgerMemory(name=str(ledger))
        self._attempts_lost: Counter[str] = Counter()
        self._preempts: Counter[str] = Counter()
        self._alone = threading.Lock()

    def route(self, job: JobRequest, lane_actions: Mapping[str, str]) -> RoutingDecision:
        """Where the job goes now. Raises `UnreadableInput`."""
        with self._alone:
            for records in self._reader.read_new():
                for record in self._memory.without_repeated_ids(records):
                    self._learn(record)
            return self._router.route(
                job,
                now_ms=self._clock.now_ms(),
                lane_actions=lane_actions,
                # Both may tell of the same loss, so the larger count of the two holds.
                preempts_by_host=dict(self._attempts_lost | self._preempts),
            )

    def _learn(self, record: Record) -> None:
        if isinstance(record, Attempt):
            if record.outcome == "preempted" and record.host:
                self._attempts_lost[record.host] += 1
            self._router.add(record)
        elif isinstance(record, Preempt) and record.host:
            self._preempts[record.host] += 1


def _route(desk: Desk, names: Mapping[str, str], fields: Any) -> RoutingDecision:
    if desk.routing is None:
        raise Problem(404, "this service has no router: start it with --router.config router.yml")
    try:
        job = msgspec.convert(fields, JobRequest)
    except msgspec.ValidationError as error:
        raise UsageError(str(error)) from error
    return desk.routing.route(job, desk.switch_file.read().lane_actions())


ROUTING_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        method="POST",
        path="/v1/route",
        summary="Which lane a job goes to, and which row of the decision table said so",
        takes=JobRequest,
        answers=RoutingDecision,
        carry_out=_route,
        fields=True,
        refusals=(404,),
    ),
)
