"""The exporter's own way from bytes to a scrape, without files, threads or a network: decode, fold, survey, render."""

import json

from prometheus_client.parser import text_string_to_metric_families

from preempt_exporter.ledger.decode import decode_chunk
from preempt_exporter.metrics.scrape import Scrape
from preempt_exporter.metrics.self_samples import Reading
from preempt_exporter.state.rates import LaneMeasurements
from preempt_exporter.state.task_row import TaskRow, task_rows
from preempt_exporter.state.watched import Watched
from tests.state.reference import Settings
from tests.state.reference_lives import TaskKey
from tests.state.reference_reading import LedgerLine
from tests.state.reference_scrape import Samples, sample

CAUGHT_UP = Reading(ready=True, files=2)
"""Every ledger was read to its end; files are not what is tested here."""


class RealExporter:
    """The watched state and what renders it."""

    def __init__(self, settings: Settings) -> None:
        """Start with nothing read."""
        self.watched = Watched(settings.task, settings.lane)
        self.settings = settings
        self.bad_lines = 0
        self._scrape = Scrape(self.watched, settings.thresholds, "0")

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

    def rows(self, now_ms: int) -> dict[TaskKey, TaskRow]:
        """The rows of `status` by (run, task)."""
        measurements = LaneMeasurements(self.settings.lane, self.settings.thresholds)
        figures, chosen = self.watched.figures, self.settings
        rows = task_rows(figures, chosen.task, chosen.thresholds, measurements, now_ms)
        return {(row.run, row.task_id): row for row in rows}

    def scrape_text(self, now_ms: int) -> str:
        """The exposition text at `now_ms`."""
        return self._scrape.text(CAUGHT_UP, now_ms, openmetrics=False)

    def scrape(self, now_ms: int) -> Samples:
        """The samples of that text, as the client library's own parser reads them."""
        return {
            sample(one.name, **one.labels): one.value
            for family in text_string_to_metric_families(self.scrape_text(now_ms))
            for one in family.samples
        }
