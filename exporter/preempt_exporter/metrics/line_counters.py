"""The line counters of a scrape: what depends on the lines alone and must equal a cold read of them."""

from collections.abc import Mapping

from msgspec import Struct
from prometheus_client.parser import text_string_to_metric_families

from preempt_exporter.metrics.families import FAMILIES

NOT_OF_LINES_ALONE = frozenset(
    {
        "preempt_tasks_evicted_total",
        "preempt_deadline_missed_total",
        "preempt_ledger_rotations_total",
        "preempt_ledger_truncations_total",
        "preempt_ledger_read_errors_total",
        "preempt_ledger_suspected_loss_total",
    }
)
"""These also depend on limits, on when files were looked at, or on what the disk did."""

LINE_COUNTER_NAMES = tuple(
    family.name for family in FAMILIES if family.kind == "counter" and family.name not in NOT_OF_LINES_ALONE
)

Series = tuple[str, tuple[tuple[str, str], ...]]
"""A counter's name and its labels without `lane`."""

Counters = Mapping[Series, float]


class Difference(Struct, frozen=True):
    """A counter on which exporter and cold read disagree."""

    series: Series
    before: float
    cold: float
    after: float

    def as_object(self) -> dict[str, object]:
        """For `--json`."""
        name, labels = self.series
        return {"name": name, "labels": dict(labels), "exporter": self.after, "cold_read": self.cold}

    def sentence(self) -> str:
        """For people."""
        name, labels = self.series
        inner = ",".join(f"{key}={value!r}" for key, value in labels)
        return f"{name}{{{inner}}}: exporter {self.after:.0f}, cold read {self.cold:.0f}"


def line_counters(scrape: str) -> Counters:
    """The line counters of a scrape in the text format, summed over `lane`."""
    names = set(LINE_COUNTER_NAMES)
    counters: dict[Series, float] = {}
    for family in text_string_to_metric_families(scrape):
        for sample in family.samples:
            if sample.name in names:
                labels = tuple(sorted((key, value) for key, value in sample.labels.items() if key != "lane"))
                counters[sample.name, labels] = counters.get((sample.name, labels), 0.0) + sample.value
    return counters


def difference(before: Counters, cold: Counters, after: Counters) -> list[Difference]:
    """Where the cold read does not lie between the exporter's counts before and after it.

    Counters of a run are compared only where both sides hold the run: one that has left is no difference.
    """
    found = []
    for series in sorted(before.keys() | cold.keys() | after.keys()):
        if _is_of_a_run(series) and (series not in cold or series not in after):
            continue
        low, value, high = before.get(series, 0.0), cold.get(series, 0.0), after.get(series, 0.0)
        if not low <= value <= high:
            found.append(Difference(series, low, value, high))
    return found


def _is_of_a_run(series: Series) -> bool:
    return any(key == "run" for key, _ in series[1])
