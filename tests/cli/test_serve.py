"""`serve` as a real process: what is read from where, what a restart keeps, how it stops, and what it refuses."""

import json
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from preempt_exporter.clock import SystemClock
from tests import shared_samples
from tests.running_exporter import exit_status, is_one_line, serving, told

BROKEN_READER = """
import sys
from preempt_exporter.cli.main import main
from preempt_exporter.pipeline.reader import Reader
def broken(self): raise RuntimeError("the disk sang")
Reader.step = broken
sys.exit(main())
"""

NUMBERS = iter(range(1_000_000))


def heartbeat(task_id: str = "t", **fields: Any) -> str:
    """A line of now that is never the same twice."""
    number = next(NUMBERS)
    line = {"event": "heartbeat", "task_id": task_id, "ts_ms": SystemClock().now_ms(), "id": f"line-{number}", **fields}
    return json.dumps(line) + "\n"


def append(path: Path, *lines: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(lines))


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "attempts.jsonl"


def test_it_follows_growth_rotation_and_bad_lines(ledger: Path) -> None:
    """New lines are seen within the deadline; a rename and a new file lose and repeat nothing; bad lines count."""
    append(ledger, heartbeat(), heartbeat())
    with serving(ledger) as exporter:
        exporter.wait_until_ready()
        exporter.wait_for_value(1, "preempt_exporter_ready")
        exporter.wait_for_value(2, "preempt_events_total", lane="default", event="heartbeat")
        append(ledger, heartbeat())
        exporter.wait_for_value(3, "preempt_events_total", lane="default", event="heartbeat")
        ledger.rename(ledger.with_name("attempts.jsonl.1"))
        append(ledger, heartbeat())
        exporter.wait_for_value(4, "preempt_events_total", lane="default", event="heartbeat")
        exporter.wait_for_value(1, "preempt_ledger_rotations_total")
        append(ledger, "nonsense\n", "more nonsense\n", heartbeat())
        exporter.wait_for_value(5, "preempt_events_total", lane="default", event="heartbeat")
        scraped = exporter.scrape()
        assert scraped.value("preempt_ledger_line_errors_total", reason="not_json") == 2
        assert scraped.value("preempt_ledger_lines_total") == 7
        assert scraped.value("preempt_ledger_duplicate_lines_total") == 0
        assert exporter.log().count("bad line (not_json)") == 1, "once a minute"
        assert f"{ledger}: byte" in exporter.log()
        assert exporter.stop() == 0
        assert "Traceback" not in exporter.log()


def test_folders_globs_and_files_that_come_later(tmp_path: Path) -> None:
    """A folder's ledgers, a glob's and a named file are read whether they were there at the start or came later."""
    folder, globbed, late = tmp_path / "folder", tmp_path / "globbed", tmp_path / "late" / "l.jsonl"
    folder.mkdir()
    append(folder / "a.jsonl", heartbeat(lane="a"))
    append(folder / "notes.txt", heartbeat(lane="not a ledger"))
    with serving(folder, f"{globbed}/**/*.log", late) as exporter:
        exporter.wait_for_value(1, "preempt_events_total", lane="a", event="heartbeat")
        append(folder / "b.ndjson", heartbeat(lane="b"))
        (globbed / "deep").mkdir(parents=True)
        append(globbed / "deep" / "c.log", heartbeat(lane="c"))
        late.parent.mkdir()
        append(late, heartbeat(lane="d"))
        for lane in "bcd":
            exporter.wait_for_value(1, "preempt_events_total", lane=lane, event="heartbeat")
        scraped = exporter.scrape()
        assert scraped.value("preempt_ledger_files") == 4
        assert scraped.value("preempt_events_total", lane="not a ledger", event="heartbeat") is None


