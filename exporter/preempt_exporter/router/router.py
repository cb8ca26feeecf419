"""Asks the decision table with what telemetry says of the lanes, the hosts and the job itself."""

from collections.abc import Iterable, Mapping

from preempt_exporter.decide.break_even import LaneAccumulator
from preempt_exporter.decide.routing import JobHistory, RoutedLane, RoutingDecision, route_job
from preempt_exporter.ledger.records import Attempt
from preempt_exporter.router.job_request import JobRequest
from preempt_exporter.router.router_yml import RouterConfig


class Router:
    """Holds the figures of every lane and every job's attempts; grows as attempts are added."""

    def __init__(self, config: RouterConfig) -> None:
        """Start without telemetry."""
        self.config = config
        self._lanes: dict[str, LaneAccumulator] = {lane.name: LaneAccumulator(lane.name) for lane in config.lanes}
        self._histories: dict[tuple[str | None, str], dict[str, JobHistory]] = {}

    def add(self, attempt: Attempt) -> None:
        """Learn from one attempt. Attempts in lanes that are not configured tell nothing and are passed by."""
        accumulator = self._lanes.get(attempt.lane)
        if accumulator is None:
            return
        accumulator.add(attempt)
        by_lane = self._histories.setdefault((attempt.run, attempt.job_id), {})
        before = by_lane.get(attempt.lane, JobHistory())
        by_lane[attempt.lane] = JobHistory(
            attempts=before.attempts + 1,
            preempted=before.preempted + (attempt.outcome == "preempted"),
            failed=before.failed + (attempt.outcome not in ("ok", "preempted")),
        )

    def add_all(self, attempts: Iterable[Attempt]) -> None:
        """Learn from many."""
        for attempt in attempts:
            self.add(attempt)

    def history_of(self, job: JobRequest) -> dict[str, JobHistory]:
        """The job's attempts so far, by lane."""
        return self._histories.get((job.run_name, job.job_name), {})

    def route(
        self,
        job: JobRequest,
        *,
        now_ms: int,
        lane_actions: Mapping[str, str] | None = None,
        preempts_by_host: Mapping[str, int] | None = None,
    ) -> RoutingDecision:
        """Where the job goes now.

        `lane_actions` are the actions that lanes are under (the switch file's); `preempts_by_host` counts the
        preemptions recorded on each host.
        """
        margin_s = self.config.policy.thresholds.margin_s
        lanes = [
            RoutedLane(
                name=lane.name,
                max_attempts=lane.max_attempts,
                checkpoint_required=lane.checkpoint_required,
                budget_tokens=lane.budget_tokens,
                figures=self._lanes[lane.name].figures(margin_s=margin_s),
                action=(lane_actions or {}).get(lane.name),
                preempts_by_host=preempts_by_host or {},
            )
            for lane in self.config.lanes
        ]
        keys = any(lane.idempotency_key is not None for lane in self.config.lanes)
        routed = job.as_routed_job(lanes_give_keys=keys, now_ms=now_ms)
        return route_job(routed, lanes, self.history_of(job), self.config.policy)
