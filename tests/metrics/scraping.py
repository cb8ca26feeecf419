"""From a ledger's bytes to a scrape under a fixed clock, and what must be true of every scrape."""

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families
from prometheus_client.samples import Sample

from preempt_exporter.ledger.decode import Decoded, decode_chunk
from preempt_exporter.metrics.families import FAMILIES, Family
from preempt_exporter.metrics.scrape import Scrape
from preempt_exporter.metrics.self_samples import Reading
from preempt_exporter.settings import LaneSettings, TaskSettings, Thresholds
from preempt_exporter.state.watched import Watched

READING = Reading(ready=True, bytes_read=4096, files=1, rotations=1, avail_bytes=1 << 40, snapshot_ms=1_795_956_000_500)
VERSION = "1.2.3"


class Decode(Protocol):
    """A way to read whole lines."""

    def __call__(self, data: bytes, *, at_file_start: bool) -> Decoded:
        """Their records and bad lines."""
        ...


class Exporter:
    """Everything between bytes and text, without files, threads or a network."""

    def __init__(
        self,
        tasks: TaskSettings | None = None,
        lanes: LaneSettings | None = None,
        thresholds: Thresholds | None = None,
    ) -> None:
        self.watched = Watched(tasks or TaskSettings(series_of_worst=None), lanes or LaneSettings())
        self.scrape = Scrape(self.watched, thresholds or Thresholds(), VERSION)

    def read(self, data: bytes, now_ms: int, ledger: str = "l.jsonl", *, decode: "Decode" = decode_chunk) -> "Exporter":
        """Decode and fold whole lines, read at `now_ms`."""
        decoded = decode(data, at_file_start=True)
        counts = self.watched.figures.counts
        counts.lines += decoded.lines
        for bad in decoded.bad:
            counts.errors[bad.reason] += 1
        if decoded.ignored:
            counts.ignored = decoded.ignored
        self.watched.fold(decoded.records, ledger, now_ms)
        return self

    def text(self, now_ms: int, reading: Reading = READING) -> str:
        """The scrape in text format 0.0.4."""
        return self.scrape.text(reading, now_ms, openmetrics=False)

    def openmetrics(self, now_ms: int, reading: Reading = READING) -> str:
        """The scrape in OpenMetrics."""
        return self.scrape.text(reading, now_ms, openmetrics=True) + "# EOF\n"

    def samples(self, now_ms: int) -> "Samples":
        """What both formats say, which must be the same and sound."""
        return sound_samples(self.text(now_ms), self.openmetrics(now_ms))


Series = tuple[str, frozenset[tuple[str, str]]]


class Samples(dict[Series, float]):
    """Values by series."""

    def value(self, name: str, **labels: str) -> float | None:
        """The value of exactly this series; None where there is none."""
        return self.get((name, frozenset(labels.items())))

    def labels_of(self, name: str) -> list[dict[str, str]]:
        """The label sets of every series of that name."""
        return [dict(labels) for found, labels in self if found == name]

    def names(self) -> set[str]:
        """Every sample name."""
        return {name for name, _ in self}


DECLARED: dict[str, Family] = {
    sample_name: family
    for family in FAMILIES
    for sample_name in (
        (f"{family.name}_bucket", f"{family.name}_sum", f"{family.name}_count")
        if family.kind == "histogram"
        else (family.name,)
    )
}
"""The family of each sample name that may come."""


def sound_samples(text: str, openmetrics: str) -> Samples:
    """The samples of a scrape in its two forms, after checking what holds of every scrape of ours.

    Both parse; both say the same; no series comes twice; no sample has a timestamp; no `_created`; nothing undeclared.
    """
    plain = unique(samples_of(text_families(text)))
    assert plain == unique(samples_of(openmetrics_families(openmetrics)))
    assert plain.names() <= DECLARED.keys()
    for name, labels in plain:
        family = DECLARED[name]
        allowed = {*family.labels, "le"} if name.endswith("_bucket") else {*family.labels}
        assert {label for label, _ in labels} <= allowed, (name, labels)
    return plain


def samples_of(families: Iterable[Metric]) -> list[Sample]:
    """Every sample, in order."""
    return [sample for family in families for sample in family.samples]


def unique(samples: list[Sample]) -> Samples:
    """By series; the same series twice, a timestamp or a `_created` sample fails."""
    found = Samples()
    for sample in samples:
        series = (sample.name, frozenset(sample.labels.items()))
        assert series not in found, f"twice: {series}"
        assert sample.timestamp is None, sample
        assert not sample.name.endswith("_created"), sample
        found[series] = sample.value
    return found


GOLDEN = Path(__file__).parent / "golden"
