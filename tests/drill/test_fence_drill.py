"""`drill fence`: hundreds of preemptions, and exactly one artifact per shard."""

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from preempt_exporter.cli.main import main
from preempt_exporter.clock import FixedClock
from preempt_exporter.drill.fence import FenceDrill
from preempt_exporter.drill.fence_report import FenceReport, FenceTerms, report_on
from preempt_exporter.drill.fence_sink import KeepingSink
from preempt_exporter.ledger.records import Commit, Record, Refuse
from preempt_exporter.spend.open_store import open_store
from preempt_exporter.spend.rows import AcceptedArtifact, RunRow, RunSummary
from preempt_exporter.spend.service import SpendService


@pytest.fixture(autouse=True)
def no_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEDGER_PATH", raising=False)


def drill(tmp_path: Path, terms: FenceTerms, seed: int) -> FenceReport:
    clock = FixedClock(1_700_000_000_000)
    sink = KeepingSink(None)
    store = open_store(f"sqlite:///{tmp_path}/{seed}.db?synchronous=off", ledger="l", clock=clock)
    played = FenceDrill(terms, SpendService(store, sink), clock, run="r", randomness=random.Random(seed))
    report = played.play(sink.lines)
    store.close()
    return report


def test_the_default_drill_holds_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """500 preemptions, 4 artifacts, 7400 tokens of 7400, every refusal classified."""
    assert main(["drill", "fence", "--json"]) == 0
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    refusals = said.pop("refusals")
    burned = said.pop("burned_tokens")
    assert said == {
        "preemptions": 500,
        "budget_tokens": 7400,
        "committed_tokens": 7400,
        "reserved_tokens": 0,
        "artifacts": {"0": 1, "1": 1, "2": 1, "3": 1},
        "unclassified": 0,
        "ok": True,
    }
    assert burned > 0
    assert {"commit/STALE_EPOCH", "commit/LEASE_EXPIRED", "commit/ALREADY_COMMITTED"} <= refusals.keys()
    assert {"checkpoint/DIGEST_MISMATCH", "grant/ALREADY_RESERVED", "renew/STALE_EPOCH"} <= refusals.keys()


def test_words_tell_what_is_billed_from_what_was_lost(capsys: pytest.CaptureFixture[str]) -> None:
    """Burned tokens are no part of the budget, and refusals stand one a line, most often first."""
    assert main(["drill", "fence", "--seed", "1"]) == 0
    held, billed, artifacts, reserved, burned, refused, first, *_ = capsys.readouterr().out.splitlines()
    assert held == "the fence held: seed 1, 500 preemptions"
    assert billed == "billed: 7400 tokens of the 7400 that 4 shards cost; the budget is 7400"
    assert artifacts == "artifacts: one accepted for each shard"
    assert reserved == "reserved at the end: 0 tokens"
    assert re.fullmatch(r"burned: \d+ tokens of work lost with its lease; the budget is not charged for them", burned)
    assert re.fullmatch(r"refused: \d{4} requests, by operation and reason", refused)
    assert first.endswith("grant/ALREADY_RESERVED")


def test_words_tell_a_budget_that_cannot_suffice(capsys: pytest.CaptureFixture[str]) -> None:
    """Where no fence could hold, since the shards cost more than there is, that is said."""
    assert main(["drill", "fence", "--seed", "1", "--preemptions", "5", "--budget", "1849"]) == 1
    said = capsys.readouterr().out
    assert said.startswith("THE FENCE DID NOT HOLD: ")
    assert "give --budget 7400 or more" in said
    assert "artifacts: 0 for shard 0, 0 for shard 1, 0 for shard 2, 0 for shard 3, where one is right" in said


def test_a_seed_names_an_interleaving(tmp_path: Path) -> None:
    """The same seed gives the same refusals, another one others."""
    terms = FenceTerms(preemptions=60)
    (tmp_path / "again").mkdir()
    first, again = drill(tmp_path, terms, 1), drill(tmp_path / "again", terms, 1)
    assert first == again
    assert first.refusals != drill(tmp_path, terms, 2).refusals


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    ("preemptions", "shards", "cases"), [(0, 1, 1), (10, 1, 1), (25, 1, 50), (40, 4, 50), (30, 7, 3)]
)
def test_the_fence_holds_for_any_seed_and_size(
    tmp_path: Path, seed: int, preemptions: int, shards: int, cases: int
) -> None:
    """As many preemptions as asked for, one artifact each, nothing left reserved."""
    terms = FenceTerms(
        preemptions=preemptions, shards=shards, cases=cases, tokens_per_case=37, budget_tokens=shards * cases * 37
    )
    report = drill(tmp_path, terms, seed)
    assert report.ok and report.preemptions == preemptions, report


