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
        slack, then other ended ones. What competes for the last places is steadied: see `_steadied`.
        """
        if self._worst is None:
            return survey.live, survey.lingering
        if self._worst == 0:
            return [], []
        if len(survey.live) + len(survey.lingering) <= self._worst:
            self._shown = {_name(task.life) for task in survey.live} | {_name(life) for life in survey.lingering}
            return survey.live, survey.lingering
        self._shown = chosen = self._chosen_names(survey, self._worst)
        live = [task for task in survey.live if _name(task.life) in chosen]
        return live, [life for life in survey.lingering if _name(life) in chosen]

    def _chosen_names(self, survey: Survey, limit: int) -> set[Name]:
        past = sorted((task for task in survey.live if task.past), key=_slack)
        calm = sorted((task for task in survey.live if not task.past), key=_slack)
        beaten = [life for life in survey.lingering if self._beat_a_threshold(life)]
        first = [*(_name(task.life) for task in past), *map(_name, beaten)]
        chosen = set(self._steadied(first, limit))
        chosen.update(self._steadied([_name(task.life) for task in calm], limit - len(chosen)))
        rest = [name for life in survey.lingering if (name := _name(life)) not in chosen]
        chosen.update(rest[: limit - len(chosen)])
        return chosen

    def _steadied(self, ranked: list[Name], places: int) -> list[Name]:
        """Who of `ranked`, the worst first, gets one of `places`.

        All but the last tenth of the places (one at least) go by rank alone, so that the worst are always there. The
        last tenth goes to who is shown already and ranks at most a tenth too low, then by rank.
        """
        if len(ranked) <= places:
            return ranked
        band = -(-places // 10)
        sure, near = ranked[: places - band], ranked[places - band : places + band]
        kept = [name for name in near if name in self._shown]
        fresh = [name for name in near if name not in self._shown]
        return sure + (kept + fresh)[:band]

    def _beat_a_threshold(self, life: Life) -> bool:
        over, under = exact_ratio(self._thresholds.restart_frac)
        beats_budget = life.task_budget is not None and life.restart_tokens * under > over * life.task_budget
        return beats_budget or life.preempts >= self._thresholds.max_preempts


def _name(life: Life) -> Name:
    return (life.run, life.task_id)


def _slack(task: LiveTask) -> int:
    return _NO_DEADLINE_MS if task.slack_ms is None else task.slack_ms
