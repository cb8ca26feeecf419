"""`drill fence --event-order`: the contract's words for each operation, on both stores."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from preempt_exporter.cli.main import main
from preempt_exporter.drill.interleavings import shipped_interleavings

Told = list[dict[str, Any]]


@pytest.fixture(autouse=True)
def no_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEDGER_PATH", raising=False)


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'spend.db'}"
    new_url: Callable[[], str] = request.getfixturevalue("new_postgres_url")
    return new_url()


@pytest.fixture
def play(tmp_path: Path, store_url: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., Told]:
    def it(events: str, *flags: str) -> Told:
        file = tmp_path / "events.jsonl"
        file.write_bytes(events.encode())
        assert main(["drill", "fence", "--event-order", str(file), "--store", store_url, "--json", *flags]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return it


@pytest.mark.parametrize("file", shipped_interleavings(), ids=lambda file: file.stem)
def test_a_shipped_interleaving_ends_as_it_says(file: Path, play: Callable[..., Told]) -> None:
    """Each row of the failure matrix, outcome by outcome."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    told = play(file.read_text())
    expected = [
        {"outcome": line["expect"]}
        | ({"index": line["expect_index"]} if "expect_index" in line else {})
        | ({"count": line["expect_count"]} if "expect_count" in line else {})
        for line in lines
    ]
    found = [{key: value for key, value in line.items() if key in ("outcome", "index", "count")} for line in told]
    assert found == expected


def test_the_interleavings_are_shipped() -> None:
    """The story, the zombie that is first, and each row of the failure matrix."""
    assert [file.stem for file in shipped_interleavings()] == [
        "duplicate_delivery",
        "fixture_change",
        "preemption_at_78_percent",
        "resurrected_worker",
        "six_steps",
        "skew_90_s",
        "zombie_commits_first",
    ]


def test_each_line_is_one_object_of_the_contracts_shape(play: Callable[..., Told]) -> None:
    """`op`, `shard`, `epoch`, `outcome`; `index` only for RESUME, `count` only for RECLAIMED."""
    told = play(
        """{"op":"grant","shard":3,"tokens":1850,"lease_ms":60000,"input_digest":"sha256:aa"}
        {"op":"grant","shard":"3","tokens":1850,"lease_ms":60000,"input_digest":"sha256:aa"}
        {"op":"resume","shard":"3","epoch":0,"input_digest":"sha256:aa"}
        {"op":"renew","shard":"3","epoch":0,"lease_ms":60000}
        {"op":"release","shard":"3","epoch":0}
        {"op":"reclaim"}
        {"op":"advance","ms":60000}
        """
    )
    assert told == [
        {"op": "grant", "shard": "3", "epoch": 0, "outcome": "GRANTED"},
        {"op": "grant", "shard": "3", "epoch": None, "outcome": "ALREADY_RESERVED"},
        {"op": "resume", "shard": "3", "epoch": 0, "outcome": "RESUME", "index": 0},
        {"op": "renew", "shard": "3", "epoch": 0, "outcome": "RENEWED"},
        {"op": "release", "shard": "3", "epoch": 0, "outcome": "RELEASED"},
        {"op": "reclaim", "shard": None, "epoch": None, "outcome": "RECLAIMED", "count": 0},
        {"op": "advance", "shard": None, "epoch": None, "outcome": "ADVANCED"},
    ]


def test_compensation_and_settling_for_less_are_played_too(play: Callable[..., Told]) -> None:
    """What the control service takes, the file takes."""
    told = play(
        """{"op":"grant","shard":"3","tokens":10,"lease_ms":60000,"input_digest":"a"}
        {"op":"commit","shard":"3","epoch":0,"tokens":4,"settle":"at_most","artifact_digest":"x"}
        {"op":"compensate","shard":"3","epoch":0,"artifact_digest":"x","reason":"stale"}
        {"op":"grant","shard":"3","tokens":6,"lease_ms":60000,"input_digest":"a"}
        {"op":"commit","shard":"3","epoch":1,"tokens":6}
        """,
        "--budget",
        "10",
    )
    assert [line["outcome"] for line in told] == [
        "GRANTED",
        "COMMITTED",
        "COMPENSATED",
        "GRANTED",
        "ARTIFACT_MISSING",
    ]


