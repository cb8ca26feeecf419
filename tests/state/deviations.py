"""Where the exporter is known to differ from the reference, each with its reason and the shortest ledger that shows it.

An entry is either a sentence that can be read two ways, or a fault that is not mended yet. The property tests follow
the exporter in these points and in no other; an entry that is no longer needed fails its test and must go.
"""

from dataclasses import dataclass

from tests.state.ledger_lines import OTHER_LEDGER, attempt, line
from tests.state.reference_reading import LedgerLine

HOUR_S = 3_600
OPENED = {"tasks": 5, "deadline_ms": 10_000_000}


@dataclass(frozen=True)
class Deviation:
    """One point of difference."""

    reason: str
    lines: tuple[LedgerLine, ...]
    now_s: float


READ_TWO_WAYS: dict[str, Deviation] = {
    "jobs are distinct within a ledger": Deviation(
        "jobs are distinct by run and job_id; but content of two ledgers counts twice, and memory is bounded",
        (attempt(0), attempt(0, ledger=OTHER_LEDGER)),
        1,
    ),
    "a run that is as old as now has a rate": Deviation(
        "in the millisecond of its first line a run has no rate yet; the exporter takes one millisecond",
        (line("run_open", 0, run="r", fields=OPENED), line("complete", 0, run="r")),
        0,
    ),
}

FAULTS: dict[str, Deviation] = {}

DEVIATIONS = READ_TWO_WAYS | FAULTS
