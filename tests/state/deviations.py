"""Where the exporter is known to differ from the reference, each with its reason and the shortest ledger that shows it.

An entry is either a sentence that can be read two ways, or a fault that is not mended yet. The property tests follow
the exporter in these points and in no other; an entry that is no longer needed fails its test and must go.
"""

from dataclasses import dataclass

from tests.state.ledger_lines import OTHER_LEDGER, attempt, line, spend
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
    "an enqueue queues a live life again": Deviation(
        "no arrow of the contract leads back to queued, but an enqueue otherwise means queued",
        (line("admit", 0), line("enqueue", 1)),
        2,
    ),
    "an expired lease is open until it is released": Deviation(
        "a lease ends by what comes first, expiry too; but its tokens stay reserved and overdue ones may be a part",
        (spend("reserve", 0),),
        61,
    ),
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

FAULTS: dict[str, Deviation] = {
    "a restart cost needs a decode rate though nothing is left": Deviation(
        "no tokens take no time at any rate: with a configured prefill rate, or no prompt, the cost is known",
        (line("admit", 0, prompt_tokens=0, target_tokens=0),),
        1,
    ),
}

DEVIATIONS = READ_TWO_WAYS | FAULTS
