"""Ledgers that nobody wrote for us, through the commands: the worked examples of docs/mappings and more."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from preempt_exporter.cli.decoding import MappedLedgers
from preempt_exporter.settings import MappingRule, ValueSource
from tests.running_exporter import exit_status, serving, told

EXAMPLES = Path(__file__).parents[2] / "docs" / "mappings"
EVAL = ("eval-harness.yml", "eval-harness-samples.jsonl")
BATCH = ("batch-api.yml", "batch_8f2c_output.jsonl")
LOG = ("app-log.yml", "worker.log")
NOW_MS = 1_781_168_490_000
"""2026-06-11T09:01:30Z, after the slot was lost and before the other task was begun."""


def example(mapping: str, lines: str) -> tuple[str, str]:
    return f"--config.file={EXAMPLES / mapping}", str(EXAMPLES / lines)


def answer(*arguments: str) -> Any:
    done = told(*arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(("mapping", "lines"), [EVAL, BATCH, LOG])
def test_no_line_of_an_example_is_bad(mapping: str, lines: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`check` finds every line of the worked examples good, and finds none of them so without the mapping."""
    assert exit_status("check", *example(mapping, lines)) == 0
    assert ": 0 bad" in capsys.readouterr().err
    assert exit_status("check", str(EXAMPLES / lines)) == 1
    total = len((EXAMPLES / lines).read_text().splitlines())
    assert f": {total} bad" in capsys.readouterr().err


def test_every_file_among_the_examples_is_tested() -> None:
    """No example lies beside the tests."""
    assert {path.name for path in EXAMPLES.iterdir()} == {*EVAL, *BATCH, *LOG}


def test_report_reads_an_eval_harness_log() -> None:
    """Tries of samples are attempts of jobs: the lost slot is rework, a sample without a model call has no tokens."""
    (lane,) = answer("report", "--json", "--slack-s=3600", *example(*EVAL))
    assert lane["lane"] == "spot-us-east-1"
    assert lane["completed"] == 2
    assert lane["rework_multiplier"] == 2.0
    assert lane["s_per_completed_job"] == pytest.approx((41.5 + 63 + 88.25 + 0.75) / 2)
    assert lane["p95_wait_s"] == 693.0
    assert lane["tokens_per_completed_job"] == pytest.approx((812 + 240 + 812 + 118 + 812 + 305) / 2)


def test_report_reads_a_batch_apis_output() -> None:
    """Requests are attempts from the batch's begin to each answer; cut off, refused and expired ones are failures."""
    (lane,) = answer("report", "--json", "--slack-s=3600", *example(*BATCH))
    assert (lane["completed"], lane["rework_multiplier"], lane["p95_wait_s"]) == (1, 4.0, 250.0)
    assert lane["s_per_completed_job"] == pytest.approx(50 + 170)
    assert lane["tokens_per_completed_job"] == pytest.approx(1204 + 311 + 980 + 512)


def test_report_says_what_a_mapping_left_out() -> None:
    """Ignored lines are named in the report's notes."""
    assert "Left out: 3 lines that no field mapping speaks of." in told("report", "--slack-s=9", *example(*EVAL)).stdout


def test_status_reads_an_applications_log() -> None:
    """Messages of a worker become lives with deadline, budget, preemptions and checkpoint."""
    rows = {row["task_id"]: row for row in answer("status", "--json", f"--now-ms={NOW_MS}", *example(*LOG))}
    lost = rows["t-17"]
    assert (lost["run"], lost["lane"], lost["state"]) == ("42", "spot-us-east-1", "drained")
    assert (lost["restart_tokens"], lost["preempts"], lost["task_budget"]) == (850, 1, 6000)
    assert lost["checkpoint_tokens"] == 100
    assert rows["t-18"]["state"] == "complete"
    assert rows["t-18"]["lane"] == "paid"


def test_every_command_that_reads_whole_ledgers_maps_them(tmp_path: Path) -> None:
    """`undone`, `status --live` and `export` see the same tasks as `status`."""
    config, log = example(*LOG)
    assert told("undone", config, log).stdout == "t-17\n"
    assert "t-17" in told("status", "--live", config, log).stdout
    textfile = tmp_path / "preempt.prom"
    assert told("export", config, log, f"--textfile={textfile}").returncode == 0
    assert "preempt_ledger_ignored_lines_total 3\n" in textfile.read_text()


def test_ages_and_deadlines_come_from_converted_moments(tmp_path: Path) -> None:
    """Up to some line of the log a task waits; its age and slack are exact to the millisecond."""
    log = tmp_path / "worker.log"
    log.write_text("".join((EXAMPLES / LOG[1]).read_text().splitlines(keepends=True)[:7]))
    rows = answer("status", "--json", f"--now-ms={NOW_MS}", f"--config.file={EXAMPLES / LOG[0]}", str(log))
    waiting = next(row for row in rows if row["task_id"] == "t-18")
    assert (waiting["queue_age_ms"], waiting["deadline_ms"], waiting["state"]) == (87_500, 3_600_000, "queued")
    assert waiting["deadline_slack_ms"] == 3_600_000 - 87_500


