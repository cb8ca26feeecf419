"""Which tasks get series: all, none, or the worst N with hysteresis (`--task.series`)."""

from preempt_exporter.decide.admission import exact_ratio
from preempt_exporter.settings import Thresholds
from preempt_exporter.state.life import Life
from preempt_exporter.state.survey import LiveTask, Survey

Name = tuple[str | None, str]

_NO_DEADLINE_MS = 2**62


class SeriesChoice:
    """Chooses at each scrape; remembers what it showed so that a series does not come and go."""

    def __init__(self, worst: int | None, thresholds: Thresholds) -> None:
        """`worst`: how many to show at most; None: all. `thresholds` tell which ended tasks to show first."""
        self._worst = worst
        self._thresholds = thresholds
        self._shown: set[Name] = set()

    def choose(self, survey: Survey) -> tuple[list[LiveTask], list[Life]]:
        """Live tasks and lingering lives to show, in the order of the survey.

        Of `worst:N`: live tasks past a threshold, then ended ones that beat one, then the live ones with the least
        slack. A task without a threshold passed that is shown already keeps its place while it ranks among the
        first N and a tenth more.
        """
        if self._worst is None:
            return survey.live, survey.lingering
        if self._worst == 0:
            return [], []
        if len(survey.live) + len(survey.lingering) <= self._worst:
            self._shown = {_name(task.life) for task in survey.live}
            return survey.live, survey.lingering
        chosen = self._chosen_identities(survey, self._worst)
        live = [task for task in survey.live if _name(task.life) in chosen]
        self._shown = {_name(task.life) for task in live}
        return live, [life for life in survey.lingering if _name(life) in chosen]

    def _chosen_identities(self, survey: Survey, limit: int) -> set[Name]:
        past = sorted((task for task in survey.live if task.past), key=_slack)
        ended_past = [life for life in survey.lingering if self._beat_a_threshold(life)]
        calm = sorted((task for task in survey.live if not task.past), key=_slack)
        first = [_name(task.life) for task in past] + [_name(life) for life in ended_past]
        room = max(0, limit - len(first))
        near = [_name(task.life) for task in calm[: room + limit // 10]]
        kept = [name for name in near if name in self._shown][:room]
        fresh = [name for name in near if name not in self._shown]
        rest = [_name(life) for life in survey.lingering if not self._beat_a_threshold(life)]
        return set((first + kept + fresh + rest)[:limit])

    def _beat_a_threshold(self, life: Life) -> bool:
        over, under = exact_ratio(self._thresholds.restart_frac)
        beats_budget = life.task_budget is not None and life.restart_tokens * under > over * life.task_budget
        return beats_budget or life.preempts >= self._thresholds.max_preempts


def _name(life: Life) -> Name:
    return (life.run, life.task_id)


def _slack(task: LiveTask) -> int:
    return _NO_DEADLINE_MS if task.slack_ms is None else task.slack_ms
