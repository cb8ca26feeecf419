"""The exporter itself: silence of the ledger, lag and bad lines are no news about tasks."""

from dashboards.pieces import EXPORTER, Line, lines


def exporter_row() -> list[object]:
    """The panels, left to right."""

    def increase(metric: str) -> str:
        return f"sum by (instance) (increase({metric}{{{EXPORTER}}}[$__rate_interval]))"

    return [
        lines(
            "Scraped and ready",
            "1 while Prometheus reaches the exporter, and 1 once it has caught up with its ledgers.",
            "short",
            (
                Line(f"min by (instance) (up{{{EXPORTER}}})", "{{instance}} up"),
                Line(f"min by (instance) (preempt_exporter_ready{{{EXPORTER}}})", "{{instance}} ready"),
            ),
            width=8,
        ),
        lines(
            "Behind the ledger",
            "Seconds since the oldest unread byte was noticed, and since the newest line was read. The second grows "
            "when nobody writes: then silence says nothing about workers.",
            "s",
            (
                Line(f"max by (instance) (preempt_ledger_lag_seconds{{{EXPORTER}}})", "{{instance}} lag"),
                Line(
                    f"time() - max by (instance) (preempt_ledger_last_line_timestamp_seconds{{{EXPORTER}}})",
                    "{{instance}} newest line",
                ),
            ),
            width=8,
        ),
        lines(
            "Unread bytes",
            "Bytes of the ledgers that are not read yet.",
            "bytes",
            (Line(f"sum by (instance) (preempt_ledger_lag_bytes{{{EXPORTER}}})", "{{instance}}"),),
            width=8,
        ),
        lines(
            "Lines read",
            "Lines a second, bad ones included, blank ones not.",
            "short",
            (
                Line(
                    f"sum by (instance) (rate(preempt_ledger_lines_total{{{EXPORTER}}}[$__rate_interval]))",
                    "{{instance}}",
                ),
            ),
            width=6,
        ),
        lines(
            "Bad lines, repeats, conflicts",
            "Lines that were skipped, that repeated an earlier one, or that contradict one. preempt-exporter check "
            "LEDGER names each.",
            "short",
            (
                Line(increase("preempt_ledger_line_errors_total"), "{{instance}} bad"),
                Line(increase("preempt_ledger_duplicate_lines_total"), "{{instance}} repeated"),
                Line(increase("preempt_ledger_conflicting_lines_total"), "{{instance}} conflicting"),
                Line(increase("preempt_ledger_suspected_loss_total"), "{{instance}} loss not excluded"),
            ),
            width=6,
        ),
        lines(
            "Files",
            "Ledger files matched, and those of them that cannot be read now.",
            "short",
            (
                Line(f"sum by (instance) (preempt_ledger_files{{{EXPORTER}}})", "{{instance}} matched"),
                Line(f"sum by (instance) (preempt_ledger_unreadable_files{{{EXPORTER}}})", "{{instance}} unreadable"),
            ),
            width=6,
        ),
        lines(
            "Memory and room for ledgers",
            "Resident memory of the exporter, and room left on the fullest file system that holds a ledger. When that "
            "is full, writers tear lines.",
            "bytes",
            (
                Line(f"max by (instance) (process_resident_memory_bytes{{{EXPORTER}}})", "{{instance}} memory"),
                Line(
                    f"min by (instance) (preempt_ledger_filesystem_avail_bytes{{{EXPORTER}}})",
                    "{{instance}} room left",
                ),
            ),
            width=6,
        ),
    ]