def test_serve_counts_what_it_maps_and_what_it_ignores(tmp_path: Path) -> None:
    """The exporter tails a mapped log live, over a rotation, and agrees with a cold read of it."""
    lines = (EXAMPLES / LOG[1]).read_text().splitlines(keepends=True)
    log = tmp_path / "worker.log"
    log.write_text("".join(lines[:6]))
    config = f"--config.file={EXAMPLES / LOG[0]}"
    with serving(log, config) as exporter:
        exporter.wait_for_value(1, "preempt_ledger_ignored_lines_total")
        assert exporter.value("preempt_restart_tokens_total", lane="spot-us-east-1") == 850
        log.rename(tmp_path / "worker.log.1")
        log.write_text("".join(lines[6:]))
        exporter.wait_for_value(len(lines), "preempt_ledger_lines_total")
        exporter.wait_for_value(3, "preempt_ledger_ignored_lines_total")
        assert exporter.value("preempt_events_total", lane="spot-us-east-1", event="drain") == 1
        assert told("verify", log, f"--url={exporter.url}", config).returncode == 0
        assert told("verify", log, f"--url={exporter.url}").returncode == 1


def test_a_restart_goes_on_counting_ignored_lines(tmp_path: Path) -> None:
    """The count is kept in the state file, and is there from the first scrape with a mapping, at 0."""
    log = tmp_path / "worker.log"
    log.write_text("")
    config = (log, f"--config.file={EXAMPLES / LOG[0]}", f"--state.file={tmp_path / 'state'}")
    with serving(*config) as exporter:
        exporter.wait_for_value(0, "preempt_ledger_ignored_lines_total")
        log.write_text('{"msg":"gc pause"}\n')
        exporter.wait_for_value(1, "preempt_ledger_ignored_lines_total")
        assert exporter.stop() == 0
    with serving(*config) as exporter:
        exporter.wait_for_value(1, "preempt_ledger_ignored_lines_total")


def test_without_a_mapping_nothing_is_said_of_ignored_lines(tmp_path: Path) -> None:
    """The family is absent where nothing could be ignored."""
    with serving(tmp_path / "l.jsonl") as exporter:
        exporter.wait_until_ready()
        assert exporter.value("preempt_ledger_ignored_lines_total") is None


def test_explain_shows_where_each_field_came_from(capsys: pytest.CaptureFixture[str]) -> None:
    """Line by line: what it was read as, by which rule, and for each field ours, its value, theirs; or why not."""
    assert exit_status("check", "--explain", *example(*LOG)) == 0
    out = capsys.readouterr().out.splitlines()
    log = EXAMPLES / LOG[1]
    assert out[0] == f"{log}:1: ignored: msg is 'listening', level is 'info'"
    assert out[1] == f"{log}:2: enqueue, by {EXAMPLES / LOG[0]}:4"
    assert "    ts_ms         = 1781168401000   from ts 1781168401.0" in out
    assert '    deadline_ms   = 3600000   from task.deadline "2026-06-11T10:00:01Z", ts 1781168401.0' in out
    assert '    action  = "fail_task_not_replay"   a constant' in out
    assert "    restart_tokens = 0   from lost_tokens_total (not there)" in out


def test_explain_names_elements_of_arrays(capsys: pytest.CaptureFixture[str]) -> None:
    """What stood at an index is told with the index, where there was something."""
    assert exit_status("check", "--explain", *example(*BATCH)) == 0
    out = capsys.readouterr().out.splitlines()
    outcomes = [line.split(None, 1)[1] for line in out if line.startswith("    outcome")]
    reason, status = "response.body.choices[0].finish_reason", "response.status_code"
    assert outcomes == [
        f'= "ok"   from {reason} "stop", {status} 200',
        f'= "length"   from {reason} "length", {status} 200',
        f'= "failed"   from {status} 400',
        '= "batch_expired"   from error.code "batch_expired"',
    ]


