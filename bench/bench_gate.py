"""What a decision costs: the policy alone, and the gate's lines against bare writes of the same bytes."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from measure import Result, ratio_in_turn, seconds_of
from preempt_exporter.clock import SystemClock
from preempt_exporter.decide.admission import TaskEvidence, admission_verdict
from preempt_exporter.gate.gate import Gate
from preempt_exporter.gate.request import TaskRequest
from preempt_exporter.gate.settings import GateSettings
from preempt_exporter.ledger.records import Heartbeat
from preempt_exporter.ledger.writer import LedgerWriter
from preempt_exporter.settings import Thresholds

DECISIONS = 200_000
LINES = 2_000


def policy_alone() -> Result:
    """Decisions against empty calls of a function with the same arguments: the higher, the more a decision does."""
    evidence = TaskEvidence(queue_age_ms=1000, deadline_ms=120_000, restart_tokens=100, task_budget=1000, preempts=1)
    thresholds = Thresholds()

    def decide() -> None:
        for _ in range(DECISIONS):
            admission_verdict(evidence, thresholds)

    def call() -> None:
        for _ in range(DECISIONS):
            _nothing(evidence, thresholds)

    ratio = ratio_in_turn(lambda: seconds_of(decide), lambda: seconds_of(call))
    per_second = DECISIONS / seconds_of(decide)
    return Result("one decision of the policy, against an empty call", ratio, "reported", f"{per_second:,.0f} a second")


def gate_against_bare_writes(folder: Path, *, fsync: bool) -> Result:
    """Heartbeats through the gate against `os.write` of such lines, both waiting for the disk or neither."""
    ledger = folder / f"gate-{fsync}.jsonl"
    gate = Gate(
        ledger, LedgerWriter(ledger, fsync=fsync), SystemClock(), settings=GateSettings(), instance=f"bench{fsync}"
    )
    gate.admit(("r", "t"), TaskRequest(deadline_ms=10**9))
    line = (
        msgspec.json.encode(Heartbeat(task_id="t", run="r", ts_ms=10**12, id="gate-bench-1", output_tokens=7)) + b"\n"
    )
    bare = os.open(folder / f"bare-{fsync}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def beat() -> None:
        for _ in range(LINES):
            gate.heartbeat(("r", "t"), output_tokens=7)

    def write() -> None:
        for _ in range(LINES):
            os.write(bare, line)
            if fsync:
                os.fsync(bare)

    ratio = ratio_in_turn(lambda: _wall_seconds_of(beat), lambda: _wall_seconds_of(write))
    per_second = LINES / _wall_seconds_of(beat)
    os.close(bare)
    what = "with fsync" if fsync else "without fsync"
    return Result(
        f"gate operation {what}, against bare os.write", ratio, "reported", f"{per_second:,.0f} a second, wall"
    )


def _wall_seconds_of(work: Callable[[], None]) -> float:
    begun_s = time.monotonic()
    work()
    return time.monotonic() - begun_s


def _nothing(_evidence: TaskEvidence, _thresholds: Thresholds) -> None:
    return None
