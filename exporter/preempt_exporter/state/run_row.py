"""A run as the page's API shows it: the run metrics under shorter names."""

from msgspec import Struct

from preempt_exporter.state.figures import Figures
from preempt_exporter.state.life import LIVE_STATES
from preempt_exporter.state.survey import Survey


class RunRow(Struct, kw_only=True):
    """One run at one moment. Seconds are Unix time where the name says timestamp."""

    run: str
    tasks: dict[str, int]
    deadline_timestamp_seconds: float | None
    projected_slack_seconds: float | None
    remaining: int | None
    """Of the expected tasks, how many are not complete."""
    spend_budget_tokens: int | None
    spend_reserved_tokens: int
    spend_committed_tokens: int
    spend_burned_tokens: int
    leases_open: int
    leases_overdue: int
    shards_accepted: int
    compensations: int
    stopped: bool


def run_rows(figures: Figures, survey: Survey) -> list[RunRow]:
    """The runs that have not left, those with the least projected slack first, where anything is left to do."""
    now_ms = survey.now_ms
    rows = [
        RunRow(
            run=run.name,
            tasks=survey.runs[run.name],
            deadline_timestamp_seconds=None if run.deadline_at_ms is None else run.deadline_at_ms / 1000,
            projected_slack_seconds=run.projected_slack_s(now_ms),
            remaining=run.remaining(),
            spend_budget_tokens=run.budget_tokens,
            spend_reserved_tokens=run.reserved_tokens(),
            spend_committed_tokens=run.counters.committed_tokens,
            spend_burned_tokens=run.counters.burned_tokens,
            leases_open=run.leases_open(now_ms),
            leases_overdue=run.leases_overdue(now_ms),
            shards_accepted=run.counters.shards_accepted,
            compensations=run.counters.compensations,
            stopped=run.stopped,
        )
        for run in figures.runs.values()
        if run.name is not None and not run.has_left(now_ms)
    ]
    rows.sort(key=_urgency)
    return rows


def _urgency(row: RunRow) -> tuple[float, str]:
    slack_s = row.projected_slack_seconds
    over = row.remaining == 0 and not any(row.tasks[state] for state in LIVE_STATES)
    return (float("inf") if slack_s is None or over else slack_s, row.run)
