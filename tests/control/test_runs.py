"""`/v1/runs` over a real socket."""

from collections.abc import Callable
from pathlib import Path

import pytest

from preempt_exporter.client import ControlClient
from preempt_exporter.clock import FixedClock
from preempt_exporter.errors import StoreUnavailable
from preempt_exporter.spend.over_http import SpendOverHttp
from preempt_exporter.spend.requests import GrantRequest
from preempt_exporter.spend.worker import WorkerLease
from tests.control.running_control import control

GRANT = {"tokens": 10, "lease_ms": 60_000, "input_digest": "a"}


def test_a_run_from_open_to_its_accepted_set(tmp_path: Path) -> None:
    """Parts of a shard are granted and committed by name; the answer lists epochs and digests with a version."""
    with control(tmp_path) as running:
        assert running.request("GET", "/v1/runs/r").status == 404
        before = running.client.run("r", "open", budget_tokens=20, cases_per_shard=50)
        for part, outcome in (("3/0-29", "GRANTED"), ("3/30-49", "GRANTED"), ("4", "OVER_BUDGET")):
            assert running.client.shard("r", part, "grant", **GRANT)["outcome"] == outcome
        for part in ("3/0-29", "3/30-49"):
            told = running.client.shard("r", part, "commit", epoch=0, tokens=9, artifact_digest="d", settle="at_most")
            assert told["outcome"] == "COMMITTED"
        run = running.client.ask("GET", "/v1/runs/r")
        assert [(part["shard"], part["epoch"], part["artifact_digest"]) for part in run["accepted"]] == [
            ("3/0-29", 0, "d"),
            ("3/30-49", 0, "d"),
        ]
        assert (run["accepted_shards"], run["committed_tokens"], run["reserved_tokens"]) == (["3"], 18, 0)
        assert run["version"] > before["version"]
        assert running.client.run("r", "close")["phase"] == "closed"
        assert running.client.shard("r", "5", "grant", **GRANT)["outcome"] == "RUN_STOPPED"
        assert running.events() == [
            "run_open",
            "reserve",
            "reserve",
            "refuse",
            "commit",
            "commit",
            "run_close",
            "refuse",
        ]


def test_a_run_is_kept_on_postgresql_too(tmp_path: Path, new_postgres_url: Callable[[], str]) -> None:
    """`--store postgresql://…`: granted and committed once under their keys, over a restart."""
    url = new_postgres_url()
    for _ in range(2):
        with control(tmp_path, store_url=url) as running:
            running.post("/v1/runs/r/open", {}, Idempotency_Key="open")
            granted = running.post("/v1/runs/r/shards/3/grant", GRANT, Idempotency_Key="grant").json
            assert (granted["outcome"], granted["epoch"]) == ("GRANTED", 0)
            commit = {"epoch": 0, "tokens": 10, "artifact_digest": "d"}
            told = running.post("/v1/runs/r/shards/3/commit", commit, Idempotency_Key="commit").json
            assert told["outcome"] == "COMMITTED"
            assert running.client.ask("GET", "/v1/runs/r")["committed_tokens"] == 10
            assert running.events() == ["run_open", "reserve", "commit"]


def test_a_stopped_run_grants_nothing_until_it_is_resumed(tmp_path: Path) -> None:
    """The switch file stops spend and admission of the run; a commit of what is out still counts."""
    with control(tmp_path) as running:
        running.client.run("r", "open")
        running.client.shard("r", "1", "grant", **GRANT)
        running.client.ask("POST", "/admin/act", {"action": "stop_run", "run": "r", "by": "me", "reason": "ceiling"})
        assert running.client.shard("r", "2", "grant", **GRANT)["outcome"] == "RUN_STOPPED"
        assert running.client.task("t", "admit", run="r")["reason"] == "run_stopped"
        assert (
            running.client.shard("r", "1", "commit", epoch=0, tokens=10, artifact_digest="d")["outcome"] == "COMMITTED"
        )
        assert running.client.ask("GET", "/v1/runs/r")["stopped"] is True
        running.client.ask("POST", "/admin/resume", {"run": "r"})
        assert running.client.shard("r", "2", "grant", **GRANT)["outcome"] == "GRANTED"
        assert running.events().count("run_stop") == 1


@pytest.mark.parametrize(
    ("shard", "op", "fields", "word"),
    [
        ("3", "grant", {"tokens": 10}, "lease_ms"),
        ("3", "commit", {"epoch": -1, "tokens": 1}, "epoch"),
        ("3/49-30", "grant", GRANT, "lower first"),
        ("3", "commit", {"epoch": 0, "tokens": 1, "settle": "roughly"}, "roughly"),
    ],
)
def test_a_wrong_request_names_its_field(
    tmp_path: Path, shard: str, op: str, fields: dict[str, object], word: str
) -> None:
    """A field that is missing or wrong is a problem, and no refusal is written."""
    with control(tmp_path) as running:
        answer = running.post(f"/v1/runs/r/shards/{shard}/{op}", fields)
        assert answer.status == 422
        assert word in answer.json["detail"]
        assert running.events() == []


def test_a_worker_s_lease_works_over_the_network_as_it_does_in_the_process(tmp_path: Path) -> None:
    """Grant, checkpoint, resume and commit through the same handle; no service, no grant."""
    clock = FixedClock(0)
    with control(tmp_path) as running:
        running.client.run("r", "open")
        spend = SpendOverHttp(running.client)
        granted = spend.apply(GrantRequest(run="r", shard="3", tokens=10, lease_ms=60_000, input_digest="a", host="h"))
        lease = WorkerLease(spend, granted, lease_ms=60_000, input_digest="a", asked_at_s=0, clock=clock)
        with lease:
            assert lease.checkpoint(4, 5).outcome == "CHECKPOINTED"
            assert lease.resume().index == 4
            assert lease.may_write()
            assert lease.commit(10, "d").outcome == "COMMITTED"
        assert running.client.ask("GET", "/v1/runs/r")["accepted"][0]["artifact_digest"] == "d"
    impatient = SpendOverHttp(ControlClient(running.url, patience_s=0.1))
    with pytest.raises(StoreUnavailable, match="no answer"):
        impatient.apply(GrantRequest(run="r", shard="4", tokens=10, lease_ms=60_000, input_digest="a", host="h"))