def test_a_budget_binds_and_without_one_there_is_no_ceiling(play: Callable[..., Told]) -> None:
    """`--budget 10` holds 10 tokens; no `--budget` holds any number."""
    grant = '{"op":"grant","shard":"%d","tokens":10,"lease_ms":1,"input_digest":"a"}\n'
    both = grant % 1 + grant % 2
    assert [line["outcome"] for line in play(both, "--budget", "10")] == ["GRANTED", "OVER_BUDGET"]
    assert [line["outcome"] for line in play(both)] == ["GRANTED", "GRANTED"]


def test_two_drills_on_one_store_do_not_meet(play: Callable[..., Told]) -> None:
    """Each is a run of its own, so that a store in use can be drilled."""
    grant = '{"op":"grant","shard":"3","tokens":10,"lease_ms":60000,"input_digest":"a"}'
    assert [play(grant)[0]["epoch"] for _ in range(2)] == [0, 0]


def test_a_bom_crlf_and_blank_lines_are_accepted(play: Callable[..., Told]) -> None:
    """As in a ledger."""
    assert len(play('\ufeff{"op":"advance","ms":1}\r\n\r\n{"op":"reclaim"}\r\n')) == 2


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "JSON"),
        ("[]", "object"),
        ('{"op":"spend","shard":"3"}', "spend"),
        ('{"op":["grant"],"shard":"3"}', "grant"),
        ('{"op":"renew","shard":"3","lease_ms":1}', "epoch"),
        ('{"op":"renew","shard":"3","epoch":-1,"lease_ms":1}', "epoch"),
        ('{"op":"renew","epoch":0,"lease_ms":1}', "shard"),
        ('{"op":"advance"}', "ms"),
        ('{"op":"advance","ms":-1}', "ms"),
        ('{"op":"advance","ms":9007199254740992}', "past"),
        ('{"op":"advance","ms":' + "[" * 100_000 + "}", "JSON"),
        ('{"op":"grant","shard":"3/9-1","tokens":1,"lease_ms":1,"input_digest":"a"}', "3/9-1"),
    ],
)
def test_a_line_that_is_no_event_is_one_line_on_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, why: str
) -> None:
    """Exit 2 with file and line number, and nothing of the file was played."""
    file = tmp_path / "events.jsonl"
    file.write_text('{"op":"advance","ms":1}\n' + line + "\n")
    assert main(["drill", "fence", "--event-order", str(file), "--json"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert f"{file}:2: " in said.err and why in said.err and said.err.count("\n") == 1


def test_a_file_that_is_not_there_is_unreadable_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2, one line."""
    assert main(["drill", "fence", "--event-order", str(tmp_path / "none.jsonl")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("flags", [["--event-order", "events.jsonl"], ["--preemptions", "3"]])
@pytest.mark.parametrize("ledger", ["no/such/folder/ledger.jsonl", ".", "/dev/full"])
def test_a_ledger_that_cannot_be_written_is_one_line_on_standard_error(
    flags: list[str], ledger: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 2: lines that were asked for and not written are no success, and no broken fence either."""
    monkeypatch.chdir(tmp_path)
    Path("events.jsonl").write_text('{"op":"grant","shard":"3","tokens":1,"lease_ms":1,"input_digest":"a"}\n')
    assert main(["drill", "fence", *flags, "--ledger", ledger, "--json"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert ledger in said.err and said.err.count("\n") == 1


def test_a_name_cannot_pose_as_anything_else_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without `--json` an operation stays one line that moves no cursor."""
    file = tmp_path / "events.jsonl"
    file.write_text(r'{"op":"grant","shard":"\u001b[2J\n3","tokens":1,"lease_ms":1,"input_digest":"a"}')
    assert main(["drill", "fence", "--event-order", str(file)]) == 0
    assert capsys.readouterr().out == "grant \\x1b[2J\\n3 0 GRANTED\n"


def test_the_lines_go_to_the_ledger_that_is_named(
    tmp_path: Path, play: Callable[..., Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`LEDGER_PATH`, as every writer; one line per outcome, so that the exporter can be drilled with it."""
    monkeypatch.setenv("LEDGER_PATH", str(tmp_path / "ledger.jsonl"))
    play('{"op":"grant","shard":"3","tokens":10,"lease_ms":60000,"input_digest":"a"}')
    events = [json.loads(line)["event"] for line in (tmp_path / "ledger.jsonl").read_text().splitlines()]
    assert events == ["run_open", "reserve"]
