"""The closed sets that rules, runbooks and routes agree on."""

from preempt_exporter.decide.next_action import OVER_THRESHOLDS
from preempt_exporter.ledger.records import EVENT_NAMES, REFUSAL_OPS, REFUSAL_REASONS, REJECT_REASONS
from preempt_exporter.state.life import ENDED_STATES, LIVE_STATES

SEVERITIES = ("page", "ticket")
ACTIONS = (
    "reject_enqueue",
    "drain_and_reject",
    "abandon_lane",
    "route_to_paid",
    "reclaim_lease",
    "stop_run",
    "fix_idempotency",
    "inspect_ledger",
    "restart_exporter",
)
"""What an alert may ask for. None scales out: more capacity is more to be preempted."""
ANNOTATIONS = ("summary", "description", "runbook_url", "dashboard_url")

THRESHOLD_NAMES = (
    "queue_age_frac",
    "restart_frac",
    "max_preempts",
    "rework_max",
    "interventions_per_100_max",
    "margin_s",
)

LABEL_VALUES: dict[tuple[str, str], tuple[str, ...]] = {
    ("preempt_tasks", "state"): LIVE_STATES,
    ("preempt_run_tasks", "state"): LIVE_STATES + ENDED_STATES,
    ("preempt_tasks_over_threshold", "threshold"): OVER_THRESHOLDS,
    ("preempt_events_total", "event"): EVENT_NAMES,
    ("lane_event:preempt_events:increase5m", "event"): EVENT_NAMES,
    ("preempt_rejects_total", "reason"): REJECT_REASONS,
    ("preempt_lane_attempts_total", "outcome"): ("ok", "preempted", "failed"),
    ("preempt_spend_refusals_total", "op"): REFUSAL_OPS,
    ("preempt_spend_refusals_total", "reason"): REFUSAL_REASONS,
    ("preempt_threshold", "name"): THRESHOLD_NAMES,
}
"""Values that a matcher may name, by metric and label."""
