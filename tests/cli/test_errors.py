"""A command that cannot go on says in one line what is wrong and what to do next."""

from pathlib import Path

import pytest

from preempt_exporter.cli.main import main

JOB = '{"job_id":"a"}'
ENQUEUE = ["enqueue", "task_id=t"]


@pytest.mark.parametrize(
    ("words", "next_step"),
    [
        (["emit", "--ledger", "no/l.jsonl", *ENQUEUE], "make the folder, or name another path"),
        (["emit", "--ledger", ".", *ENQUEUE], "name a file in it"),
        (["emit", "--ledger", "l.jsonl", "enqueue", "t"], "enqueue has ts_ms, task_id"),
        (["emit", "--ledger", "l.jsonl", *ENQUEUE, "task_id=u"], "give it once"),
        (["emit", "--ledger", "l.jsonl", *ENQUEUE, "deadline_ms=1e300"], "give 9007199254740992 at most"),
        (["emit", *ENQUEUE], "Set LEDGER_PATH or give --ledger PATH"),
        (["route", "--config", "no.yml", "--telemetry", "l.jsonl", "--job", JOB], "check the path"),
        (["serve", "--config.file", "no.yml", "l.jsonl"], "check the path"),
        (["serve", "--config.file", ".", "l.jsonl"], "name a file in it"),
        (["control", "--ledger", "no/l.jsonl"], "make the folder, or name another path"),
        (["act", "drain_and_reject", "--ledger", "l.jsonl"], "give it as --lane L"),
        (["act", "reject_enqueue", "--run", "r", "--ledger", "l.jsonl"], "give it as --lane L"),
        (["act", "stop_run", "--ledger", "l.jsonl"], "give it as --run R"),
        (["act", "resume", "--ledger", "l.jsonl"], "give --lane L or --run R"),
        (["act", "mode", "--ledger", "l.jsonl"], "Give normal or reject_preempt_budget"),
        (["act", "mode", "normal", "--lane", "l", "--ledger", "l.jsonl"], "name no lane and no run"),
        (["act", "resume", "normal", "--lane", "l", "--ledger", "l.jsonl"], "leave out normal"),
        (["act", "resume", "--lane", "l", "--ledger", "no/l.jsonl"], "make it, or name another ledger"),
        (["admit", "--task", "t", "--ledger", "no/l.jsonl"], "make it, or name another ledger"),
        (["run", "--task", "t", "--ledger", "l.jsonl", "--", "no-such-command"], "check its name and PATH"),
        (["status", "--url", "http://127.0.0.1:1"], "does an exporter serve there?"),
        (["status", "--url", "localhost:9877"], "write it like http://localhost:9877"),
        (["doctor", "--prometheus", "http://127.0.0.1:1"], "check the address"),
        (["drill", "live", "--ledger", "no/l.jsonl"], "make the folder, or name another path"),
        (["drill", "live", "--ledger", "l.jsonl", "--trace", "no.json"], "check the path"),
        (["drill", "fence", "--ledger", "no/l.jsonl"], "make the folder, or name another path"),
        (["drill", "batch", "--telemetry", "no/t.jsonl", "--jobs", "j.jsonl"], "make the folder, or name another path"),
        (["report", "t.jsonl", "--slack-s", "1", "--html", "no/r.html"], "make the folder, or name another path"),
    ],
    ids=lambda value: " ".join(value[:3]) if isinstance(value, list) else "",
)
def test_a_refusal_says_what_to_do_next(
    words: list[str], next_step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Exit status 2 and one line on standard error, which ends in the next step."""
    monkeypatch.chdir(tmp_path)
    for name in ("LEDGER_PATH", "DEADLINE_MS", "TASK_BUDGET"):
        monkeypatch.delenv(name, raising=False)
    Path("t.jsonl").touch()
    assert main(words) == 2
    err = capfd.readouterr().err
    assert next_step in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("flag", ["--deadlin", "--led", "--config.fil"])
def test_the_beginning_of_a_flag_is_no_flag(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What it stood for would change with the next flag that begins so."""
    with pytest.raises(SystemExit) as stopped:
        main(["run", "--task", "t", flag, "x", "--", "true"])
    assert stopped.value.code == 2
    assert f"unrecognized arguments: {flag}" in capsys.readouterr().err
