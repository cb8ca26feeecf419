"""What went wrong in other exporters with content and series, each from its recipe: bytes in, a scrape out."""

import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from preempt_exporter.ledger.decode import decode_chunk
from preempt_exporter.metrics.scrape import Scrape
from preempt_exporter.metrics.self_samples import Reading
from preempt_exporter.settings import LaneSettings, TaskSettings, Thresholds
from preempt_exporter.state.watched import Watched

T0_MS = 1_800_000_000_000
READING = Reading(ready=True, files=1)
GOOD = b'{"event": "enqueue", "task_id": "good", "ts_ms": 1800000000000, "deadline_ms": 60000}\n'
COMPLETE = b'{"event": "complete", "task_id": "%b", "ts_ms": 1800000001000, "output_tokens": 9, "restart_tokens": 0}\n'

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class Exporter:
    """The exporter's own way from bytes to a scrape, without files and web."""

    def __init__(self, lanes: LaneSettings | None = None, limit: int = 100_000) -> None:
        self.watched = Watched(TaskSettings(limit=limit), lanes or LaneSettings())
        self._scrape = Scrape(self.watched, Thresholds(), "0")

    def read(self, data: bytes, after_ms: int = 1000) -> "Exporter":
        decoded = decode_chunk(data, at_file_start=True)
        counts = self.watched.figures.counts
        counts.lines += decoded.lines
        for bad in decoded.bad:
            counts.errors[bad.reason] += 1
        self.watched.fold(decoded.records, "ledger", T0_MS + after_ms)
        return self

    def text(self, after_ms: int = 1000) -> str:
        return self._scrape.text(READING, T0_MS + after_ms, openmetrics=False)

    def samples(self, after_ms: int = 1000) -> Samples:
        """The scrape as Prometheus would read it; no series may come twice."""
        found: Samples = {}
        for family in text_string_to_metric_families(self.text(after_ms)):
            for sample in family.samples:
                key = (sample.name, tuple(sorted(sample.labels.items())))
                assert key not in found, key
                assert sample.timestamp is None, key
                found[key] = sample.value
        return found

    def bad_lines(self) -> int:
        return sum(self.watched.figures.counts.errors.values())