def test_no_ledger_yet_is_ready_at_once(ledger: Path) -> None:
    """Where no file exists yet it is ready; the environment may name the ledger; no state file is said."""
    with serving(environ={"LEDGER_PATH": str(ledger)}) as exporter:
        exporter.wait_until_ready()
        exporter.wait_until_said("no --state.file")
        append(ledger, heartbeat())
        exporter.wait_for_value(1, "preempt_events_total", lane="default", event="heartbeat")


def test_a_restart_with_a_state_file_continues(ledger: Path, tmp_path: Path) -> None:
    """Counters, lives and read positions survive a restart, even of lines whose file is gone; nothing counts twice."""
    state = tmp_path / "state"
    append(ledger, heartbeat("a"), "nonsense\n", heartbeat("a", lane="free"))
    preempted = {"event": "preempt", "wasted_tokens": 840, "restart_tokens": 840, "preempts": 1}
    append(ledger, heartbeat("b", **preempted))
    with serving(ledger, f"--state.file={state}") as exporter:
        exporter.wait_for_value(4, "preempt_ledger_lines_total")
        before = exporter.scrape()
        assert exporter.stop() == 0
    ledger.unlink()
    append(ledger, heartbeat("a"))
    with serving(ledger, f"--state.file={state}") as exporter:
        exporter.wait_for_value(5, "preempt_ledger_lines_total")
        after = exporter.scrape()
        assert "no --state.file" not in exporter.log()
        assert exporter.stop() == 0
    assert after.value("restart_tokens", task_id="b", lane="default") == 840
    counters = [series for series in before if series[0].endswith(("_total", "_bucket", "_count"))]
    ours = [series for series in counters if not series[0].startswith(("python_", "process_"))]
    assert len(ours) > 100
    assert not [series for series in ours if after.get(series, -1.0) < before[series]]
    assert after.value("preempt_ledger_line_errors_total", reason="not_json") == 1
    assert after.value("preempt_state_snapshot_timestamp_seconds") is not None


def test_a_second_exporter_is_refused(ledger: Path, tmp_path: Path) -> None:
    """Two exporters with one state file: the second ends at once, in one line that says what to do."""
    state = f"--state.file={tmp_path / 'state'}"
    with serving(ledger, state):
        second = told("serve", ledger, state, "--web.listen-address=127.0.0.1:0")
    assert second.returncode == 2
    assert is_one_line(second.stderr)
    assert "another exporter" in second.stderr


