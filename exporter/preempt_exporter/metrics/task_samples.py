"""Per-task series. The hot part of a scrape: ages are computed here, everything else is a number and a label set."""

from collections.abc import Container, Iterable

from preempt_exporter.metrics.text import label_value
from preempt_exporter.state.lane import OTHER
from preempt_exporter.state.life import Life
from preempt_exporter.state.survey import LiveTask


class TaskSamples:
    """Builds the sample lines of tasks; remembers label sets from scrape to scrape."""

    def __init__(self) -> None:
        """Start with nothing remembered."""
        self._labels: dict[Life, tuple[str, str]] = {}
        """By life, the lane it was shown under and its label set."""

    def samples(
        self, live: Iterable[LiveTask], lingering: Iterable[Life], lanes: Container[str]
    ) -> dict[str, list[str]]:
        """By family, the lines of the tasks to show. A lane that is not among `lanes` is `other`."""
        known, shown = self._labels, {}
        ages: list[str] = []
        slacks: list[str] = []
        restarts: list[str] = []
        preempts: list[str] = []
        checkpoints: list[str] = []
        budgets: list[str] = []
        deadlines: list[str] = []
        costs: list[str] = []

        def totals(life: Life) -> str:
            entry = known.get(life)
            if entry is None or entry[0] != life.lane:
                entry = (life.lane, _label_set(life, life.lane if life.lane in lanes else OTHER))
            shown[life] = entry
            labels = entry[1]
            restarts.append(f"restart_tokens{labels}{life.restart_tokens}")
            preempts.append(f"preempts{labels}{life.preempts}")
            checkpoints.append(f"checkpoint_tokens{labels}{life.checkpoint_tokens}")
            if life.task_budget is not None:
                budgets.append(f"task_budget{labels}{life.task_budget}")
            return labels

        for task in live:
            labels = totals(task.life)
            ages.append(f"queue_age_ms{labels}{task.age_ms}")
            if task.slack_ms is not None:
                slacks.append(f"deadline_slack_ms{labels}{task.slack_ms}")
                deadlines.append(f"deadline_ms{labels}{task.life.deadline_ms}")
            if task.restart_cost_ms is not None:
                costs.append(f"preempt_task_restart_cost_ms{labels}{task.restart_cost_ms}")
        for life in lingering:
            totals(life)
        self._labels = shown
        return {
            "queue_age_ms": ages,
            "deadline_slack_ms": slacks,
            "restart_tokens": restarts,
            "preempts": preempts,
            "checkpoint_tokens": checkpoints,
            "task_budget": budgets,
            "deadline_ms": deadlines,
            "preempt_task_restart_cost_ms": costs,
        }


def _label_set(life: Life, lane: str) -> str:
    run = f',run="{label_value(life.run)}"' if life.run else ""
    return f'{{task_id="{label_value(life.task_id)}",lane="{label_value(lane)}"{run}}} '
