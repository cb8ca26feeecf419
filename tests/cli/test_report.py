"""`report` end to end on files."""

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from preempt_exporter.cli.main import main
from preempt_exporter.ledger.records import Attempt

JSON_FIELDS = [
    "lane",
    "completed",
    "completion_rate",
    "rework_multiplier",
    "s_per_completed_job",
    "p95_wait_s",
    "p95_run_s",
    "tokens_per_completed_job",
    "interventions_per_100",
    "required_slack_s",
    "verdict",
]


def line(job_id: str, outcome: str = "ok", *, lane: str = "free", number: int = 1, tokens: int | None = 100) -> bytes:
    """An attempt line of 10 s wait and 100 s run."""
    attempt = Attempt(
        job_id=job_id,
        lane=lane,
        attempt=number,
        enqueue_s=0,
        start_s=10,
        end_s=110,
        outcome=outcome,
        tokens_in=tokens,
        tokens_out=tokens,
        interventions=int(outcome != "ok"),
    )
    return msgspec.json.encode(attempt) + b"\n"


@pytest.fixture
def telemetry(tmp_path: Path) -> Path:
    """A lane that needs 510 s (rework 2) and one that needs 410 s."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(line("a", "preempted") + line("a", number=2) + line("a", number=2) + line("b", lane="paid"))
    return path


def report_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, object]]:
    """The lanes that `report --json` prints."""
    assert main(["report", *arguments, "--json"]) == 0
    lanes: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return lanes


def test_json_has_the_contracts_fields_and_drops_repeats(telemetry: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The repeated line is not a third attempt, and there is no field more or less."""
    free, paid = report_json(capsys, str(telemetry), "--slack-s", "509.9")
    assert list(free) == JSON_FIELDS
    assert free == {
        "lane": "free",
        "completed": 1,
        "completion_rate": 1.0,
        "rework_multiplier": 2.0,
        "s_per_completed_job": 200.0,
        "p95_wait_s": 10.0,
        "p95_run_s": 100.0,
        "tokens_per_completed_job": 400.0,
        "interventions_per_100": 100.0,
        "required_slack_s": 510.0,
        "verdict": "TOO TIGHT",
    }
    assert (paid["required_slack_s"], paid["verdict"]) == (410.0, "OK")


