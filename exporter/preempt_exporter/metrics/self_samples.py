"""What the exporter says of itself: thresholds in force, what it reads and how far behind it is."""

import platform
from collections.abc import Mapping

from msgspec import Struct

from preempt_exporter.metrics.text import sample
from preempt_exporter.settings import Thresholds
from preempt_exporter.state.figures import Figures

THRESHOLD_NAMES = (
    "queue_age_frac",
    "restart_frac",
    "max_preempts",
    "rework_max",
    "interventions_per_100_max",
    "margin_s",
)


class Reading(Struct, frozen=True, kw_only=True):
    """How the reading of files goes; counters are since the start, or since the first start of a kept state."""

    ready: bool
    bytes_read: int = 0
    files: int = 0
    unreadable_files: int = 0
    read_errors: int = 0
    rotations: int = 0
    truncations: int = 0
    suspected_loss: int = 0
    lag_bytes: int = 0
    lag_s: float = 0.0
    avail_bytes: int | None = None
    snapshot_ms: int | None = None
    """When the state was last put on disk; None without a state file."""


def self_samples(
    figures: Figures, reading: Reading, thresholds: Thresholds, version: str, now_ms: int
) -> Mapping[str, list[str]]:
    """By family, the lines of everything that is there from the first scrape on."""
    counts = figures.counts
    plain: dict[str, float | None] = {
        "preempt_exporter_ready": int(reading.ready),
        "preempt_ledger_lines_total": counts.lines,
        "preempt_ledger_bytes_total": reading.bytes_read,
        "preempt_ledger_ignored_lines_total": counts.ignored,
        "preempt_ledger_duplicate_lines_total": counts.duplicates,
        "preempt_ledger_conflicting_lines_total": counts.conflicting,
        "preempt_ledger_files": reading.files,
        "preempt_ledger_unreadable_files": reading.unreadable_files,
        "preempt_ledger_read_errors_total": reading.read_errors,
        "preempt_ledger_rotations_total": reading.rotations,
        "preempt_ledger_truncations_total": reading.truncations,
        "preempt_ledger_suspected_loss_total": reading.suspected_loss,
        "preempt_ledger_lag_bytes": reading.lag_bytes,
        "preempt_ledger_lag_seconds": reading.lag_s,
        "preempt_ledger_last_line_timestamp_seconds": _seconds(figures.last_line_read_ms),
        "preempt_ledger_clock_skew_seconds": figures.skew.largest(now_ms) / 1000,
        "preempt_ledger_filesystem_avail_bytes": reading.avail_bytes,
        "preempt_state_snapshot_timestamp_seconds": _seconds(reading.snapshot_ms),
        "preempt_tasks_evicted_total": figures.evicted,
    }
    lines = {name: [sample(name, value)] for name, value in plain.items() if value is not None}
    lines["preempt_threshold"] = [
        sample("preempt_threshold", getattr(thresholds, name), name=name) for name in THRESHOLD_NAMES
    ]
    lines["preempt_exporter_build_info"] = [
        sample("preempt_exporter_build_info", 1, version=version, python=platform.python_version())
    ]
    lines["preempt_ledger_line_errors_total"] = [
        sample("preempt_ledger_line_errors_total", count, reason=reason) for reason, count in counts.errors.items()
    ]
    return lines


def _seconds(moment_ms: int | None) -> float | None:
    return None if moment_ms is None else moment_ms / 1000
