"""`drill batch`: a router, a worker process per lane, and a state that survives `kill -9` at any instant.

The driver sends each job to the lane that the decision table names, waits for the workers, and appends a line per
attempt to the telemetry. From the first dispatch to the last end something is always in flight, because an attempt
ends and the next begins in one transaction; what is in flight when the driver dies is found again by `--resume`.
"""

import select
import threading
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from preempt_exporter.clock import Clock
from preempt_exporter.decide.routing import RoutingDecision
from preempt_exporter.drill.batch_lane import LaneWorker
from preempt_exporter.drill.batch_state import BatchState, WaitingJob
from preempt_exporter.drill.batch_worker import Assignment
from preempt_exporter.errors import PreemptExporterError
from preempt_exporter.ledger.records import Attempt
from preempt_exporter.ledger.sink import LedgerSink
from preempt_exporter.router.router import Router

LOOK_AHEAD = 32
"""How many waiting jobs are asked about while a lane is idle."""
LOOK_UP_S = 0.2
"""How often a waiting driver looks whether it was told to stop."""


class Dispatch(Struct, frozen=True, kw_only=True):
    """An attempt that was opened and is to be sent."""

    worker: LaneWorker
    assignment: Assignment


class BatchDrill:
    """One driver's time with a batch: call `play` once."""

    def __init__(
        self,
        state: BatchState,
        router: Router,
        sink: LedgerSink,
        clock: Clock,
        *,
        workers: Sequence[LaneWorker],
        lane_actions: Callable[[], dict[str, str]],
        on_progress: Callable[[int], None] = lambda ended: None,
    ) -> None:
        """`workers` has one for each of the router's lanes; `lane_actions` reads the switch file."""
        self._state = state
        self._router = router
        self._sink = sink
        self._clock = clock
        self._workers = {worker.lane: worker for worker in workers}
        self._lane_actions = lane_actions
        self._on_progress = on_progress
        self._ended = 0

    def play(self, history: Iterable[Attempt], stop: threading.Event) -> None:
        """Work until every job is done or failed, or, once `stop` is set, until nothing is in flight.

        `history`: what the telemetry holds already. Lines of this batch among them are not written again. Raises
        `PreemptExporterError` where a worker ended by itself.
        """
        self._state.give_up_open_attempts()
        told = set()
        for attempt in history:
            if attempt.run == self._state.run:
                told.add(attempt.id)
            else:
                self._router.add(attempt)
        untold = self._state.attempts(untold_only=True)
        self._state.mark_told([sequence for sequence, line in untold if line.id in told])
        self._router.add_all(line for _, line in self._state.attempts())
        self._tell()
        try:
            self._send(self._turn(stop, {}))
            while busy := [worker for worker in self._workers.values() if worker.in_flight is not None]:
                self._send(self._turn(stop, self._wait_for(busy)))
                self._tell()
        finally:
            for worker in self._workers.values():
                worker.stop()
        for worker in self._workers.values():
            if worker.broken is not None:
                raise PreemptExporterError(f"{worker.broken}; nothing more was dispatched, --resume goes on")

    def _wait_for(self, busy: Sequence[LaneWorker]) -> dict[int, str]:
        """Outcomes by attempt; empty when it is only time to look up."""
        by_pipe = {worker.answers.fileno(): worker for worker in busy}
        ready, _, _ = select.select(list(by_pipe), [], [], LOOK_UP_S)
        ended: dict[int, str] = {}
        for pipe in ready:
            worker = by_pipe[pipe]
            assert worker.in_flight is not None
            sequence = worker.in_flight
            ended[sequence] = worker.outcome()
        return ended

    def _turn(self, stop: threading.Event, ended: dict[int, str]) -> list[Dispatch]:
        """Close what ended and open what comes next, in one transaction."""
        with self._state.database.changing():
            for sequence, outcome in ended.items():
                self._state.end(sequence, outcome)
            if ended:
                lines = dict(self._state.attempts(untold_only=True))
                self._router.add_all(lines[sequence] for sequence in ended)
            broken = any(worker.broken is not None for worker in self._workers.values())
            chosen = [] if stop.is_set() or broken or self._state.is_draining() else self._choose()
        self._ended += len(ended)
        self._on_progress(self._ended)
        return chosen

    def _choose(self) -> list[Dispatch]:
        idle = {lane: worker for lane, worker in self._workers.items() if worker.in_flight is None}
        chosen: list[Dispatch] = []
        actions = self._lane_actions()
        while idle and (waiting := self._state.waiting(LOOK_AHEAD)):
            failed_some = False
            for one in waiting:
                decision = self._route(one, actions)
                if decision.lane is None and "lane_under_action" in decision.passed_over.values():
                    continue  # it waits for `act resume`: an action must be reversible
                if decision.lane is None:
                    self._state.fail_job(one.job.job_name, f"{decision.row}: {decision.reason}")
                    failed_some = True
                elif decision.lane in idle:
                    sequence = self._state.dispatch(one.job.job_name, decision.lane)
                    assignment = Assignment(sequence=sequence, key=one.key)
                    chosen.append(Dispatch(worker=idle.pop(decision.lane), assignment=assignment))
            if chosen or not failed_some:
                break
        return chosen

    def _route(self, waiting: WaitingJob, actions: dict[str, str]) -> RoutingDecision:
        job = waiting.job
        enqueued_ms = self._state.began_ms if job.enqueued_ms is None else job.enqueued_ms
        asked = replace(job, enqueued_ms=enqueued_ms, checkpointed=True, checkpoint_tokens=waiting.checkpoint_tokens)
        return self._router.route(asked, now_ms=self._clock.now_ms(), lane_actions=actions)

    def _send(self, chosen: Iterable[Dispatch]) -> None:
        for dispatch in chosen:
            dispatch.worker.send(dispatch.assignment)

    def _tell(self) -> None:
        untold = self._state.attempts(untold_only=True)
        if untold:
            self._sink.append(*(line for _, line in untold))
            self._state.mark_told([sequence for sequence, _ in untold])
