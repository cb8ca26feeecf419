"""Runs: will they make their hand-over, and what they have spent of what they may."""

from dashboards.pieces import EXPORTER, GREEN, RED, RUN, Line, lines


def run_row() -> list[object]:
    """The panels, left to right."""
    slack = f"preempt_run_projected_slack_seconds{{{RUN}}}"
    time_left = f"preempt_run_deadline_timestamp_seconds{{{RUN}}} - time()"
    live = f'preempt_run_tasks{{{RUN},state=~"queued|running|preempted"}} > 0'
    # All the time there is as slack: nothing is left to do, and no deadline can be missed, unless tasks are live.
    over = f"{slack} >= {time_left} unless on (cluster, job, instance, run) {live}"
    return [
        lines(
            "Runs against their hand-over",
            "Projected slack: time to the hand-over less what the rest takes at the last hour's rate. Below zero the "
            "run will be late: route_to_paid, or tell its owner. Absent while deadline, size or rate is unknown, and "
            "once the run is complete.",
            "s",
            (
                Line(f"min by (run) ({slack} unless ({over}))", "{{run}} projected slack"),
                Line(f"min by (run) ({time_left})", "{{run}} time left"),
            ),
            steps=((None, RED), (0, GREEN)),
        ),
        lines(
            "Tasks of runs",
            "Tasks of each run by the state of their newest life.",
            "short",
            (Line(f"sum by (run, state) (preempt_run_tasks{{{RUN}}}) > 0", "{{run}} {{state}}"),),
            stacked=True,
        ),
        lines(
            "Spend against the ceiling",
            "Tokens committed and reserved against the run's budget, and tokens burnt by attempts that lost their "
            "lease. At the ceiling nothing more is granted: stop_run, or raise the budget.",
            "short",
            (
                Line(f"max by (run) (preempt_spend_budget_tokens{{{RUN}}})", "{{run}} ceiling"),
                Line(f"sum by (run) (preempt_spend_committed_tokens_total{{{RUN}}})", "{{run}} committed"),
                Line(f"sum by (run) (preempt_spend_reserved_tokens{{{RUN}}})", "{{run}} reserved"),
                Line(f"sum by (run) (preempt_spend_burned_tokens_total{{{RUN}}})", "{{run}} burnt"),
            ),
            width=8,
        ),
        lines(
            "Refusals by class",
            "What the spend store refused, by reason. A refused stale epoch is the fence at work; refusals for want of "
            "budget are the ceiling.",
            "short",
            (
                Line(
                    f"sum by (reason) (increase(preempt_spend_refusals_total{{{EXPORTER}}}[$__rate_interval]))",
                    "{{reason}}",
                ),
            ),
            width=8,
            stacked=True,
        ),
        lines(
            "Leases",
            "Reservations that are neither committed nor released, and those of them whose lease has expired: "
            "reclaim_lease.",
            "short",
            (
                Line(f"sum by (run) (preempt_leases_open{{{RUN}}})", "{{run}} open"),
                Line(f"sum by (run) (preempt_leases_overdue{{{RUN}}})", "{{run}} overdue"),
            ),
            width=8,
        ),
    ]
