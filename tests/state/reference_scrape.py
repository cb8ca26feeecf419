"""What a scrape must show, by the metrics' contract, of what the reference says."""

from dataclasses import asdict
from typing import Any

from preempt_exporter.ledger.records import EVENT_NAMES, REFUSAL_OPS, REFUSAL_REASONS, REJECT_REASONS
from tests.state.reference import THRESHOLDS, Figures, Lane
from tests.state.reference_attempts import BUCKETS_S, AttemptLane
from tests.state.reference_lives import LIVE_STATES, TaskKey
from tests.state.reference_runs import Run

Sample = tuple[str, frozenset[tuple[str, str]]]
"""A sample's name and labels; a label without a value is no label."""
Samples = dict[Sample, float]

TASK_FAMILIES = (
    *("queue_age_ms", "deadline_slack_ms", "restart_tokens", "preempts", "checkpoint_tokens", "task_budget"),
    *("deadline_ms", "preempt_task_restart_cost_ms"),
)
LANE_FAMILIES = (
    *("preempt_tasks", "preempt_tasks_over_threshold", "preempt_task_queue_age_ratio_max"),
    *("preempt_task_restart_ratio_max", "preempt_task_deadline_slack_ms_min", "preempt_tasks_silent"),
    *("preempt_tasks_without_limit", "preempt_lane_draining", "preempt_lane_host_preempts_max"),
    *("preempt_last_enqueue_timestamp_seconds", "preempt_events_total", "preempt_rejects_total"),
    *("preempt_restart_tokens_total", "preempt_output_tokens_total", "preempt_deadline_missed_total"),
)
ATTEMPT_FAMILIES = (
    *("preempt_lane_attempts_total", "preempt_lane_jobs_completed_total", "preempt_lane_tokens_total"),
    *("preempt_lane_interventions_total", "preempt_lane_wait_seconds_bucket", "preempt_lane_wait_seconds_sum"),
    *("preempt_lane_wait_seconds_count", "preempt_lane_run_seconds_bucket", "preempt_lane_run_seconds_sum"),
    *("preempt_lane_run_seconds_count", "preempt_lane_window_jobs_completed", "preempt_lane_completion_ratio"),
    *("preempt_lane_rework_multiplier", "preempt_lane_seconds_per_completed_job", "preempt_lane_wait_p95_seconds"),
    *("preempt_lane_run_p95_seconds", "preempt_lane_tokens_per_completed_job"),
    *("preempt_lane_interventions_per_100_jobs", "preempt_lane_required_slack_seconds"),
)
RUN_FAMILIES = (
    *("preempt_run_tasks", "preempt_run_deadline_timestamp_seconds", "preempt_run_projected_slack_seconds"),
    *("preempt_spend_budget_tokens", "preempt_spend_reserved_tokens", "preempt_leases_open"),
    *("preempt_leases_overdue", "preempt_spend_committed_tokens_total", "preempt_spend_burned_tokens_total"),
    *("preempt_shards_accepted_total", "preempt_compensations_total", "preempt_spend_refusals_total"),
)
LINE_FAMILIES = ("preempt_ledger_duplicate_lines_total", "preempt_ledger_conflicting_lines_total")
FAMILIES = frozenset((*TASK_FAMILIES, *LANE_FAMILIES, *ATTEMPT_FAMILIES, *RUN_FAMILIES, *LINE_FAMILIES))
"""Every sample name that the lines alone decide."""


def sample(name: str, /, **labels: str | None) -> Sample:
    """A sample's name and labels, None and empty ones left out."""
    return (name, frozenset((label, value) for label, value in labels.items() if value))


def samples_of(figures: Figures) -> Samples:
    """Everything that a scrape must show, with `--task.series=all`; what is unknown is not there."""
    shown: Samples = {}
    for key in figures.tasks:
        shown |= task_samples(key, figures)
    for name, lane in figures.lanes.items():
        shown |= lane_samples(name, lane)
    for name, attempts in figures.attempt_lanes.items():
        shown |= attempt_samples(name, attempts)
    for name, run in figures.runs.items():
        shown |= run_samples(name, run)
    pairs = {(op, reason) for op in REFUSAL_OPS for reason in REFUSAL_REASONS} | set(figures.refusals)
    for op, reason in pairs:
        shown[sample("preempt_spend_refusals_total", op=op, reason=reason)] = figures.refusals[op, reason]
    shown[sample("preempt_ledger_duplicate_lines_total")] = figures.reading.duplicates
    shown[sample("preempt_ledger_conflicting_lines_total")] = figures.reading.conflicting
    return shown


def known(values: dict[Sample, float | int | None]) -> Samples:
    """Those that are known."""
    return {one: float(value) for one, value in values.items() if value is not None}


def task_samples(key: TaskKey, figures: Figures) -> Samples:
    """The families that the task has at that moment."""
    run, task_id = key
    task = figures.tasks[key]
    values: dict[str, Any] = {**asdict(task), "preempt_task_restart_cost_ms": task.restart_cost_ms}
    labels = {"task_id": task_id, "lane": task.lane, "run": run}
    return known({sample(name, **labels): values[name] for name in TASK_FAMILIES if name in task.series})


