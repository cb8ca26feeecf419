"""A whole scrape: self families always, the ledger's once everything has been read."""

from collections.abc import Mapping

from preempt_exporter.metrics.families import LEDGER_FAMILIES, SELF_FAMILIES
from preempt_exporter.metrics.lane_samples import lane_samples
from preempt_exporter.metrics.run_samples import run_samples
from preempt_exporter.metrics.self_samples import Reading, self_samples
from preempt_exporter.metrics.series_choice import SeriesChoice
from preempt_exporter.metrics.task_samples import TaskSamples
from preempt_exporter.metrics.text import framed
from preempt_exporter.settings import Thresholds
from preempt_exporter.state.rates import LaneMeasurements
from preempt_exporter.state.survey import survey
from preempt_exporter.state.watched import Watched


class Scrape:
    """Renders the watched state; the caller keeps others from folding meanwhile."""

    def __init__(self, watched: Watched, thresholds: Thresholds, version: str) -> None:
        """`version` is the exporter's own."""
        self._watched = watched
        self._thresholds = thresholds
        self._version = version
        self._measurements = LaneMeasurements(watched.lanes, thresholds)
        self._choice = SeriesChoice(watched.tasks.series_of_worst, thresholds)
        self._tasks = TaskSamples()

    def samples(self, reading: Reading, now_ms: int) -> Mapping[str, list[str]]:
        """By family, every sample line at `now_ms`."""
        figures = self._watched.figures
        lines = dict(self_samples(figures, reading, self._thresholds, self._version, now_ms))
        if reading.ready:
            seen = survey(figures, self._watched.tasks, self._thresholds, self._measurements, now_ms)
            live, lingering = self._choice.choose(seen)
            lines |= self._tasks.samples(live, lingering, figures.lanes)
            lines |= lane_samples(figures, seen, self._measurements)
            lines |= run_samples(figures, seen)
        return lines

    def lines(self, reading: Reading, now_ms: int, *, openmetrics: bool) -> list[str]:
        """The families in either format, without the closing `# EOF`."""
        return framed(LEDGER_FAMILIES + SELF_FAMILIES, self.samples(reading, now_ms), openmetrics=openmetrics)

    def text(self, reading: Reading, now_ms: int, *, openmetrics: bool) -> str:
        """The same as one text."""
        return "\n".join([*self.lines(reading, now_ms, openmetrics=openmetrics), ""])