def test_explain_names_bad_lines_and_exits_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A mapped line that is bad is told with the reason and with what its fields were made of."""
    log = tmp_path / "worker.log"
    log.write_text('{"ts":1,"msg":"task done","task":{}}\nnonsense\n\n{"ts":"x\\u001b","msg":"slot acquired"}\n')
    config = f"--config.file={EXAMPLES / LOG[0]}"
    assert exit_status("check", "--explain", config, str(log)) == 1
    said = capsys.readouterr()
    bad = [line for line in said.out.splitlines() if not line.startswith(" ")]
    assert bad[0] == f"{log}:1: bad: missing_field: task_id (from task.id), by {EXAMPLES / LOG[0]}:4"
    assert bad[1].startswith(f"{log}:2: bad: not_json: ")
    assert bad[2] == f"{log}:4: bad: wrong_type: ts_ms: expected a number (from ts), by {EXAMPLES / LOG[0]}:4"
    assert '    ts_ms = wrong_type   from ts "x\\u001b"' in said.out.splitlines()
    assert said.err == "3 lines in 1 file: 3 bad (missing_field 1, not_json 1, wrong_type 1)\n"


def test_explain_in_json_is_an_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """The same for programs, as JSON Lines."""
    assert exit_status("check", "--explain", "--json", *example(*EVAL)) == 0
    objects = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [found["read_as"] for found in objects].count("attempt") == 4
    assert objects[0] == {
        "file": str(EXAMPLES / EVAL[1]),
        "line": 1,
        "read_as": "ignored",
        "mapping": None,
        "reason": None,
        "detail": "kind is 'run_start'",
        "fields": [],
    }
    assert {"name": "attempt", "text": "1", "found": "sample.retry 0"} in objects[1]["fields"]


def test_explain_of_our_own_lines(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A ledger that no mapping means is explained as it is read natively."""
    ledger = tmp_path / "l.jsonl"
    ledger.write_text('{"event":"drain","task_id":"t","ts_ms":5,"action":"a"}\n{}\n')
    assert exit_status("check", "--explain", str(ledger)) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{ledger}:1: drain",
        f"{ledger}:2: bad: unknown_kind: neither `event` nor `job_id`",
    ]


def test_explain_says_which_ledgers_no_mapping_means(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A glob that misses its file shows as that, not only as lines of no known kind; silent where nothing is mapped."""
    config, log = example(*LOG)
    missed = tmp_path / "worker\nlog"
    missed.write_text("{}\n")
    exit_status("check", "--explain", config, log, str(missed))
    said = capsys.readouterr().err.splitlines()
    assert said[:-1] == [f"{tmp_path}/worker\\nlog: read natively, as no entry's files mean it"]
    exit_status("check", "--explain", str(missed))
    assert "natively" not in capsys.readouterr().err


def test_compressed_and_rotated_forms_are_mapped_as_their_ledger(tmp_path: Path) -> None:
    """A glob for a ledger also means what rotation and compression made of it, named alone or not."""
    lines = (EXAMPLES / EVAL[1]).read_bytes()
    for name in ("x-samples.jsonl.gz", "y-samples.jsonl.1.gz", "y-samples.jsonl-20261129"):
        content = gzip.compress(lines) if name.endswith(".gz") else lines
        (tmp_path / name).write_bytes(content)
        done = told("check", f"--config.file={EXAMPLES / EVAL[0]}", tmp_path / name)
        assert (done.returncode, "3 ignored" in done.stderr) == (0, True), (name, done.stdout)


def test_standard_input_is_mapped_by_its_name(tmp_path: Path) -> None:
    """`files: "-"` means standard input."""
    config = tmp_path / "c.yml"
    config.write_text((EXAMPLES / EVAL[0]).read_text().replace("*-samples.jsonl", "-"))
    done = told("check", f"--config.file={config}", "-", stdin=(EXAMPLES / EVAL[1]).read_text())
    assert (done.returncode, "3 ignored" in done.stderr) == (0, True)


@pytest.mark.parametrize(
    ("glob", "ledger", "mapped"),
    [
        ("*.log", "/var/log/a/x.log", True),
        ("*.log", "/var/log/a/x.jsonl", False),
        ("/var/log/*.log", "/var/log/x.log", True),
        ("/var/log/*.log", "/var/log/a/x.log", False),
        ("/var/log/**/*.log", "/var/log/a/b/x.log", True),
        ("/var/log/x.log", "/var/log/x.log.3", True),
        ("x.log", "/var/log/x.log-20261129.zst", True),
        ("x.log", "/var/log/X.log", False),
    ],
)
def test_which_ledgers_a_glob_means(glob: str, ledger: str, mapped: bool) -> None:
    """A bare name matches in any folder, a path as a LEDGER argument does."""
    rule = MappingRule(place="t", files=(glob,), event=ValueSource(constant='"heartbeat"'), fields={})
    assert (MappedLedgers([rule]).mapping_of(ledger) is not None) == mapped


def test_a_broken_environment_does_not_concern_check(tmp_path: Path) -> None:
    """`check` without a configuration file reads no settings."""
    ledger = tmp_path / "l.jsonl"
    ledger.write_text("")
    assert told("check", ledger, environ={"DEADLINE_MS": "soon"}).returncode == 0


def test_a_broken_mapping_is_one_line(tmp_path: Path) -> None:
    """Every command that maps refuses a wrong file with place and exit status 2."""
    config = tmp_path / "c.yml"
    config.write_text("mappings:\n  - files: x\n    event: dance\n")
    for words in (["check"], ["status"], ["report", "--slack-s=5"]):
        done = told(*words, f"--config.file={config}", EXAMPLES / LOG[1])
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert f"{config}:3:12: 'dance' is none of our kinds of line" in done.stderr