def lane_samples(name: str, lane: Lane) -> Samples:
    """A lane's sums and counters, known values from 0."""
    values: dict[Sample, float | int | None] = {
        sample("preempt_task_queue_age_ratio_max", lane=name): lane.queue_age_ratio_max,
        sample("preempt_task_restart_ratio_max", lane=name): lane.restart_ratio_max,
        sample("preempt_task_deadline_slack_ms_min", lane=name): lane.deadline_slack_ms_min,
        sample("preempt_tasks_silent", lane=name): lane.silent,
        sample("preempt_lane_draining", lane=name): int(lane.draining),
        sample("preempt_lane_host_preempts_max", lane=name): lane.host_preempts_max or None,
        sample("preempt_last_enqueue_timestamp_seconds", lane=name): seconds(lane.last_enqueue_ms),
        sample("preempt_restart_tokens_total", lane=name): lane.restart_tokens,
        sample("preempt_output_tokens_total", lane=name): lane.output_tokens,
        sample("preempt_deadline_missed_total", lane=name): lane.deadline_missed,
    }
    for state in LIVE_STATES:
        values[sample("preempt_tasks", lane=name, state=state)] = lane.tasks[state]
    for threshold in THRESHOLDS:
        values[sample("preempt_tasks_over_threshold", lane=name, threshold=threshold)] = lane.over_threshold[threshold]
    for missing in ("deadline", "budget"):
        values[sample("preempt_tasks_without_limit", lane=name, missing=missing)] = lane.without_limit[missing]
    for event in EVENT_NAMES:
        values[sample("preempt_events_total", lane=name, event=event)] = lane.events[event]
    for reason in (*REJECT_REASONS, *lane.rejects):
        values[sample("preempt_rejects_total", lane=name, reason=reason)] = lane.rejects[reason]
    return known(values)


def attempt_samples(name: str, lane: AttemptLane) -> Samples:
    """A lane's counters, histograms and window gauges from attempt lines."""
    values: dict[Sample, float | int | None] = {
        sample("preempt_lane_jobs_completed_total", lane=name): lane.jobs_completed,
        sample("preempt_lane_interventions_total", lane=name): lane.interventions,
    }
    for outcome in ("ok", "preempted", "failed"):
        values[sample("preempt_lane_attempts_total", lane=name, outcome=outcome)] = lane.attempts[outcome]
    for direction in ("in", "out"):
        values[sample("preempt_lane_tokens_total", lane=name, direction=direction)] = lane.tokens[direction]
    for family, observed in (("preempt_lane_wait_seconds", lane.waits_s), ("preempt_lane_run_seconds", lane.runs_s)):
        for bucket_s in BUCKETS_S:
            within = sum(one <= bucket_s for one in observed)
            values[sample(f"{family}_bucket", lane=name, le=f"{bucket_s}.0")] = within
        values[sample(f"{family}_bucket", lane=name, le="+Inf")] = len(observed)
        values[sample(f"{family}_count", lane=name)] = len(observed)
        values[sample(f"{family}_sum", lane=name)] = sum(observed)
    if lane.window is not None:
        for figure, value in asdict(lane.window).items():
            window = "preempt_lane_window_" if figure == "jobs_completed" else "preempt_lane_"
            values[sample(window + figure, lane=name)] = value
    return known(values)


def run_samples(name: str, run: Run) -> Samples:
    """A run's gauges and counters."""
    values: dict[Sample, float | int | None] = {
        sample("preempt_run_deadline_timestamp_seconds", run=name): seconds(run.deadline_ms),
        sample("preempt_run_projected_slack_seconds", run=name): run.projected_slack_s,
        sample("preempt_spend_budget_tokens", run=name): run.budget_tokens,
        sample("preempt_spend_reserved_tokens", run=name): run.reserved_tokens,
        sample("preempt_leases_open", run=name): run.leases_open,
        sample("preempt_leases_overdue", run=name): run.leases_overdue,
        sample("preempt_spend_committed_tokens_total", run=name): run.committed_tokens,
        sample("preempt_spend_burned_tokens_total", run=name): run.burned_tokens,
        sample("preempt_shards_accepted_total", run=name): run.shards_accepted,
        sample("preempt_compensations_total", run=name): run.compensations,
    }
    for state, count in run.tasks.items():
        values[sample("preempt_run_tasks", run=name, state=state)] = count
    return known(values)


def seconds(ms: int | None) -> float | None:
    """Unix seconds of Unix ms."""
    return None if ms is None else ms / 1000


def disagreements(must: Samples, shown: Samples) -> list[str]:
    """Where a scrape differs from what must be there, in words; a known value that stands at 0 may always be there."""
    found: list[str] = []
    for one in sorted(must.keys() | shown.keys(), key=str):
        name, labels = one
        if name not in FAMILIES or (one not in must and shown[one] == 0):
            continue
        expected, actual = must.get(one), shown.get(one)
        rounding = 0.5 if name == "preempt_task_restart_cost_ms" else 0.0
        same = expected is not None and actual is not None and close(expected, actual, rounding)
        if not same:
            found.append(f"{name}{dict(sorted(labels))}: the contract says {expected}, the scrape {actual}")
    return found


def close(expected: float, actual: float, rounding: float) -> bool:
    """Equal but for what dividing in another order, or rounding to whole milliseconds, may do."""
    return expected == actual or abs(expected - actual) <= rounding + 1e-9 * max(abs(expected), abs(actual))
