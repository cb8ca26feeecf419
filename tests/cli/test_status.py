"""`status`: a row per task, for programs and for eyes, from files or from a running exporter."""

import gzip
import io
import json
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from preempt_exporter.cli.status_table import duration_text, print_rows
from preempt_exporter.clock import SystemClock
from preempt_exporter.state.task_row import TaskRow
from tests import shared_samples
from tests.running_exporter import COMMAND, DEADLINE_S, exit_status, is_one_line, serving

T0_MS = 1_795_956_000_000
FIELDS = {
    "task_id",
    "run",
    "lane",
    "action",
    "next_action",
    "reason",
    "state",
    "queue_age_ms",
    "deadline_slack_ms",
    "restart_cost_ms",
    "fits_one_more_preemption",
    "restart_tokens",
    "preempts",
    "checkpoint_tokens",
    "task_budget",
    "deadline_ms",
}


def enqueue(task_id: str, **fields: Any) -> str:
    line = {"event": "enqueue", "task_id": task_id, "ts_ms": T0_MS, "deadline_ms": 120_000, "task_budget": 1000}
    return json.dumps(line | fields) + "\n"


def rows(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[dict[str, Any]]:
    """What `status --json` prints."""
    assert exit_status("status", "--json", *map(str, arguments)) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def test_the_object_is_the_contract_s(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Every field is there under its name; ages are of `--now-ms`; what is unknown is null."""
    ledger = tmp_path / "l.jsonl"
    ledger.write_text(enqueue("t", run="night", lane="free"))
    (row,) = rows(capsys, ledger, f"--now-ms={T0_MS + 1500}")
    assert row.keys() == FIELDS
    assert row == {
        "task_id": "t",
        "run": "night",
        "lane": "free",
        "action": "hold",
        "next_action": "none",
        "reason": None,
        "state": "queued",
        "queue_age_ms": 1500,
        "deadline_slack_ms": 118_500,
        "restart_cost_ms": None,
        "fits_one_more_preemption": None,
        "restart_tokens": 0,
        "preempts": 0,
        "checkpoint_tokens": 0,
        "task_budget": 1000,
        "deadline_ms": 120_000,
    }


def test_least_slack_comes_first(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Live tasks by slack, then what has none: no deadline, or ended."""
    lines = [enqueue("ended"), enqueue("calm"), enqueue("late", deadline_ms=5), enqueue("endless", deadline_ms=None)]
    lines.append(json.dumps({"event": "drain", "task_id": "ended", "ts_ms": T0_MS, "action": "fail"}) + "\n")
    (tmp_path / "l.jsonl").write_text("".join(lines))
    found = rows(capsys, tmp_path / "l.jsonl", f"--now-ms={T0_MS + 60_000}")
    assert [row["task_id"] for row in found] == ["late", "calm", "ended", "endless"]
    assert [row["deadline_slack_ms"] for row in found] == [-59_995, 60_000, None, None]


def test_files_folders_globs_and_compressed_forms(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A folder means its ledgers, a glob what it matches, a compressed rotated form is read as the ledger's past."""
    folder = tmp_path / "ledgers"
    folder.mkdir()
    (folder / "a.jsonl").write_text(enqueue("a-new"))
    (folder / "a.jsonl.1.gz").write_bytes(gzip.compress(enqueue("a-old").encode()))
    (folder / "b.ndjson").write_text(enqueue("b"))
    (folder / "readme.txt").write_text(enqueue("no ledger"))

    def names(*arguments: object) -> set[str]:
        return {row["task_id"] for row in rows(capsys, *arguments)}

    assert names(folder) == {"a-old", "a-new", "b"}
    assert names(folder / "*.ndjson") == {"b"}
    assert names(folder / "a.jsonl.1.gz") == {"a-old"}
    assert names(folder / "a.jsonl", folder / "a.jsonl") == {"a-old", "a-new"}
    assert names(folder / "*.nothing") == set()
    assert names(tmp_path) == set(), "not those of folders below it"


def test_the_environment_names_the_ledger(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without LEDGER it is `LEDGER_PATH`; limits that lines do not give are the environment's."""
    (tmp_path / "l.jsonl").write_text(enqueue("t", deadline_ms=None, task_budget=None))
    monkeypatch.setenv("LEDGER_PATH", str(tmp_path / "l.jsonl"))
    monkeypatch.setenv("DEADLINE_MS", "5000")
    monkeypatch.setenv("TASK_BUDGET", "77")
    (row,) = rows(capsys)
    assert (row["deadline_ms"], row["task_budget"]) == (5000, 77)


def test_what_the_samples_say(capsys: pytest.CaptureFixture[str]) -> None:
    """A task that was preempted past its budget and drained; and all samples together are lives of one task."""
    folder = shared_samples.folder()
    (row,) = rows(capsys, folder / "admission-preempt.jsonl")
    wanted = {"action": "reject", "reason": "restart_tokens", "restart_tokens": 840, "preempts": 1, "state": "drained"}
    assert row.items() >= (wanted | {"task_budget": 1000, "queue_age_ms": None, "deadline_slack_ms": None}).items()
    (row,) = rows(capsys, *(folder / name for name in shared_samples.NAMES))
    assert (row["task_id"], row["state"], row["restart_tokens"]) == ("batch-0214", "complete", 840), "the newest life"


def test_a_running_exporter_says_the_same(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """`--url` gives the objects that reading the same ledger gives, but for what ages meanwhile."""
    ledger = tmp_path / "l.jsonl"
    now_ms = SystemClock().now_ms()
    ledger.write_text(enqueue("t", ts_ms=now_ms, prompt_tokens=800) + enqueue("u", ts_ms=now_ms, deadline_ms=None))
    with serving(ledger) as exporter:
        exporter.wait_until_ready()
        asked = rows(capsys, "--url", exporter.url)
    assert [row["task_id"] for row in asked] == ["t", "u"]
    for told_by_url, told_by_file in zip(asked, rows(capsys, ledger, f"--now-ms={now_ms}"), strict=True):
        age_ms = told_by_url.pop("queue_age_ms") - told_by_file.pop("queue_age_ms")
        slack_ms = (told_by_file.pop("deadline_slack_ms") or 0) - (told_by_url.pop("deadline_slack_ms") or 0)
        assert 0 <= age_ms < 60_000
        assert slack_ms in (0, age_ms)
        assert told_by_url == told_by_file


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "no LEDGER given"),
        (("no/such.jsonl",), "no/such.jsonl"),
        (("--url", "localhost:9877"), "http://"),
        (("--url", "http://127.0.0.1:9"), "127.0.0.1:9"),
        (("--url", "http://127.0.0.1:9", "l.jsonl"), "not both"),
        (("l.jsonl", "--now-ms", "soon"), "--now-ms"),
        (("l.jsonl", "--sate"), "--sate"),
        (("--url", "http://127.0.0.1:9", "--now-ms", "5"), "--now-ms goes with LEDGER"),
        (("l.jsonl", "--run", "r"), "go with --explain"),
        (("l.jsonl", "--checkpoint-cost", "5s"), "go with --explain"),
    ],
)
def test_wrong_usage_is_one_line(
    arguments: tuple[str, ...],
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Exit 2, never 1, and one line that names what is wrong."""
    monkeypatch.delenv("LEDGER_PATH", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "l.jsonl").write_text("")
    assert exit_status("status", *arguments) == 2
    said = capsys.readouterr()
    assert is_one_line(said.err), said.err
    assert words in said.err


def test_a_proxy_is_not_asked_for_this_machine(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a proxy in the environment that would answer nothing, an exporter on this machine is asked directly."""
    (tmp_path / "l.jsonl").write_text(enqueue("t"))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    with serving(tmp_path / "l.jsonl") as exporter:
        exporter.wait_until_ready()
        assert [row["task_id"] for row in rows(capsys, "--url", exporter.url)] == ["t"]


def test_what_is_no_exporter_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """An address that answers something else, or no HTTP at all: one line, exit 2."""
    for answer in (b"HTTP/1.0 200 OK\r\n\r\n<html>", b"HTTP/1.0 404 Not Found\r\n\r\n", b"SSH-2.0\r\n", b""):
        with socket.create_server(("127.0.0.1", 0)) as server:
            thread = threading.Thread(target=answer_once, args=(server, answer))
            thread.start()
            assert exit_status("status", "--url", f"http://127.0.0.1:{server.getsockname()[1]}") == 2
            thread.join()
        assert is_one_line(capsys.readouterr().err)


def answer_once(server: socket.socket, answer: bytes) -> None:
    client, _ = server.accept()
    with client:
        client.recv(4096)
        client.sendall(answer)


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_reader_that_has_gone_is_no_error(form: list[str], tmp_path: Path) -> None:
    """`status | true`: exit 0 and silence; a disk that is full is one line and exit 2."""
    ledger = tmp_path / "l.jsonl"
    ledger.write_text("".join(enqueue(f"t{index}") for index in range(2000)))
    words = [*COMMAND, "status", *form, str(ledger)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(DEADLINE_S) == 0
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 2
    assert is_one_line(ended.stderr), ended.stderr
    assert "No space left" in ended.stderr


def table(*rows: TaskRow, terminal: bool = False) -> str:
    out = io.StringIO()
    print_rows(rows, Console(file=out, force_terminal=terminal, width=200))
    return out.getvalue()


def row(**changes: Any) -> TaskRow:
    values: dict[str, Any] = {
        "task_id": "t",
        "run": None,
        "lane": "free",
        "action": "hold",
        "next_action": "none",
        "reason": None,
        "state": "running",
        "queue_age_ms": 61_000,
        "deadline_slack_ms": -5,
        "restart_cost_ms": None,
        "fits_one_more_preemption": False,
        "restart_tokens": 840,
        "preempts": 1,
        "checkpoint_tokens": 0,
        "task_budget": 1000,
        "deadline_ms": 60_995,
    }
    return TaskRow(**values | changes)


def test_the_table_shows_a_row_per_task(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Names, state, ages in units people read; an empty ledger says so; a pipe gets no colours and whole rows."""
    (tmp_path / "l.jsonl").write_text(enqueue("a-task-with-a-rather-long-name" * 4, run="night") + "nonsense\n")
    assert exit_status("status", str(tmp_path / "l.jsonl"), f"--now-ms={T0_MS + 90_000}") == 0
    said = capsys.readouterr()
    lines = said.out.splitlines()
    heads = "task run lane state action next action reason age slack restart tokens preempts fits one more"
    assert " ".join(lines[0].split()) == heads
    assert "1m30s" in lines[1]
    assert "0 of 1000" in lines[1]
    assert "\x1b" not in said.out
    assert "1 bad lines" in said.err
    (tmp_path / "empty.jsonl").write_text("")
    assert exit_status("status", str(tmp_path / "empty.jsonl")) == 0
    assert capsys.readouterr().out == "no tasks\n"


def test_hostile_names_cannot_move_the_cursor() -> None:
    """Control characters, escape sequences, bidirectional overrides and rich's own markup are shown, not obeyed."""
    names = ("\x1b[2J\x1b[H", "a\rb", "a\nb", "\x9b2J", "\u202egnp.exe", "[red]t[/red]", "\u2028", "\x00")
    for name in names:
        for place in ("task_id", "lane", "run", "reason"):
            for terminal in (False, True):
                text = table(row(**{place: name}), terminal=terminal)
                assert len(text.splitlines()) == 2, repr(text)
                shown = text.replace("\x1b[1m", "").replace("\x1b[0m", "").replace("\x1b[33m", "")
                assert all(char.isprintable() or char == "\n" for char in shown), repr(shown)
    assert "[red]t[/red]" in table(row(task_id="[red]t[/red]"))
    assert "\\x1b[2J" in table(row(task_id="\x1b[2J"))


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "-"),
        (0, "0ms"),
        (-5, "-5ms"),
        (999, "999ms"),
        (1000, "1s"),
        (59_500, "59.5s"),
        (59_999, "59.9s"),
        (60_000, "1m00s"),
        (3_599_999, "59m59s"),
        (3_600_000, "1h00m"),
        (-90_061_000, "-1d01h"),
    ],
)
def test_durations_are_short(ms: int | None, text: str) -> None:
    """Two units at most, and never 60 of one."""
    assert duration_text(ms) == text
