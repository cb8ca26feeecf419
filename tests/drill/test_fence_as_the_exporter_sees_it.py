"""The store's totals and what an exporter reads from the ledger's lines are the same numbers."""

import random
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from preempt_exporter.clock import FixedClock
from preempt_exporter.drill.fence import FenceDrill
from preempt_exporter.drill.fence_report import FenceTerms
from preempt_exporter.drill.fence_sink import KeepingSink
from preempt_exporter.ledger.decode import decode_chunk
from preempt_exporter.ledger.records import Record
from preempt_exporter.ledger.writer import LedgerWriter
from preempt_exporter.spend.open_store import open_store
from preempt_exporter.spend.service import SpendService
from tests.state.folding import T0_MS, watched

TERMS = FenceTerms(preemptions=80)


class WritesTwice:
    """A ledger whose writer crashes after every third append, so that the outbox appends it again."""

    def __init__(self, ledger: LedgerWriter) -> None:
        self._ledger = ledger
        self._appends = 0

    def append(self, *records: Record) -> None:
        self._ledger.append(*records)
        self._appends += 1
        if self._appends % 3 == 0:
            self._ledger.append(*records)


@pytest.mark.parametrize("sink_of", [lambda ledger: ledger, WritesTwice], ids=["once", "with repeats after crashes"])
def test_the_exporter_counts_what_the_store_decided(
    tmp_path: Path, sink_of: Callable[[LedgerWriter], WritesTwice]
) -> None:
    """Committed, burned, reserved, accepted shards and refusals, from the lines alone, each line counted once."""
    clock = FixedClock(T0_MS)
    path = tmp_path / "ledger.jsonl"
    with (
        LedgerWriter(path, fsync=False) as ledger,
        closing(open_store(f"sqlite:///{tmp_path}/s.db?synchronous=off", ledger="l", clock=clock)) as store,
    ):
        sink = KeepingSink(sink_of(ledger))
        drill = FenceDrill(TERMS, SpendService(store, sink), clock, run="r", randomness=random.Random(4))
        report = drill.play(sink.lines)
    decoded = decode_chunk(path.read_bytes())
    assert report.ok and not decoded.bad
    state = watched()
    state.fold(decoded.records, "ledger", clock.now_ms())
    run = state.figures.runs["r"]
    assert run.counters.committed_tokens == report.committed_tokens
    assert run.counters.burned_tokens == report.burned_tokens
    assert run.counters.shards_accepted == TERMS.shards
    assert run.leases == {}
    refusals = {
        f"{op}/{reason}": count
        for op, reasons in state.figures.refusals.items()
        for reason, count in reasons.items()
        if count
    }
    assert refusals == report.refusals
