"""A lane's figures as the object that `report --json` and the page's API show, so that both show the same."""

from preempt_exporter.decide.break_even import LaneFigures, slack_verdict

REPORT_FIELDS = (
    "lane",
    "completed",
    "completion_rate",
    "rework_multiplier",
    "s_per_completed_job",
    "p95_wait_s",
    "p95_run_s",
    "tokens_per_completed_job",
    "interventions_per_100",
    "required_slack_s",
)


def lane_object(figures: LaneFigures, slack_s: float | None) -> dict[str, object]:
    """A lane as an object of `report --json`; the verdict is null where no slack was given."""
    lane: dict[str, object] = {name: getattr(figures, name) for name in REPORT_FIELDS}
    lane["verdict"] = slack_verdict(figures.required_slack_s, slack_s)
    return lane
