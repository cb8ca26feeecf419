"""`act`: each action of the rules pack, directly and through the service."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from preempt_exporter.control.actions import ACTION_NAMES, FOR_A_PERSON
from preempt_exporter.control.tokens import token_path
from preempt_exporter.gate.switches import SwitchFile
from preempt_exporter.ledger.records import Heartbeat, LaneDrain, Preempt, Record, Release, RunStop
from preempt_exporter.ledger.writer import LedgerWriter
from preempt_exporter.rules_pack.vocabulary import ACTIONS
from preempt_exporter.spend.open_store import open_store
from preempt_exporter.spend.requests import GrantRequest
from preempt_exporter.spend.run_changes import OpenRun
from preempt_exporter.spend.service import SpendService
from tests.control.running_control import TOKEN, control, records_on, word_of
from tests.running_exporter import exit_status, is_one_line

Act = Callable[..., dict[str, Any]]


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEDGER_PATH", str(tmp_path / "l.jsonl"))
    return tmp_path / "l.jsonl"


@pytest.fixture(params=["directly", "through the service"])
def act(request: pytest.FixtureRequest, ledger: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Act]:
    """Carries an action out and returns the answer."""

    def carry_out(*arguments: str) -> dict[str, Any]:
        capsys.readouterr()
        status = exit_status("act", *arguments, "--json", *more)
        said = capsys.readouterr()
        assert status == 0, said.err
        answer: dict[str, Any] = json.loads(said.out)
        return answer

    more: tuple[str, ...] = ()
    if request.param == "directly":
        yield carry_out
        return
    token_path(ledger).write_text(TOKEN, encoding="utf-8")
    with control(ledger.parent) as running:
        more = ("--control", running.url)
        yield carry_out


def switches(ledger: Path) -> dict[str, str]:
    """Lanes under an action."""
    return SwitchFile(ledger).read().lane_actions()


def newest(ledger: Path) -> Record:
    """The ledger's last line."""
    return records_on(ledger)[-1]


def test_every_action_of_the_pack_is_known() -> None:
    """What an alert may ask for, `act` knows; and two words more."""
    assert set(ACTION_NAMES) == {*ACTIONS, "resume", "mode"}


@pytest.mark.parametrize("action", ["reject_enqueue", "drain_and_reject", "abandon_lane", "route_to_paid"])
def test_a_lane_is_put_under_an_action_and_comes_back(act: Act, ledger: Path, action: str) -> None:
    """Switch file and ledger say it, with who, when and why; `resume` undoes it."""
    act(action, "--lane", "free", "--by", "kim", "--reason", "night of reclaims")
    assert switches(ledger) == {"free": action}
    line = newest(ledger)
    assert isinstance(line, LaneDrain)
    assert (line.lane, line.action, line.by, line.reason) == ("free", action, "kim", "night of reclaims")
    assert line.ts_ms
    assert act("resume", "--lane", "free")["outcome"] == "done"
    assert switches(ledger) == {}
    assert word_of(newest(ledger)) == "lane_resume"
    assert newest(ledger).by  # type: ignore[union-attr]


def test_a_dry_run_says_what_it_would_do_and_does_nothing(act: Act, ledger: Path) -> None:
    """No line, no switch, for every kind of action."""
    for arguments in (
        ("drain_and_reject", "--lane", "free"),
        ("stop_run", "--run", "r"),
        ("reclaim_lease",),
        ("mode", "reject_preempt_budget"),
        ("resume", "--lane", "free"),
    ):
        answer = act(*arguments, "--dry-run")
        assert answer["outcome"] == "would"
        assert answer["says"].startswith("would ")
    assert records_on(ledger) == []
    assert not SwitchFile(ledger).path.exists()


def test_a_weaker_action_never_opens_a_lane_again(act: Act, ledger: Path) -> None:
    """`reject_enqueue` on an abandoned lane changes nothing; a stronger one replaces a weaker."""
    act("reject_enqueue", "--lane", "free")
    act("abandon_lane", "--lane", "free")
    answer = act("reject_enqueue", "--lane", "free")
    assert (answer["outcome"], switches(ledger)) == ("already", {"free": "abandon_lane"})
    assert [word_of(record) for record in records_on(ledger)] == ["lane_drain", "lane_drain"]


def test_a_run_is_stopped_and_resumed(act: Act, ledger: Path) -> None:
    """Once on the ledger, in the switch file until `resume`."""
    act("stop_run", "--run", "r", "--reason", "ceiling")
    line = newest(ledger)
    assert isinstance(line, RunStop)
    assert (line.run, line.reason) == ("r", "ceiling")
    assert list(SwitchFile(ledger).read().stopped_runs) == ["r"]
    act("resume", "--run", "r")
    assert SwitchFile(ledger).read().stopped_runs == {}
    assert [word_of(record) for record in records_on(ledger)] == ["run_stop", "run_resume"]


def test_the_mode_changes_and_changes_back(act: Act, ledger: Path) -> None:
    """The switch file's mode is what was said last."""
    act("mode", "reject_preempt_budget")
    assert SwitchFile(ledger).read().mode == "reject_preempt_budget"
    act("mode", "normal")
    assert SwitchFile(ledger).read().mode == "normal"


