"""`make mutants`: holds the rule tests against every mutant of the rules; exit 1 if one survives without a reason."""

import os
import sys
import time
from pathlib import Path

import yaml

from preempt_exporter.promtool import find_promtool
from preempt_exporter.rules_pack.mutation_run import run_mutants
from preempt_exporter.rules_pack.pack import rule_files

TESTS = Path(__file__).resolve().parent.parent / "tests"
REASONS = TESTS / "rules_pack" / "surviving_mutants.yml"


def main() -> int:
    """Run them all, say how many there were, and which survived."""
    started = time.monotonic()
    reasons = yaml.safe_load(REASONS.read_text(encoding="utf-8")) or {}
    test_files = sorted((TESTS / "rules").glob("*.yml"))
    report = run_mutants(find_promtool(os.environ), rule_files(), test_files, reasons, os.cpu_count() or 1)
    for problem in report.problems:
        print(problem, file=sys.stderr)
    took = time.monotonic() - started
    print(f"{report.count} mutants, {len(report.survivors)} survived, {len(reasons)} with a reason; {took:.0f} s")
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
