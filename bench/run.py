"""`make bench`: every measurement in one run on one machine, as one table of ratios.

It reports and never fails. Absolute times mean nothing on shared machines; ratios against a peer on the same bytes do.
"""

import argparse
import platform
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench_control import heartbeat_against_constant, keyed_heartbeat_against_constant
from bench_fold import against_bare_decode, against_mtail
from bench_gate import gate_against_bare_writes, policy_alone
from bench_latency import append_to_visible
from bench_load import growth, idle_cost, memory_per_live_task, scrape_while_catching_up, start_from_snapshot
from bench_memory import flat_over_finished_tasks
from bench_render import against_generate_latest
from bench_report import report_against_polars, write_attempts
from generate_ledger import write_ledger
from measure import Result


def main() -> None:
    """Measure what was asked for and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=2_000_000, help="size of the generated ledger")
    parser.add_argument("--tasks", type=int, default=10_000, help="tasks in it")
    arguments = parser.parse_args()
    program = Path(__file__).with_name("four_gauges.mtail")
    with tempfile.TemporaryDirectory(prefix="preempt-bench-") as folder:
        ledger = Path(folder) / "ledger.jsonl"
        _say(f"writing a ledger of {arguments.lines:,} lines over {arguments.tasks:,} tasks")
        write_ledger(ledger, arguments.lines, arguments.tasks)
        attempts = Path(folder) / "attempts.jsonl"
        write_attempts(attempts, arguments.lines // 4)
        measurements: list[Callable[[], Result]] = [
            lambda: against_bare_decode(ledger),
            lambda: against_mtail(ledger, program),
            lambda: append_to_visible(program),
            lambda: against_generate_latest(10_000, ">= 20"),
            lambda: against_generate_latest(100_000, ">= 15"),
            scrape_while_catching_up,
            start_from_snapshot,
            idle_cost,
            memory_per_live_task,
            flat_over_finished_tasks,
            policy_alone,
            lambda: gate_against_bare_writes(Path(folder), fsync=False),
            lambda: gate_against_bare_writes(Path(folder), fsync=True),
            lambda: heartbeat_against_constant(Path(folder)),
            lambda: keyed_heartbeat_against_constant(Path(folder)),
            lambda: report_against_polars(attempts, arguments.lines // 4),
        ]
        results = []
        for measure in measurements:
            results.append(measure())
            _say(f"{results[-1].what}: {_told(results[-1].ratio)}")
        results += growth()
    print(f"\n{arguments.lines:,} lines, {arguments.tasks:,} tasks; Python {platform.python_version()}\n")
    print("| what | ratio | wanted | note |\n| --- | ---: | --- | --- |")
    for result in results:
        print(f"| {result.what} | {_told(result.ratio)} | {result.wanted} | {result.note} |")


def _told(ratio: float) -> str:
    """So that what is a little above a limit of a hundredth does not read as that limit."""
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.4f}"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