def test_margin_model_and_last_change_what_they_say(telemetry: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Margin 0; requeueing pays the wait twice; the last attempt alone has rework 1."""
    path = str(telemetry)
    assert report_json(capsys, path, "--slack-s", "1", "--margin-s", "0")[0]["required_slack_s"] == 210.0
    assert report_json(capsys, path, "--slack-s", "1", "--model=requeue")[0]["required_slack_s"] == 520.0
    assert report_json(capsys, path, "--slack-s", "1", "--last", "1")[0]["rework_multiplier"] == 1.0


def test_fail_exits_1_only_on_a_lane_that_is_too_tight(telemetry: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without `--fail` the verdict is shown and the exit status is 0."""
    assert main(["report", str(telemetry), "--slack-s", "1"]) == 0
    assert "TOO TIGHT" in capsys.readouterr().out
    assert main(["report", str(telemetry), "--slack-s", "1", "--fail"]) == 1
    assert main(["report", str(telemetry), "--slack-s", "510", "--fail"]) == 0


def test_bad_lines_are_named_and_fail_only_when_strict(telemetry: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """File, line number and reason on standard error; `--strict` exits 2."""
    with telemetry.open("ab") as file:
        file.write(b"not json\n")
    assert main(["report", str(telemetry), "--slack-s", "600"]) == 0
    shown = capsys.readouterr()
    assert f"{telemetry}:5: bad line: not_json" in shown.err
    assert "Left out: 1 bad lines" in shown.out
    assert main(["report", str(telemetry), "--slack-s", "600", "--strict"]) == 2
    assert "1 bad lines" in capsys.readouterr().err


def test_unknown_tokens_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the table as a note, with `--json` on standard error; the figure is null, not 0."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(line("a", tokens=None))
    assert main(["report", str(path), "--slack-s", "600"]) == 0
    assert "1 attempts with unknown tokens" in capsys.readouterr().out
    assert main(["report", str(path), "--slack-s", "600", "--json"]) == 0
    shown = capsys.readouterr()
    assert "1 attempts with unknown tokens" in shown.err
    assert json.loads(shown.out)[0]["tokens_per_completed_job"] is None


def test_config_gives_order_prices_and_margin(
    telemetry: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The paid lane comes first as configured, the priced lane shows money, and `--margin-s` beats the file."""
    config = tmp_path / "config.yml"
    config.write_text("lanes: [{name: paid}, {name: free, price_in_per_million: 10000}]\nthresholds: {margin-s: 1}\n")
    with_config = [str(telemetry), "--slack-s", "600", "--config.file", str(config)]
    paid, free = report_json(capsys, *with_config)
    assert (paid["lane"], free["lane"]) == ("paid", "free")
    assert (free["money_per_completed_job"], free["rework_money_per_completed_job"]) == (2.0, 1.0)
    assert "money_per_completed_job" not in paid
    assert (free["required_slack_s"], paid["required_slack_s"]) == (211.0, 111.0)
    assert report_json(capsys, *with_config, "--margin-s", "2")[1]["required_slack_s"] == 212.0
    assert main(["report", *with_config]) == 0
    assert "money/job" in capsys.readouterr().out


def test_html_is_written_beside_the_table(telemetry: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One file with the lanes in it; a folder that is not there is exit 2."""
    page = tmp_path / "report.html"
    assert main(["report", str(telemetry), "--slack-s", "600", "--html", str(page)]) == 0
    assert "Lane paid" in page.read_text()
    capsys.readouterr()
    assert main(["report", str(telemetry), "--slack-s", "600", "--html", str(tmp_path / "no" / "x.html")]) == 2
    assert "--html" in capsys.readouterr().err


def test_telemetry_without_attempts_is_an_empty_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No lanes, no error."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"")
    assert report_json(capsys, str(path), "--slack-s", "600") == []


def test_names_and_numbers_that_nobody_expects_are_shown_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Markup is text, what moves a cursor is an escape, and numbers too long to read get an exponent."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(line("a", lane="[/x]") + line("a", lane="\x1b[31mred") + line("a", lane="two\nlines", tokens=None))
    assert main(["report", str(path), "--slack-s", "1", "--margin-s", "1e300"]) == 0
    shown = capsys.readouterr().out
    assert [name for name in ("[/x]", "\\x1b[31mred", "two\\nlines", "1.000e+300 s") if name not in shown] == []
    assert "\x1b" not in shown
    assert "Lane two\\nlines: 1 attempts" in shown


def test_a_count_of_the_last_that_no_file_has_takes_them_all(
    telemetry: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As many nines as one likes."""
    for count in ("9" * 20, "9" * 5000):
        assert report_json(capsys, str(telemetry), "--slack-s", "1", "--last", count)[0]["rework_multiplier"] == 2.0


@pytest.mark.parametrize(
    ("lanes", "place", "words"),
    [
        ("- name: free\n  price_in_per_million: -1", "4:25", "price_in_per_million"),
        ("- name: free\n  price_in_per_million: [1]", "4:25", "single value"),
        ("- price_in_per_million: 1", "3:3", "needs a name"),
        ("- name: free\n- name: free", "4:9", "twice"),
    ],
)
def test_a_wrong_price_is_refused_with_line_and_column(
    telemetry: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], lanes: str, place: str, words: str
) -> None:
    """One line that points at it."""
    config = tmp_path / "config.yml"
    config.write_text(f"# prices\nlanes:\n{lanes}\n")
    assert main(["report", str(telemetry), "--slack-s", "1", "--config.file", str(config)]) == 2
    error = capsys.readouterr().err
    assert f"config.yml:{place}: " in error
    assert words in error


def test_a_full_disk_and_a_terminal_without_unicode_are_no_tracebacks(telemetry: Path) -> None:
    """The table is drawn in what the terminal can; what cannot be written is said in one line, exit 2."""
    telemetry.write_bytes(line("a", lane="günstig"))
    command = [sys.executable, "-m", "preempt_exporter.cli.main", "report", str(telemetry), "--slack-s", "900"]
    ascii_only = os.environ | {"PYTHONIOENCODING": "ascii"}
    shown = subprocess.run(command, env=ascii_only, capture_output=True, text=True, check=True)
    assert "g\\xfcnstig" in shown.stdout
    with Path("/dev/full").open("wb") as full:
        refused = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
    assert "No space left" in refused.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--slack-s", "soon"],
        ["--slack-s", "inf"],
        ["--slack-s", "1", "--margin-s", "-1"],
        ["--slack-s", "1", "--last", "0"],
        ["--slack-s", "1", "--last", "1_0"],
        ["--slack-s", "1", "--model", "magic"],
        [],
    ],
)
def test_wrong_flags_are_refused(telemetry: Path, arguments: list[str]) -> None:
    """Exit 2 in one line."""
    with pytest.raises(SystemExit) as refused:
        main(["report", str(telemetry), *arguments])
    assert refused.value.code == 2


def test_a_path_that_is_not_there_is_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line names it."""
    assert main(["report", str(tmp_path / "none.jsonl"), "--slack-s", "1"]) == 2
    assert "none.jsonl" in capsys.readouterr().err
