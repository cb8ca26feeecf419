"""Every metric family, declared once: name, type, labels, help. Docs, rules and dashboard are checked against this."""

from msgspec import Struct

TASK = ("task_id", "lane", "run")
LANE = ("lane",)
RUN = ("run",)


class Family(Struct, frozen=True):
    """A metric family. `name` is as in the text format: counters end in `_total`."""

    name: str
    kind: str
    """`gauge`, `counter` or `histogram`."""
    labels: tuple[str, ...]
    help: str


def _gauge(name: str, labels: tuple[str, ...], help_text: str) -> Family:
    return Family(name, "gauge", labels, help_text)


def _counter(name: str, labels: tuple[str, ...], help_text: str) -> Family:
    return Family(name, "counter", labels, help_text)


def _histogram(name: str, labels: tuple[str, ...], help_text: str) -> Family:
    return Family(name, "histogram", labels, help_text)


TASK_FAMILIES = (
    _gauge("queue_age_ms", TASK, "Milliseconds since the task was enqueued; live tasks only."),
    _gauge("deadline_slack_ms", TASK, "Milliseconds of deadline left, negative once missed; live tasks only."),
    _gauge("restart_tokens", TASK, "Tokens this life must burn again because of preemptions."),
    _gauge("preempts", TASK, "Preemptions of this life."),
    _gauge("checkpoint_tokens", TASK, "Output tokens that the newest checkpoint holds."),
    _gauge("task_budget", TASK, "Tokens the task may use."),
    _gauge("deadline_ms", TASK, "Milliseconds from enqueue to deadline; live tasks only."),
    _gauge(
        "preempt_task_restart_cost_ms",
        TASK,
        "Milliseconds to finish if the slot were lost now: p95 wait, prompt at prefill rate, rest at decode rate.",
    ),
)

LANE_TASK_FAMILIES = (
    _gauge("preempt_tasks", ("lane", "state"), "Live tasks by state: queued, running, preempted."),
    _gauge("preempt_tasks_over_threshold", ("lane", "threshold"), "Live tasks past a threshold of the policy."),
    _gauge("preempt_task_queue_age_ratio_max", LANE, "Largest queue age over deadline among live tasks."),
    _gauge("preempt_task_restart_ratio_max", LANE, "Largest restart tokens over budget among live tasks."),
    _gauge("preempt_task_deadline_slack_ms_min", LANE, "Least deadline slack among live tasks, in milliseconds."),
    _gauge("preempt_tasks_silent", LANE, "Running tasks past the time by which they promised a sign of life."),
    _gauge("preempt_tasks_without_limit", ("lane", "missing"), "Live tasks whose deadline or budget is unknown."),
    _gauge("preempt_lane_draining", LANE, "1 while the lane is under an action that closes it."),
    _gauge("preempt_lane_host_preempts_max", LANE, "Most preemptions that one host had in the last 24 hours."),
    _gauge("preempt_last_enqueue_timestamp_seconds", LANE, "Unix time of the newest enqueue."),
    _counter("preempt_events_total", ("lane", "event"), "Ledger lines with an event field, repeats left out."),
    _counter("preempt_rejects_total", ("lane", "reason"), "Rejections by reason."),
    _counter("preempt_restart_tokens_total", LANE, "Tokens wasted by preemptions."),
    _counter("preempt_output_tokens_total", LANE, "Output tokens of completed lives."),
    _counter("preempt_deadline_missed_total", LANE, "Lives that ended later than their deadline."),
)

LANE_ATTEMPT_FAMILIES = (
    _counter("preempt_lane_attempts_total", ("lane", "outcome"), "Attempt lines by outcome: ok, preempted, failed."),
    _counter("preempt_lane_jobs_completed_total", LANE, "Jobs completed, each once."),
    _counter("preempt_lane_tokens_total", ("lane", "direction"), "Known tokens of attempts, in and out."),
    _counter("preempt_lane_interventions_total", LANE, "Times that a person had to step in."),
    _histogram("preempt_lane_wait_seconds", LANE, "Seconds from enqueue to start of attempts."),
    _histogram("preempt_lane_run_seconds", LANE, "Seconds from start to end of attempts."),
    _gauge("preempt_lane_window_jobs_completed", LANE, "Jobs completed in the kept window."),
    _gauge("preempt_lane_completion_ratio", LANE, "Completed jobs over jobs in the kept window."),
    _gauge("preempt_lane_rework_multiplier", LANE, "Attempts per completed job in the kept window."),
    _gauge("preempt_lane_seconds_per_completed_job", LANE, "Run seconds per completed job in the kept window."),
    _gauge("preempt_lane_wait_p95_seconds", LANE, "95th percentile of waits in the kept window."),
    _gauge("preempt_lane_run_p95_seconds", LANE, "95th percentile of run times in the kept window."),
    _gauge("preempt_lane_tokens_per_completed_job", LANE, "Known tokens per completed job in the kept window."),
    _gauge("preempt_lane_interventions_per_100_jobs", LANE, "Interventions per 100 completed jobs in the kept window."),
    _gauge("preempt_lane_required_slack_seconds", LANE, "Slack that a job needs to risk the lane."),
)

