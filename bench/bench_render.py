"""Rendering 10,000 live tasks against prometheus_client's `generate_latest` of the same families and values."""

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from measure import Result, ratio_in_turn, seconds_of
from preempt_exporter.ledger.records import Admit, Checkpoint, Enqueue
from preempt_exporter.metrics.scrape import Scrape
from preempt_exporter.metrics.self_samples import Reading
from preempt_exporter.settings import LaneSettings, TaskSettings, Thresholds
from preempt_exporter.state.watched import Watched

START_MS = 1_795_956_000_000

disable_created_metrics()
READING = Reading(ready=True, files=1)


def live_tasks(count: int) -> Watched:
    """`count` running tasks over two lanes, each with all eight series."""
    watched = Watched(TaskSettings(series_of_worst=None, limit=10 * count), LaneSettings())
    for number in range(count):
        named = {"task_id": f"task-{number:06d}", "lane": ("free", "paid")[number % 2], "run": "nightly"}
        sizes = {"deadline_ms": 18_000_000, "task_budget": 40_000, "prompt_tokens": 800, "target_tokens": 4_000}
        watched.fold(
            [
                Enqueue(**named, ts_ms=START_MS, **sizes),
                Admit(**named, ts_ms=START_MS, queue_age_ms=0, deadline_slack_ms=1, preempts=0),
                Checkpoint(**named, ts_ms=START_MS + 1000, checkpoint_tokens=100),
            ],
            "ledger",
            START_MS + 2000,
        )
    return watched


def client_registry(scrape_text: str) -> tuple[CollectorRegistry, int]:
    """The client library's own metric objects holding the same samples, and how many samples."""
    registry = CollectorRegistry()
    samples = 0
    for family in text_string_to_metric_families(scrape_text):
        samples += len(family.samples)
        label_names = tuple(family.samples[0].labels)
        if family.type == "histogram":
            continue
        kind = Counter if family.type == "counter" else Gauge
        metric = kind(family.name, family.documentation, label_names, registry=registry)
        for sample in family.samples:
            child = metric.labels(**sample.labels) if label_names else metric
            if isinstance(child, Counter):
                child.inc(sample.value)
            else:
                child.set(sample.value)
    return registry, samples


def against_generate_latest(count: int, wanted: str) -> Result:
    """Higher is better: how many times faster than the client library renders the same families and values."""
    scrape = Scrape(live_tasks(count), Thresholds(), "0")
    now_ms = START_MS + 60_000
    registry, samples = client_registry(scrape.text(READING, now_ms, openmetrics=False))
    ratio = ratio_in_turn(
        lambda: seconds_of(lambda: generate_latest(registry)),
        lambda: seconds_of(lambda: scrape.text(READING, now_ms, openmetrics=False)),
    )
    return Result(f"a scrape of {count:,} live tasks, against generate_latest", ratio, wanted, f"{samples:,} samples")