def test_silent_tasks_and_expired_leases_are_declared_lost(act: Act, ledger: Path) -> None:
    """`reclaim_lease` writes an inferred `preempt` and a `release`, once; a task that was heard of stays."""
    with LedgerWriter(ledger) as writer, _expired_lease(ledger, writer):
        writer.append(
            Heartbeat(task_id="silent", lane="free", ts_ms=1000, next_within_ms=10, id="h-1"),
            Heartbeat(task_id="elsewhere", lane="paid", ts_ms=1000, next_within_ms=10, id="h-2"),
            Heartbeat(task_id="talks", lane="free", ts_ms=1000, next_within_ms=10**15, id="h-3"),
        )
    assert act("reclaim_lease", "--lane", "free", "--dry-run")["tasks_declared_lost"] == 1
    answer = act("reclaim_lease", "--lane", "free")
    assert (answer["tasks_declared_lost"], answer["leases_reclaimed"]) == (1, 1)
    lost = [record for record in records_on(ledger) if isinstance(record, Preempt)]
    assert [(line.task_id, line.inferred) for line in lost] == [("silent", True)]
    assert [line.reason for line in records_on(ledger) if isinstance(line, Release)] == ["lease_expired"]
    answer = act("reclaim_lease", "--lane", "free")
    assert (answer["tasks_declared_lost"], answer["leases_reclaimed"]) == (0, 0)


class _expired_lease:
    """A lease of no duration in the store beside the ledger."""

    def __init__(self, ledger: Path, writer: LedgerWriter) -> None:
        self._store = open_store(f"sqlite:///{ledger}.spend.db", ledger=str(ledger))
        spend = SpendService(self._store, writer)
        spend.change_run(OpenRun(run="r"))
        spend.apply(GrantRequest(run="r", shard="3", tokens=5, lease_ms=0, input_digest="a"))

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self._store.close()


@pytest.mark.parametrize("action", FOR_A_PERSON)
def test_what_only_a_person_can_do_prints_its_runbooks(
    action: str, ledger: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The runbooks of the alerts that ask for it, and nothing is written."""
    assert exit_status("act", action) == 0
    said = capsys.readouterr().out
    assert said.startswith("# ")
    assert f"Action: `{action}`" in said
    assert "## What to do now" in said
    assert not ledger.exists()


def test_one_alert_s_runbook_can_be_asked_for(ledger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--alert` prints that page alone; an alert of another action is refused by name."""
    assert exit_status("act", "inspect_ledger", "--alert", "LedgerSilent") == 0
    assert capsys.readouterr().out.count("Severity:") == 1
    assert exit_status("act", "inspect_ledger", "--alert", "SpendAtCeiling") == 2
    assert is_one_line(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("drain_and_reject",), "lane"),
        (("drain_and_reject", "--run", "r"), "lane"),
        (("drain_and_reject", "--lane", "x" * 65), "lane"),
        (("stop_run", "--lane", "free"), "run"),
        (("resume",), "lane or a run"),
        (("resume", "--lane", "free", "--run", "r"), "not both"),
        (("mode",), "mode"),
        (("mode", "turbo"), "turbo"),
        (("scale_out",), "scale_out"),
        (("drain_and_reject", "--lane", "free", "--control", "ftp://x"), "http://host:port"),
        (("drain_and_reject", "--lane", "free", "--control", "http://127.0.0.1:1"), "127.0.0.1:1"),
        (("drain_and_reject", "--lane", "free", "--ledger", "/no/such/folder/l"), "/no/such/folder"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    arguments: tuple[str, ...],
    word: str,
    ledger: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Exit 2 with a sentence that names the mistake, and nothing is switched."""
    monkeypatch.setattr("preempt_exporter.cli.act.PATIENCE_S", 0.1)
    assert exit_status("act", *arguments) == 2
    said = capsys.readouterr().err
    assert is_one_line(said)
    assert word in said
    assert not ledger.exists() or records_on(ledger) == []


def test_while_a_service_runs_its_tasks_are_reclaimed_through_it(
    ledger: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Directly, `reclaim_lease` would move tasks behind the service's back; switching a lane is safe, and obeyed."""
    with control(ledger.parent) as running:
        assert exit_status("act", "reclaim_lease") == 2
        assert "--control" in capsys.readouterr().err
        assert exit_status("act", "drain_and_reject", "--lane", "free") == 0
        assert running.client.task("t", "admit", lane="free")["reason"] == "drain_mode"


def test_without_the_token_it_says_where_to_get_it(
    ledger: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that knows us not is one line with the flag; the token's file opens it."""
    with control(ledger.parent) as running:
        monkeypatch.delenv("LEDGER_PATH")
        arguments = ("act", "drain_and_reject", "--lane", "free", "--control", running.url)
        assert exit_status(*arguments) == 2
        said = capsys.readouterr().err
        assert is_one_line(said)
        assert "--token-file" in said
        (ledger.parent / "token").write_text(TOKEN, encoding="utf-8")
        assert exit_status(*arguments, "--token-file", str(ledger.parent / "token")) == 0
        assert capsys.readouterr().out == "put lane free under drain_and_reject (0 in flight)\n"


def test_a_run_is_stopped_in_the_store_that_is_named(ledger: Path) -> None:
    """`--store` stops the run for drivers that see no switch file, and `resume` finds it there again."""
    url = f"sqlite:///{ledger}.elsewhere.db"
    assert exit_status("act", "stop_run", "--run", "r", "--store", url) == 0
    store = open_store(url, ledger="test")
    try:
        assert store.run_summary("r").run.stopped
        assert exit_status("act", "resume", "--run", "r", "--store", url) == 0
        assert not store.run_summary("r").run.stopped
    finally:
        store.close()


def test_a_ledger_that_an_action_begins_is_said(ledger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It may be the right one before its first line, or a slip of the pen that drains nothing."""
    said = []
    for _ in range(2):
        assert exit_status("act", "drain_and_reject", "--lane", "free") == 0
        said.append(capsys.readouterr().err)
    assert said == [f"{ledger}: there was no such ledger; it begins with this\n", ""]