def test_on_postgresql_the_fence_holds_as_well(
    new_postgres_url: Callable[[], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The same drill over the other store."""
    assert main(["drill", "fence", "--preemptions", "60", "--store", new_postgres_url(), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"]


def test_both_stores_give_the_same_report(
    tmp_path: Path, new_postgres_url: Callable[[], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """One seed, two databases, one answer."""
    told = []
    for url in (f"sqlite:///{tmp_path}/spend.db?synchronous=off", new_postgres_url()):
        main(["drill", "fence", "--preemptions", "40", "--seed", "3", "--store", url, "--json"])
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]


@pytest.mark.parametrize(("budget", "fit"), [("0", 0), ("1849", 0), ("3700", 2), ("7399", 3)])
def test_a_budget_that_is_too_small_is_never_overshot_and_the_drill_is_not_ok(
    budget: str, fit: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exactly as many shards as fit are billed; the rest starve; exit 1."""
    assert main(["drill", "fence", "--preemptions", "20", "--budget", budget, "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["committed_tokens"] == fit * 1850 <= int(budget)
    assert sum(said["artifacts"].values()) == fit
    assert said["reserved_tokens"] == 0 and not said["ok"]


@pytest.mark.parametrize(
    "flags",
    [
        ["--shards", "0"],
        ["--cases", "0"],
        ["--processes", "0"],
        ["--preemptions", "-1"],
        ["--budget", "many"],
        ["--cases", "9007199254740992", "--tokens-per-case", "2"],
        ["--store", "mysql://h/d"],
        ["--store", "sqlite:////no/such/folder/spend.db"],
        ["--event-order", "events.jsonl", "--seed", "1"],
    ],
)
def test_wrong_usage_is_one_line(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2, no traceback."""
    try:
        status = main(["drill", "fence", *flags])
    except SystemExit as stopped:
        status = int(str(stopped.code))
    said = capsys.readouterr()
    assert (status, said.out, said.err.count("\n")) == (2, "", 1)


TERMS = FenceTerms(preemptions=1, shards=1, cases=1, tokens_per_case=10, budget_tokens=10)
HELD = RunSummary(
    run=RunRow(run="r", committed_tokens=10),
    leases_open=0,
    leases_overdue=0,
    accepted=(AcceptedArtifact(shard="0", epoch=1, artifact_digest="a", tokens=10),),
    accepted_shards=("0",),
)
COMMIT = Commit(run="r", shard="0", epoch=1, ts_ms=0, tokens=10, artifact_digest="a", id="1")
REFUSAL = Refuse(run="r", shard="0", ts_ms=0, op="commit", reason="STALE_EPOCH", epoch=0, id="2")


def change(summary: RunSummary, **totals: int) -> RunSummary:
    return msgspec.structs.replace(summary, run=msgspec.structs.replace(summary.run, **totals))


@pytest.mark.parametrize(
    ("summary", "lines", "preemptions", "held", "ok"),
    [
        (HELD, [COMMIT, REFUSAL], 1, True, True),
        (HELD, [COMMIT, COMMIT, REFUSAL], 1, True, True),
        (HELD, [COMMIT], 0, True, False),
        (HELD, [COMMIT], 1, False, False),
        (HELD, [], 1, True, False),
        (HELD, [COMMIT, msgspec.structs.replace(COMMIT, id="3", epoch=2)], 1, True, False),
        (HELD, [COMMIT, msgspec.structs.replace(REFUSAL, reason="DUNNO")], 1, True, False),
        (HELD, [msgspec.structs.replace(COMMIT, tokens=9)], 1, True, False),
        (change(HELD, committed_tokens=20), [COMMIT], 1, True, False),
        (change(HELD, reserved_tokens=1), [COMMIT], 1, True, False),
        (msgspec.structs.replace(HELD, accepted_shards=()), [COMMIT], 1, True, False),
    ],
)
def test_the_report_is_ok_only_when_store_and_ledger_say_one_artifact_and_one_bill(
    summary: RunSummary, lines: list[Record], preemptions: int, held: bool, ok: bool
) -> None:
    """Each way in which a fence could fail makes the drill fail; a repeated line does not count twice."""
    assert report_on(TERMS, summary, lines, preemptions=preemptions, held=held).ok is ok