RUN_FAMILIES = (
    _gauge("preempt_run_tasks", ("run", "state"), "Tasks of the run by state of their newest life."),
    _gauge("preempt_run_deadline_timestamp_seconds", RUN, "Unix time of the run's hand-over."),
    _gauge(
        "preempt_run_projected_slack_seconds",
        RUN,
        "Seconds to the deadline less what the rest will take at the last hour's rate.",
    ),
    _gauge("preempt_spend_budget_tokens", RUN, "The run's token budget."),
    _gauge("preempt_spend_reserved_tokens", RUN, "Tokens reserved, neither committed nor released."),
    _gauge("preempt_leases_open", RUN, "Live reservations: not expired, neither committed nor released."),
    _gauge("preempt_leases_overdue", RUN, "Reservations whose lease has expired, neither committed nor released."),
    _counter("preempt_spend_committed_tokens_total", RUN, "Tokens committed."),
    _counter("preempt_spend_burned_tokens_total", RUN, "Tokens burnt by epochs that lost their lease."),
    _counter("preempt_shards_accepted_total", RUN, "Shards whose artifact was accepted."),
    _counter("preempt_compensations_total", RUN, "Accepted artifacts that were taken back."),
    _counter("preempt_spend_refusals_total", ("op", "reason"), "Refusals of the spend store."),
)

SELF_FAMILIES = (
    _gauge("preempt_threshold", ("name",), "Thresholds in force."),
    _gauge("preempt_exporter_ready", (), "1 once every ledger has been read to the size it had at the start."),
    _gauge("preempt_exporter_build_info", ("version", "python"), "Always 1; the labels say what runs."),
    _counter("preempt_ledger_lines_total", (), "Lines read, bad ones included, blank ones not."),
    _counter("preempt_ledger_bytes_total", (), "Bytes read."),
    _counter("preempt_ledger_line_errors_total", ("reason",), "Bad lines by reason."),
    _counter("preempt_ledger_ignored_lines_total", (), "Lines that no field mapping speaks of; only with mappings."),
    _counter("preempt_ledger_duplicate_lines_total", (), "Lines that repeated an earlier one and changed nothing."),
    _counter("preempt_ledger_conflicting_lines_total", (), "Attempt lines whose name was known with other content."),
    _gauge("preempt_ledger_files", (), "Files matched."),
    _gauge("preempt_ledger_unreadable_files", (), "Files matched that cannot be read now."),
    _counter("preempt_ledger_read_errors_total", (), "Failed attempts to open or read."),
    _counter("preempt_ledger_rotations_total", (), "Rotations noticed."),
    _counter("preempt_ledger_truncations_total", (), "Truncations noticed."),
    _counter("preempt_ledger_suspected_loss_total", (), "Times that loss or double reading could not be excluded."),
    _gauge("preempt_ledger_lag_bytes", (), "Bytes not read yet."),
    _gauge("preempt_ledger_lag_seconds", (), "Seconds since the oldest unread byte was noticed."),
    _gauge("preempt_ledger_last_line_timestamp_seconds", (), "Unix time at which the newest line was read."),
    _gauge("preempt_ledger_clock_skew_seconds", (), "Largest stamp ahead of its reading, of the last hours."),
    _gauge("preempt_ledger_filesystem_avail_bytes", (), "Room left for the ledgers on the fullest file system."),
    _gauge("preempt_state_snapshot_timestamp_seconds", (), "Unix time of the newest snapshot of the state."),
    _counter("preempt_tasks_evicted_total", (), "Lives that had to make room before their time."),
)

LEDGER_FAMILIES = TASK_FAMILIES + LANE_TASK_FAMILIES + LANE_ATTEMPT_FAMILIES + RUN_FAMILIES
"""Fed by the ledger: served only once the exporter has caught up."""

FAMILIES = LEDGER_FAMILIES + SELF_FAMILIES
