"""Lanes: what is taken back, what is drained for it, where work goes instead, and what a lane costs."""

from dashboards.pieces import EXPORTER, GREEN, LANE, RED, Line, lines, threshold
from preempt_exporter.settings import Thresholds

_DEFAULTS = Thresholds()


def _increase(metric: str, matcher: str) -> str:
    return f"sum by (lane) (increase({metric}{{{LANE}{matcher}}}[$__rate_interval]))"


def preemption_row() -> list[object]:
    """Preempted beside drained beside rerouted, on one height."""
    of_the_lanes, of_all = (
        f"rate(preempt_lane_attempts_total{{{matchers}}}[$__rate_interval])" for matchers in (LANE, EXPORTER)
    )
    return [
        lines(
            "Preempted",
            "Slots taken back: preemptions of tasks, and attempts that ended preempted. One loss may be told by both.",
            "short",
            (
                Line(_increase("preempt_events_total", ',event="preempt"'), "tasks in {{lane}}"),
                Line(_increase("preempt_lane_attempts_total", ',outcome="preempted"'), "attempts in {{lane}}"),
            ),
            width=8,
        ),
        lines(
            "Drained and rejected",
            "Tasks failed instead of replayed, and tasks not admitted. They are handed back to whoever submitted "
            "them: preempt-exporter undone LEDGER.",
            "short",
            (
                Line(_increase("preempt_events_total", ',event="drain"'), "drained in {{lane}}"),
                Line(_increase("preempt_rejects_total", ""), "rejected in {{lane}}"),
            ),
            width=8,
        ),
        lines(
            "Rerouted",
            "Each lane's share of the attempts in all lanes. Work that is sent elsewhere shows as one lane's share "
            "that falls while another's rises.",
            "percentunit",
            (Line(f"sum by (lane) ({of_the_lanes}) / on () group_left () sum({of_all})", "attempts in {{lane}}"),),
            width=8,
        ),
    ]


def lane_row() -> list[object]:
    """What a lane costs and what slack it needs."""
    return [
        lines(
            "Rework multiplier",
            "Attempts per completed job in the kept window, as in preempt-exporter report. Above the line the lane is "
            "not worth its price: route_to_paid.",
            "none",
            (
                Line(f"max by (lane) (preempt_lane_rework_multiplier{{{LANE}}})", "{{lane}}"),
                threshold("rework_max"),
            ),
            steps=((None, GREEN), (_DEFAULTS.rework_max, RED)),
            width=8,
        ),
        lines(
            "Required slack",
            "The slack that a job needs to risk the lane: p95 wait + rework x p95 run time + margin. Jobs with less "
            "belong elsewhere.",
            "s",
            (
                Line(f"max by (lane) (preempt_lane_required_slack_seconds{{{LANE}}})", "{{lane}} requires"),
                Line(f"max by (lane) (preempt_lane_wait_p95_seconds{{{LANE}}})", "{{lane}} p95 wait"),
                Line(f"max by (lane) (preempt_lane_run_p95_seconds{{{LANE}}})", "{{lane}} p95 run"),
            ),
            width=8,
        ),
        lines(
            "Interventions per 100 jobs",
            "How often a person had to step in, per 100 completed jobs of the kept window.",
            "none",
            (
                Line(f"max by (lane) (preempt_lane_interventions_per_100_jobs{{{LANE}}})", "{{lane}}"),
                threshold("interventions_per_100_max"),
            ),
            steps=((None, GREEN), (_DEFAULTS.interventions_per_100_max, RED)),
            width=8,
        ),
    ]
