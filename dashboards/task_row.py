"""Single tasks: the ones with the least slack, and how far the worst are past what the policy allows."""

from dashboards.pieces import GREEN, LANE, ORANGE, RED, TASK, TASK_LABELS, Column, Line, lines, rows, threshold
from preempt_exporter.settings import Thresholds

_DEFAULTS = Thresholds()
_LEAST = f"bottomk(50, max by ({TASK_LABELS}) (deadline_slack_ms{{{TASK}}}))"


def task_row() -> list[object]:
    """The panels, left to right."""

    def of_the_least(metric: str) -> str:
        # Without the metric's name, so that the table finds the rows of one task in all columns.
        return f"max by ({TASK_LABELS}) ({metric}{{{TASK}}}) and {_LEAST}"

    return [
        rows(
            "Tasks by least slack",
            "The 50 live tasks with the least slack. A task whose slack is below its restart cost cannot take one "
            "more preemption. Tasks without a known deadline have no slack and are not here.",
            (
                Column(_LEAST, "slack", "ms", ((None, RED), (0, ORANGE), (60_000, GREEN))),
                Column(of_the_least("preempt_task_restart_cost_ms"), "restart cost", "ms"),
                Column(of_the_least("queue_age_ms"), "queue age", "ms"),
                Column(of_the_least("restart_tokens"), "restart tokens", "short"),
                Column(of_the_least("task_budget"), "budget", "short"),
                Column(
                    of_the_least("preempts"),
                    "preemptions",
                    "short",
                    ((None, GREEN), (1, ORANGE), (_DEFAULTS.max_preempts, RED)),
                ),
            ),
            shown={"task_id": "task", "lane": "lane", "run": "run"},
            sorted_by="slack",
        ),
        lines(
            "Queue age against half the deadline",
            "Queue age over deadline: the ten oldest tasks that have one, and the oldest of each lane among all its "
            "tasks. Above the line new tasks only make the old ones later: reject_enqueue.",
            "percentunit",
            (
                Line(f"topk(10, queue_age_ms{{{TASK}}} / (deadline_ms{{{TASK}}} > 0))", "{{task_id}}"),
                Line(f"max by (lane) (preempt_task_queue_age_ratio_max{{{LANE}}})", "oldest of lane {{lane}}"),
                threshold("queue_age_frac"),
            ),
            steps=((None, GREEN), (_DEFAULTS.queue_age_frac, RED)),
        ),
        lines(
            "Restart tokens against the budget's fraction",
            "Tokens to burn again over the token budget: the ten worst tasks, ended ones for as long as they linger, "
            "and the worst live one of each lane. Above the line replaying costs more than failing: drain_and_reject.",
            "percentunit",
            (
                Line(f"topk(10, restart_tokens{{{TASK}}} / (task_budget{{{TASK}}} > 0))", "{{task_id}}"),
                Line(f"max by (lane) (preempt_task_restart_ratio_max{{{LANE}}})", "worst of lane {{lane}}"),
                threshold("restart_frac"),
            ),
            steps=((None, GREEN), (_DEFAULTS.restart_frac, RED)),
        ),
    ]
