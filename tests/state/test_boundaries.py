"""The watched state against the reference exactly on, and one millisecond to either side of, every boundary."""

import pytest

from tests.state.deviations import DEVIATIONS
from tests.state.ledger_lines import OTHER_LEDGER, at, attempt, line, spend
from tests.state.real_scrape import RealExporter
from tests.state.reference import Settings, tell
from tests.state.reference_reading import LedgerLine
from tests.state.reference_scrape import disagreements, samples_of

HOUR_S = 3_600
MINUTE = line("enqueue", 0, deadline_ms=60_000, task_budget=1000)
REJECTED = (line("enqueue", 0), line("preempt", 1, restart_tokens=70, wasted_tokens=70), line("reject", 10))
OPENED = line("run_open", 0, run="r", tasks=9, deadline_ms=10_000_000, cases_per_shard=50)

ON_THE_CLOCK: dict[str, tuple[tuple[LedgerLine, ...], float]] = {
    "half the deadline": ((MINUTE,), 30),
    "no slack": ((MINUTE,), 60),
    "abandoned": ((MINUTE,), 660),
    "lingered as abandoned": ((MINUTE,), 960),
    "abandoned by the last line": ((MINUTE, line("heartbeat", 500)), 1100),
    "abandoned without deadline": ((line("heartbeat", 0),), 24 * HOUR_S),
    "lingered as drained": ((MINUTE, line("drain", 10)), 310),
    "silent": ((line("heartbeat", 0, next_within_ms=5_000),), 5),
    "a promise of before the admit": ((line("heartbeat", 0, next_within_ms=5_000), line("admit", 1)), 6),
    "a promise of before the preempt": (
        (line("heartbeat", 0, next_within_ms=5_000), line("preempt", 1), line("heartbeat", 2)),
        7,
    ),
    "a restart that cannot finish": (
        (line("admit", 0, prompt_tokens=0, target_tokens=200), line("checkpoint", 1)),
        119,
    ),
    "a lease": ((spend("reserve", 0),), 60),
    "a renewed lease": ((spend("reserve", 0), spend("renew", 5)), 120),
    "the window": ((attempt(0),), 24 * HOUR_S),
    "a host's day": ((line("preempt", 0, lane="free", host="h"),), 24 * HOUR_S),
    "a completion an hour ago": ((OPENED, line("complete", 50, run="r")), HOUR_S + 50),
    "a closed run": ((OPENED, line("run_close", 10, run="r")), HOUR_S + 10),
    "a silent run": ((OPENED,), 24 * HOUR_S),
}

IN_THE_LINES: dict[str, tuple[LedgerLine, ...]] = {
    "enqueued at the rejection": (*REJECTED, line("enqueue", 20, enqueued_ms=at(10))),
    "enqueued after the rejection": (*REJECTED, line("enqueue", 20, enqueued_ms=at(10.001))),
    "enqueued in the rejection's millisecond": (*REJECTED, line("enqueue", 10)),
    "admitted by age at the rejection": (*REJECTED, line("admit", 20, queue_age_ms=10_000)),
    "admitted by age after the rejection": (*REJECTED, line("admit", 20, queue_age_ms=9_999)),
    "rejected again": (*REJECTED, line("reject", 20, reason="slack_zero", restart_tokens=90, task_budget=7)),
    "late by nothing": (MINUTE, line("heartbeat", 10), line("preempt", 10, ledger=OTHER_LEDGER)),
    "late by a millisecond": (MINUTE, line("heartbeat", 10), line("preempt", 9.999, ledger=OTHER_LEDGER, read_at=10)),
    "late at the enqueue": (
        *(MINUTE, line("heartbeat", 10)),
        line("preempt", 0, ledger=OTHER_LEDGER, read_at=10, restart_tokens=70, wasted_tokens=70),
    ),
    "late before the enqueue": (
        *(line("enqueue", 1), line("heartbeat", 10)),
        line("preempt", 0.999, ledger=OTHER_LEDGER, read_at=10, restart_tokens=70, wasted_tokens=70),
    ),
    "a late line fills a deadline": (
        *(line("heartbeat", 0), line("heartbeat", 10)),
        line("enqueue", 5, ledger=OTHER_LEDGER, read_at=10, deadline_ms=77, task_budget=8, enqueued_ms=at(-5)),
    ),
    "a late line overrides no deadline": (
        *(MINUTE, line("heartbeat", 10)),
        line("enqueue", 5, ledger=OTHER_LEDGER, read_at=10, deadline_ms=77, task_budget=8, enqueued_ms=at(-5)),
    ),
    "an end at the deadline": (MINUTE, line("complete", 60)),
    "an end after the deadline": (MINUTE, line("complete", 60.001)),
    "a second end after the deadline": (MINUTE, line("reject", 61), line("drain", 62)),
    "a fifth of the budget": (MINUTE, line("preempt", 1, restart_tokens=200)),
    "more than a fifth of the budget": (MINUTE, line("preempt", 1, restart_tokens=201)),
    "as many preemptions as allowed": (MINUTE, line("preempt", 1, preempts=2)),
    "a gap between parts": (OPENED, spend("commit", 1, shard="3/0-29"), spend("commit", 2, shard="3/31-49")),
    "parts that meet": (OPENED, spend("commit", 1, shard="3/30-49"), spend("commit", 2, shard="3/0-29")),
    "parts that overlap": (OPENED, spend("commit", 1, shard="3/0-30"), spend("commit", 2, shard="3/30-49")),
    "a commit read before its reservation": (spend("commit", 5), spend("reserve", 0, ledger=OTHER_LEDGER)),
    "a release read before its reservation": (spend("release", 5), spend("reserve", 0, ledger=OTHER_LEDGER)),
    "a bucket's bound": (attempt(0, start_s=15, end_s=75), attempt(0, attempt=2, start_s=15.001, end_s=75.002)),
}


def differences(lines: tuple[LedgerLine, ...], now_ms: int) -> list[str]:
    """Where the exporter's scrape and the reference differ."""
    must = samples_of(tell(list(lines), Settings(deviations=frozenset(DEVIATIONS)), now_ms))
    return disagreements(must, RealExporter(Settings()).read(list(lines)).scrape(now_ms))


@pytest.mark.parametrize("name", ON_THE_CLOCK)
@pytest.mark.parametrize("step_ms", [-1, 0, 1])
def test_time_passes_a_boundary(name: str, step_ms: int) -> None:
    """What time alone changes, changes in the millisecond in which the contract changes it."""
    lines, second = ON_THE_CLOCK[name]
    assert differences(lines, at(second) + step_ms) == []


@pytest.mark.parametrize("name", IN_THE_LINES)
def test_a_line_meets_a_boundary(name: str) -> None:
    """What a line's own numbers decide, is decided on the side on which the contract puts them."""
    assert differences(IN_THE_LINES[name], at(70)) == []
