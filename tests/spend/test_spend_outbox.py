"""Outcome and line are one transaction; the line reaches the ledger after it, whatever happens in between."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from preempt_exporter.clock import Clock, FixedClock
from preempt_exporter.ledger.records import Reserve
from preempt_exporter.spend import store_postgres, store_sqlite
from preempt_exporter.spend.open_store import open_store
from preempt_exporter.spend.requests import CommitRequest, GrantRequest
from preempt_exporter.spend.service import SpendService
from preempt_exporter.spend.sql_store import SqlSpendStore
from preempt_exporter.spend.statements import Rows
from tests.spend.spend_play import ARTIFACT, INPUT, LEASE_MS, NOW_MS, TOKENS, ListSink, Play

OpenAgain = Callable[[Clock | None], SqlSpendStore]
COMMIT = CommitRequest(run="r", shard="3", epoch=0, tokens=TOKENS, artifact_digest=ARTIFACT)


def grant(shard: str = "3") -> GrantRequest:
    return GrantRequest(run="r", shard=shard, tokens=1, lease_ms=LEASE_MS, input_digest=INPUT)


class Crash(Exception):
    """The process died here."""


def test_each_outcome_is_one_line_with_an_id_of_its_own(play: Play) -> None:
    """Refusals too; no two lines share an `id`."""
    play.do("grant")
    play.do("grant")
    play.do("renew", 0)
    play.do("checkpoint", 0)
    play.do("resume", 0)
    play.do("commit", 0)
    play.do("compensate", 0)
    assert play.events() == [
        "run_open",
        "reserve",
        "refuse",
        "renew",
        "shard_checkpoint",
        "resume",
        "commit",
        "compensate",
    ]
    ids = [line.id for line in play.sink.lines]
    assert None not in ids and len(set(ids)) == len(ids)


def test_lines_carry_the_stores_time(play: Play) -> None:
    """`ts_ms` is the moment of the decision on the store's clock."""
    play.clock.advance(5)
    play.do("grant")
    line = play.sink.lines[-1]
    assert isinstance(line, Reserve)
    assert (line.ts_ms, line.lease_expires_ms) == (NOW_MS + 5, NOW_MS + 5 + 60_000)


def test_a_crash_before_the_append_loses_no_line(play: Play, open_again: OpenAgain) -> None:
    """The next service over the store appends what the dead one owed."""
    play.store.apply(grant())
    sink = ListSink()
    SpendService(open_again(FixedClock(NOW_MS)), sink)
    assert [type(line) for line in sink.lines] == [Reserve]


def test_a_crash_after_the_append_repeats_the_line_under_the_same_id(play: Play, open_again: OpenAgain) -> None:
    """The exporter takes an `id` once, so that the line is counted once."""

    def die() -> None:
        raise Crash

    play.sink.after = die
    with pytest.raises(Crash):
        play.do("grant")
    again = ListSink()
    SpendService(open_again(FixedClock(NOW_MS)), again)
    assert [line.id for line in again.lines] == [play.sink.lines[-1].id]


def test_a_ledger_that_cannot_be_written_holds_nothing_up_and_loses_nothing(play: Play) -> None:
    """On a full disk the lines wait in the store, in order."""
    play.sink.fails = True
    assert play.do("grant") == "GRANTED"
    assert play.do("commit", 0) == "COMMITTED"
    assert not play.service.append_pending()
    play.sink.fails = False
    assert play.service.append_pending()
    assert play.events() == ["run_open", "reserve", "commit"]


def test_lines_of_another_ledger_are_left_to_it(play: Play, store_url: str) -> None:
    """Repeats are judged within a ledger, so that a line must not move to another one."""
    play.sink.fails = True
    play.do("grant")
    with closing(open_store(store_url, ledger="of another host")) as store:
        assert store.append_pending(lambda records: pytest.fail("took another ledger's lines")) == 0


def test_many_pending_lines_go_out_in_order(play: Play) -> None:
    """A backlog of more than one batch keeps its order."""
    play.sink.fails = True
    for epoch in range(1100):
        play.store.apply(grant(f"shard-{epoch}"))
    play.sink.fails = False
    play.service.append_pending()
    shards = [line.shard for line in play.sink.lines if isinstance(line, Reserve)]
    assert shards == [f"shard-{epoch}" for epoch in range(1100)]


class DyingRows(Rows):
    """A transaction in which the process dies at one statement."""

    dies_after = 0

    def _run(self, statement: str, *parameters: object) -> Any:
        if DyingRows.dies_after == 0:
            raise Crash
        DyingRows.dies_after -= 1
        return super()._run(statement, *parameters)


def test_settling_that_fails_half_way_changes_nothing(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """At whichever statement a commit dies, bill, artifact and line are all there or none is."""
    play.do("grant")
    before = play.service.run_summary("r")
    deaths = 0
    with monkeypatch.context() as patch:
        for module in (store_sqlite, store_postgres):
            patch.setattr(module, "Rows", DyingRows)
        while True:
            DyingRows.dies_after = deaths
            try:
                outcome = play.store.apply(COMMIT)
            except Crash:
                deaths += 1
            else:
                break
            DyingRows.dies_after = 1000
            assert play.service.run_summary("r") == before
            assert play.store.append_pending(lambda records: None) == 0
    assert outcome.outcome == "COMMITTED"
    assert deaths >= 5, "it was killed at every statement"
