"""`route` end to end."""

import json
from pathlib import Path

import msgspec
import pytest

from preempt_exporter.cli.main import main
from preempt_exporter.gate.switches import SwitchFile
from preempt_exporter.ledger.records import Attempt, LaneDrain, LaneResume
from preempt_exporter.ledger.writer import LedgerWriter

CONFIG = """\
router:
  lanes:
    - name: free
      checkpoint: required
      idempotency_key: "{{ job_id }}"
    - name: paid
      idempotency_key: "{{ job_id }}"
  admission:
    require_slack_s: 600
"""


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    """`route` with 25 healthy jobs on the free lane, which requires 600 s."""
    (tmp_path / "router.yml").write_text(CONFIG)
    attempts = [
        Attempt(
            job_id=str(n),
            lane="free",
            attempt=1,
            enqueue_s=0,
            start_s=10,
            end_s=110,
            outcome="ok",
            tokens_in=1,
            tokens_out=1,
            interventions=0,
        )
        for n in range(25)
    ]
    (tmp_path / "t.jsonl").write_bytes(b"".join(msgspec.json.encode(a) + b"\n" for a in attempts))
    return ["route", "--config", str(tmp_path / "router.yml"), "--telemetry", str(tmp_path / "t.jsonl")]


def decide(arguments: list[str], capsys: pytest.CaptureFixture[str], **job: object) -> dict[str, object]:
    """The decision for a job, as `--json` prints it."""
    assert main([*arguments, "--job", json.dumps({"job_id": "j", **job}), "--json"]) == 0
    decision: dict[str, object] = json.loads(capsys.readouterr().out)
    return decision


def test_the_decision_names_lane_row_and_reason(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """At exactly the required slack the free lane takes a checkpointed job."""
    free = decide(arguments, capsys, checkpointed=True, deadline_ms=600_000)
    assert (free["lane"], free["row"], free["idempotency_key"]) == ("free", "slack_covers_required", "j")
    assert free["required_slack_s"] == 600.0
    paid = decide(arguments, capsys, checkpointed=True, deadline_ms=599_999)
    assert (paid["lane"], paid["row"]) == ("paid", "otherwise_paid")
    assert "required 600 s" in str(paid["reason"])


def test_a_lane_under_an_action_is_not_chosen(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The switch file beside the telemetry, or beside `LEDGER_PATH`, says so until the lane is resumed."""
    job = {"checkpointed": True, "deadline_ms": 600_000}
    for ledger in (tmp_path / "t.jsonl", tmp_path / "other.jsonl"):
        monkeypatch.setenv("LEDGER_PATH", str(ledger))
        writer, switches = LedgerWriter(ledger, fsync=False), SwitchFile(ledger)
        switches.change(LaneDrain(lane="free", action="abandon_lane"), writer)
        decision = decide(arguments, capsys, **job)
        assert (decision["lane"], decision["passed_over"]) == ("paid", {"free": "lane_under_action"})
        switches.change(LaneResume(lane="free"), writer)
        assert decide(arguments, capsys, **job)["lane"] == "free"


def test_a_person_gets_lines(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Lane, row and reason; unknown fields are named on standard error."""
    assert main([*arguments, "--job", '{"job_id": "j", "idempotent": false, "colour": "red"}']) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[:2] == ["lane    -", "row     not_idempotent"]
    assert "colour" in shown.err


def test_a_mistake_in_the_config_is_one_line_with_its_place(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2, file, line and column."""
    (tmp_path / "router.yml").write_text(CONFIG.replace("checkpoint: required", "checkpiont: required"))
    assert main([*arguments, "--job", '{"job_id": "j"}']) == 2
    error = capsys.readouterr().err
    assert "router.yml:4:7" in error
    assert len(error.splitlines()) == 1


def test_a_job_that_is_no_json_is_exit_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The fields are listed."""
    assert main([*arguments, "--job", "j"]) == 2
    assert "prompt_tokens" in capsys.readouterr().err
