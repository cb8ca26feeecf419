"""Which tasks get series: all, none, or the worst N with hysteresis (`--task.series`)."""

from msgspec import Struct

from preempt_exporter.errors import UsageError
from preempt_exporter.settings import Thresholds
from preempt_exporter.decide.admission import exact_ratio
from preempt_exporter.state.life import Life
from preempt_exporter.state.survey import LiveTask, Survey

_NO_DEADLINE_MS = 2**62


class SeriesMode(Struct, frozen=True):
    """How many tasks get series at most; None: all."""

    worst: int | None

    @staticmethod
    def parse(text: str) -> "SeriesMode":
        """Read `worst:N`, `all` or `none`; anything else is a `UsageError`."""
        if text == "all":
            return SeriesMode(None)
        if text == "none":
            return SeriesMode(0)
        count = text.removeprefix("worst:")
        if count != text and count.isascii() and count.isdigit():
            return SeriesMode(int(count))
        raise UsageError(f"--task.series: '{text}' is not worst:N, all or none")


class SeriesChoice:
    """Chooses at each scrape; remembers what it showed so that a series does not come and go."""

    def __init__(self, mode: SeriesMode, thresholds: Thresholds) -> None:
        """`thresholds` tell which ended tasks are worth showing first."""
        self._worst = mode.worst
        self._thresholds = thresholds
        self._shown: set[int] = set()

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
            self._shown = {id(task.life) for task in survey.live}
            return survey.live, survey.lingering
        chosen = self._chosen_identities(survey, self._worst)
        live = [task for task in survey.live if id(task.life) in chosen]
        self._shown = {id(task.life) for task in live}
        return live, [life for life in survey.lingering if id(life) in chosen]

    def _chosen_identities(self, survey: Survey, limit: int) -> set[int]:
        past = sorted((task for task in survey.live if task.past), key=_slack)
        ended_past = [life for life in survey.lingering if self._beat_a_threshold(life)]
        calm = sorted((task for task in survey.live if not task.past), key=_slack)
        first = [id(task.life) for task in past] + [id(life) for life in ended_past]
        room = max(0, limit - len(first))
        near = [id(task.life) for task in calm[: room + limit // 10]]
        kept = [life for life in near if life in self._shown][:room]
        fresh = [life for life in near if life not in self._shown]
        rest = [id(life) for life in survey.lingering if not self._beat_a_threshold(life)]
        return set((first + kept + fresh + rest)[:limit])

    def _beat_a_threshold(self, life: Life) -> bool:
        over, under = exact_ratio(self._thresholds.restart_frac)
        beats_budget = life.task_budget is not None and life.restart_tokens * under > over * life.task_budget
        return beats_budget or life.preempts >= self._thresholds.max_preempts


def _slack(task: LiveTask) -> int:
    return _NO_DEADLINE_MS if task.slack_ms is None else task.slack_ms
