"""What the web side asks for, answered from the watched state under the reader's lock."""

import msgspec
from msgspec.structs import replace

from preempt_exporter.clock import Clock
from preempt_exporter.decide.lane_object import lane_object
from preempt_exporter.metrics.platform_samples import PlatformSamples
from preempt_exporter.metrics.scrape import Scrape
from preempt_exporter.pipeline.reader import Reader
from preempt_exporter.settings import Thresholds
from preempt_exporter.state.rates import LaneMeasurements
from preempt_exporter.state.run_row import run_rows
from preempt_exporter.state.survey import survey
from preempt_exporter.state.task_row import task_rows


class WatchedExposition:
    """The scrape, the API's lists, and how the reading goes, as finished bytes."""

    def __init__(self, reader: Reader, thresholds: Thresholds, version: str, clock: Clock) -> None:
        """Answers are of the moment `clock` shows when they are asked for."""
        self._reader = reader
        self._thresholds = thresholds
        self._version = version
        self._clock = clock
        self._scrape = Scrape(reader.watched, thresholds, version)
        self._measurements = LaneMeasurements(reader.watched.lanes, thresholds)
        self._platform = PlatformSamples()

    def render(self, *, openmetrics: bool) -> bytes:
        """The scrape in either format."""
        with self._reader.lock:
            lines = self._scrape.lines(self._reader.reading(), self._clock.now_ms(), openmetrics=openmetrics)
        lines.append(self._platform.text(openmetrics=openmetrics) + ("# EOF\n" if openmetrics else ""))
        return "\n".join(lines).encode()

    def textfile(self) -> bytes:
        """The text format without `process_*` and `python_*`, which node_exporter has for itself."""
        with self._reader.lock:
            return self._scrape.text(self._reader.reading(), self._clock.now_ms(), openmetrics=False).encode()

    def ready(self) -> bool:
        """Whether the exporter has caught up."""
        return self._reader.is_ready()

    def tasks(self) -> bytes:
        """`status --json` objects, least slack first."""
        watched = self._reader.watched
        with self._reader.lock:
            rows = task_rows(watched.figures, watched.tasks, self._thresholds, self._measurements, self._clock.now_ms())
        return msgspec.json.encode(rows)

    def lanes(self) -> bytes:
        """`report --json` objects of the kept windows; `verdict` is null, since no slack was named."""
        rows = []
        with self._reader.lock:
            for lane in self._reader.watched.figures.lanes.values():
                window = self._measurements.window_figures(lane, self._clock.now_ms())
                if window is not None:
                    rows.append(lane_object(window, slack_s=None))
        return msgspec.json.encode(rows)

    def runs(self) -> bytes:
        """The run metrics, an object per run that has not left."""
        watched = self._reader.watched
        now_ms = self._clock.now_ms()
        with self._reader.lock:
            seen = survey(watched.figures, watched.tasks, self._thresholds, self._measurements, now_ms)
            rows = run_rows(watched.figures, seen)
        return msgspec.json.encode(rows)

    def health(self) -> bytes:
        """What is read and how far behind it is."""
        with self._reader.lock:
            reading = self._reader.reading()
            figures = self._reader.watched.figures
            answer = {
                "version": self._version,
                "ready": reading.ready,
                "ledger": self._only_ledger(),
                "files": [replace(file, path=_json_text(file.path)) for file in self._reader.files()],
                "files_matched": reading.files,
                "lag_bytes": reading.lag_bytes,
                "lag_seconds": reading.lag_s,
                "lines": figures.counts.lines,
                "line_errors": sum(figures.counts.errors.values()),
                "last_line_ms": figures.last_line_read_ms,
                "mode": figures.mode,
                "lane_actions": {lane.name: lane.action for lane in figures.lanes.values() if lane.action is not None},
            }
        return msgspec.json.encode(answer)

    def _only_ledger(self) -> str | None:
        """The path of the ledger that all lines came from; None where there are several, or no JSON can hold it."""
        ledgers = self._reader.watched.figures.ledgers
        name = ledgers[0].name if len(ledgers) == 1 else None
        return name if name is not None and name == _json_text(name) else None


def _json_text(path: str) -> str:
    """A path as JSON can hold it: bytes that are not UTF-8 show as escapes."""
    return path.encode(errors="surrogateescape").decode(errors="backslashreplace")