def test_a_damaged_state_file_is_set_aside(ledger: Path, tmp_path: Path) -> None:
    """A state file cut short is kept for a person to see; the one before it is used, and nothing counts twice."""
    state = tmp_path / "state"
    append(ledger, heartbeat())
    for expected in (1, 2):
        with serving(ledger, f"--state.file={state}") as exporter:
            exporter.wait_for_value(expected, "preempt_ledger_lines_total")
            assert exporter.stop() == 0
        append(ledger, heartbeat())
    assert state.with_name("state.previous").exists()
    state.write_bytes(state.read_bytes()[:-1])
    with serving(ledger, f"--state.file={state}") as exporter:
        exporter.wait_for_value(3, "preempt_ledger_lines_total")
        assert exporter.value("preempt_events_total", lane="default", event="heartbeat") == 3
        assert "set aside" in exporter.log()
        assert exporter.stop() == 0
    assert list(tmp_path.glob("state.damaged-*"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it_cleanly(ledger: Path, number: signal.Signals) -> None:
    """SIGTERM and SIGINT: exit 0 well before anyone would send SIGKILL, and the port is free again."""
    append(ledger, heartbeat())
    with serving(ledger) as exporter:
        exporter.wait_until_ready()
        assert exporter.stop(number) == 0
        port = int(exporter.url.rsplit(":", 1)[1])
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0
        assert exporter.said[-1].endswith("INFO stopped; lines read: 1, bad lines: 0; no state was kept\n")


def test_its_last_word_is_whether_the_state_was_kept(ledger: Path, tmp_path: Path) -> None:
    """A stop is one line: what was read, and whether a restart goes on from there."""
    append(ledger, heartbeat(), "nonsense\n")
    state = tmp_path / "kept" / "state"
    state.parent.mkdir()
    for lost in (False, True):
        with serving(ledger, f"--state.file={state}") as exporter:
            exporter.wait_for_value(2, "preempt_ledger_lines_total")
            if lost:
                state.parent.rename(tmp_path / "gone")
            assert exporter.stop() == 0
        kept = f"their state was not written to {state}" if lost else f"state kept in {state}"
        assert exporter.said[-1].endswith(
            f"{'ERROR' if lost else 'INFO'} stopped; lines read: 2, bad lines: 1; {kept}\n"
        )


def test_a_breakdown_of_reading_ends_it(ledger: Path) -> None:
    """When reading breaks down it does not go on serving figures that stand still: exit 1, and the log says why."""
    append(ledger, heartbeat())
    with serving(ledger, command=[sys.executable, "-c", BROKEN_READER]) as exporter:
        assert exporter.wait() == 1
        assert "reading broke down" in exporter.log()
        assert "the disk sang" in exporter.log()
        assert "stopped;" not in exporter.log()


def test_an_unreadable_ledger_is_no_reason_to_end(tmp_path: Path) -> None:
    """A ledger that is a loop of links is counted as unreadable; the others are read, and it is ready."""
    loop = tmp_path / "loop.jsonl"
    loop.symlink_to(loop)
    append(tmp_path / "good.jsonl", heartbeat())
    with serving(tmp_path) as exporter:
        exporter.wait_for_value(1, "preempt_events_total", lane="default", event="heartbeat")
        exporter.wait_for_value(1, "preempt_ledger_unreadable_files")
        exporter.wait_until_ready()


def test_a_port_in_use_is_one_line(ledger: Path) -> None:
    """A port that somebody has: exit 2 and one line that names it and says what to do."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = told("serve", ledger, f"--web.listen-address={address}")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert is_one_line(ended.stderr), ended.stderr
    assert f"cannot listen on {address}" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("l", "--no-such-flag"), "--no-such-flag"),
        ((), "no LEDGER given"),
        (("",), "a LEDGER is empty"),
        (("l", ""), "a LEDGER is empty"),
        (("l", "--task.linger=soon"), "--task.linger"),
        (("l", "--task.limit=-1"), "--task.limit"),
        (("l", "--task.series=best:5"), "--task.series"),
        (("l", "--watch=closely"), "--watch"),
        (("l", "--web.listen-address=here"), "--web.listen-address"),
        (("l", "--config.file=no-such.yml"), "no-such.yml"),
        (("l", "--web.config.file=no-such.yml"), "no-such.yml"),
        (("l", "--state.file=no/such/folder"), "--state.file needs"),
    ],
)
def test_wrong_usage_is_one_line(
    arguments: tuple[str, ...],
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Whatever is wrong with the command line: exit 2 and one line on standard error that names it, no traceback."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEDGER_PATH", raising=False)
    status = exit_status("serve", *arguments)
    said = capsys.readouterr()
    assert (status, said.out) == (2, "")
    assert is_one_line(said.err), said.err
    assert words in said.err


def test_samples_show_what_they_should() -> None:
    """A drained task of long ago is seen with a long linger, without an age; two attempts are a rework of 2."""
    folder = shared_samples.folder()
    with serving(folder / "admission-preempt.jsonl", "--task.linger=87600h") as exporter:
        exporter.wait_for_value(840, "restart_tokens", task_id="batch-0214", lane="default")
        scraped = exporter.scrape()
        assert scraped.value("preempts", task_id="batch-0214", lane="default") == 1
        assert not scraped.names() & {"queue_age_ms", "deadline_slack_ms", "deadline_ms"}
    with serving(folder / "attempts-two.jsonl") as exporter:
        exporter.wait_for_value(2, "preempt_lane_rework_multiplier", lane="free")
