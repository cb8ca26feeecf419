"""The exporter's own way from bytes to a scrape, without files, threads or a network: decode, fold, survey, render."""

import json

from prometheus_client.parser import text_string_to_metric_families

from preempt_exporter.ledger.decode import decode_chunk
from preempt_exporter.metrics.families import FAMILIES
from preempt_exporter.metrics.lane_samples import lane_samples
from preempt_exporter.metrics.run_samples import run_samples
from preempt_exporter.metrics.series_choice import SeriesChoice
from preempt_exporter.metrics.task_samples import TaskSamples
from preempt_exporter.metrics.text import framed
from preempt_exporter.state.rates import LaneMeasurements
from preempt_exporter.state.survey import survey
from preempt_exporter.state.watched import Watched
from tests.state.reference import Settings
from tests.state.reference_reading import LedgerLine
from tests.state.reference_scrape import Samples, sample


class RealExporter:
    """The watched state and what renders it."""

    def __init__(self, settings: Settings) -> None:
        """Start with nothing read."""
        self.settings = settings
        self.watched = Watched(settings.task, settings.lane)
        self.bad_lines = 0
        self._measurements = LaneMeasurements(settings.lane, settings.thresholds)
        self._choice = SeriesChoice(settings.task.series_of_worst, settings.thresholds)
        self._task_samples = TaskSamples()

    def read(self, lines: list[LedgerLine], *, together: bool = False) -> "RealExporter":
        """Decode and fold the lines, one chunk each, or as few chunks as ledgers and moments allow."""
        chunk: list[LedgerLine] = []
        for line in lines:
            if chunk and not (together and (chunk[-1][0], chunk[-1][2]) == (line[0], line[2])):
                self._fold(chunk)
                chunk = []
            chunk.append(line)
        if chunk:
            self._fold(chunk)
        return self

    def _fold(self, chunk: list[LedgerLine]) -> None:
        ledger, _, read_ms = chunk[0]
        decoded = decode_chunk(b"".join(json.dumps(line).encode() + b"\n" for _, line, _ in chunk))
        self.bad_lines += len(decoded.bad)
        self.watched.fold(decoded.records, ledger, read_ms)

    def scrape_text(self, now_ms: int) -> str:
        """The exposition text of every family that lines decide, at `now_ms`."""
        figures = self.watched.figures
        seen = survey(figures, self.settings.task, self.settings.thresholds, self._measurements, now_ms)
        live, lingering = self._choice.choose(seen)
        lines = {
            **self._task_samples.samples(live, lingering, figures.lanes),
            **lane_samples(figures, seen, self._measurements),
            **run_samples(figures, seen),
        }
        return framed(FAMILIES, lines, openmetrics=False)

    def scrape(self, now_ms: int) -> Samples:
        """The samples of that text, as the client library's own parser reads them."""
        return {
            sample(one.name, **one.labels): one.value
            for family in text_string_to_metric_families(self.scrape_text(now_ms))
            for one in family.samples
        }