def value(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((name, tuple(sorted(labels.items()))))


def event(fields: bytes) -> bytes:
    return b'{"event": "heartbeat", "ts_ms": 1800000000000, ' + fields + b"}\n"


def test_bom_crlf_nul_and_blank_lines_are_accepted() -> None:
    """They are no lines and no errors; what stands between them counts."""
    exporter = Exporter().read(b"\xef\xbb\xbf" + GOOD.replace(b"\n", b"\r\n") + b"\n  \r\n\x00\x00" + GOOD)
    assert (exporter.watched.figures.counts.lines, exporter.bad_lines()) == (2, 0)


@pytest.mark.parametrize(
    "fields",
    [
        b'"task_id": "\xff\xfe"',
        b'"task_id": "\\ud800"',
        b'"task_id": true',
        b'"task_id": null',
        b'"task_id": {"a": 1}',
        b'"task_id": 1.5',
        b'"task_id": 9007199254740993',
        b'"task_id": 1e400',
        b'"task_id": ""',
        b'"task_id": "t", "lane": 7',
        b'"task_id": "t", "lane": "' + b"x" * 65 + b'"',
        b'"task_id": "' + b"x" * 257 + b'"',
        b'"task_id": "t", "output_tokens": NaN',
        b'"task_id": "t", "output_tokens": -1',
        b'"task_id": "t", "output_tokens": 1e400',
        b'"task_id": "t", "output_tokens": "5"',
        b'"task_id": "t", "x": ' + b"[" * 100_000,
        b'"task_id": "t", "x": "' + b"y" * (1 << 20) + b'"',
    ],
)
def test_a_strange_line_is_one_bad_line_and_spoils_nothing_else(fields: bytes) -> None:
    """The lines around it count, it is counted once, and the scrape parses."""
    around = event(b'"task_id": "before"') + event(fields) + event(b'"task_id": "after"')
    exporter = Exporter().read(GOOD + around)
    samples = exporter.samples()
    assert exporter.bad_lines() == 1
    assert value(samples, "preempt_events_total", lane="default", event="heartbeat") == 2
    assert {"good", "before", "after"} == {dict(labels)["task_id"] for name, labels in samples if name == "preempts"}


def test_an_integer_id_is_its_decimal_text() -> None:
    """1655371 stays 1655371, never 1.655371e+06."""
    exporter = Exporter().read(event(b'"task_id": 1655371, "run": 42'))
    assert 'preempts{task_id="1655371",lane="default",run="42"} 0\n' in exporter.text()


def test_a_large_count_is_written_in_full() -> None:
    """2^53 wasted twice is exact in the counter."""
    line = b'{"event": "preempt", "task_id": "t", "ts_ms": 1, "wasted_tokens": 9007199254740992, '
    exporter = Exporter().read((line + b'"restart_tokens": 1, "preempts": 1}\n') * 2)
    assert 'preempt_restart_tokens_total{lane="default"} 18014398509481984\n' in exporter.text()


def test_200_000_finished_tasks_leave_no_series_and_a_bounded_state() -> None:
    """A scrape is as large as before; what is kept stays below the limit."""
    exporter = Exporter(limit=1000)
    before = len(exporter.read(GOOD).text().splitlines())
    for first in range(0, 200_000, 20_000):
        lines = (COMPLETE % (b"t%d" % number) for number in range(first, first + 20_000))
        exporter.read(b"".join(lines))
    assert exporter.watched.figures.lives_kept <= 1000
    assert len(exporter.watched.figures.ends) <= 1000
    assert len(exporter.text().splitlines()) == before


def test_gauges_of_finished_work_are_gone_and_its_counters_stay() -> None:
    """A completed task has no series left; a drained one keeps its totals until the linger, and never its age."""
    done = (
        b'{"event": "complete", "task_id": "good", "ts_ms": 1800000001000, "output_tokens": 9, "restart_tokens": 0}\n'
    )
    drained = b'{"event": "drain", "task_id": "bad", "ts_ms": 1800000001000, "action": "fail_task_not_replay"}\n'
    exporter = Exporter().read(GOOD + done + drained)
    soon, late = exporter.samples(2000), exporter.samples(1000 + 300_001)
    tasks_soon = {(name, dict(labels)["task_id"]) for name, labels in soon if "task_id" in dict(labels)}
    assert tasks_soon == {("restart_tokens", "bad"), ("preempts", "bad"), ("checkpoint_tokens", "bad")}
    assert not [labels for _, labels in late if "task_id" in dict(labels)]
    assert value(late, "preempt_output_tokens_total", lane="default") == 9
    exporter.watched.expire(T0_MS + 900_000_000)
    assert value(exporter.samples(900_000_000), "preempt_output_tokens_total", lane="default") == 9


def test_known_counters_are_there_at_0_before_their_first_event() -> None:
    """For every configured lane, every event, reason and outcome; and every pair of refusals."""
    samples = Exporter(LaneSettings(names=("spot",))).samples()
    assert value(samples, "preempt_events_total", lane="spot", event="preempt") == 0
    assert value(samples, "preempt_rejects_total", lane="spot", reason="queue_age") == 0
    assert value(samples, "preempt_lane_attempts_total", lane="spot", outcome="preempted") == 0
    assert value(samples, "preempt_spend_refusals_total", op="commit", reason="STALE_EPOCH") == 0
    assert value(samples, "preempt_ledger_line_errors_total", reason="not_json") == 0


def test_nothing_is_registered_by_importing_or_rendering() -> None:
    """The client library's global registry stays as the library left it."""
    code = (
        "from prometheus_client import REGISTRY; before = set(REGISTRY._names_to_collectors);"
        "from preempt_exporter.metrics.platform_samples import PlatformSamples;"
        "PlatformSamples().text(openmetrics=True);"
        "import preempt_exporter.pipeline.exposition, preempt_exporter.web.serve;"
        "assert set(REGISTRY._names_to_collectors) == before"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
