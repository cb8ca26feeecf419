"""Per-task series. The hot part of a scrape: ages are computed here, everything else is a number and a label set."""

from collections.abc import Iterable

from preempt_exporter.metrics.text import label_value
from preempt_exporter.state.lane import OTHER
from preempt_exporter.state.life import Life
from preempt_exporter.state.survey import LiveTask


class TaskSamples:
    """Builds the sample lines of tasks; remembers label sets from scrape to scrape."""

    def __init__(self) -> None:
        """Start with nothing remembered."""
        self._labels: dict[tuple[str | None, str, str], str] = {}

    def samples(
        self, live: Iterable[LiveTask], lingering: Iterable[Life], lanes: Iterable[str]
    ) -> dict[str, list[str]]:
        """By family, the lines of the tasks to show. A lane that is not among `lanes` is `other`."""
        known, labels_now = self._labels, {}
        lane_labels = set(lanes)
        ages: list[str] = []
        slacks: list[str] = []
        restarts: list[str] = []
        preempts: list[str] = []
        checkpoints: list[str] = []
        budgets: list[str] = []
        deadlines: list[str] = []
        costs: list[str] = []

        def totals(life: Life) -> str:
            lane = life.lane if life.lane in lane_labels else OTHER
            key = (life.run, life.task_id, lane)
            labels = known.get(key) or _label_set(life, lane)
            labels_now[key] = labels
            restarts.append(f"restart_tokens{labels}{life.restart_tokens}")
            preempts.append(f"preempts{labels}{life.preempts}")
            checkpoints.append(f"checkpoint_tokens{labels}{life.checkpoint_tokens}")
            if life.task_budget is not None:
                budgets.append(f"task_budget{labels}{life.task_budget}")
            return labels

        for task in live:
            life = task.life
            labels = totals(life)
            ages.append(f"queue_age_ms{labels}{task.age_ms}")
            if task.slack_ms is not None:
                slacks.append(f"deadline_slack_ms{labels}{task.slack_ms}")
                deadlines.append(f"deadline_ms{labels}{life.deadline_ms}")
            if task.restart_cost_ms is not None:
                costs.append(f"preempt_task_restart_cost_ms{labels}{task.restart_cost_ms}")
        for life in lingering:
            totals(life)
        self._labels = labels_now
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
