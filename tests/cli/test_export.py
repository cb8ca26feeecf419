"""`export --textfile`: a whole file each time, for node_exporter to read."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

LINE = '{"event": "enqueue", "task_id": "t%d", "ts_ms": 1800000000000}\n'
DEADLINE_S = 30
COMMAND = [sys.executable, "-m", "preempt_exporter.cli.main", "export"]


def export(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=DEADLINE_S, check=False)


def enqueued(target: Path) -> float:
    """How many enqueues the file tells of; the file always parses."""
    families = {family.name: family for family in text_string_to_metric_families(target.read_text(encoding="utf-8"))}
    events = families["preempt_events"].samples
    return sum(sample.value for sample in events if sample.labels["event"] == "enqueue")


def test_once_it_writes_what_the_ledger_says_and_ends(tmp_path: Path) -> None:
    """Readable by node_exporter's user, without the families that node_exporter has itself, nothing left beside it."""
    ledger, target = tmp_path / "a.jsonl", tmp_path / "out" / "preempt.prom"
    target.parent.mkdir()
    ledger.write_text(LINE % 1 + LINE % 2, encoding="utf-8")
    done = export(str(ledger), "--textfile", str(target), "--log.level=error")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert enqueued(target) == 2
    assert target.stat().st_mode & 0o777 == 0o644
    text = target.read_text(encoding="utf-8")
    assert "process_" not in text and "python_info" not in text and text.endswith("\n")
    assert [path.name for path in target.parent.iterdir()] == ["preempt.prom"]


def test_every_so_often_it_writes_what_is_new_until_told_to_stop(tmp_path: Path) -> None:
    """A line that comes later shows in the file; SIGTERM ends it with 0."""
    ledger, target = tmp_path / "a.jsonl", tmp_path / "preempt.prom"
    ledger.write_text(LINE % 1, encoding="utf-8")
    arguments = [str(ledger), "--textfile", str(target), "--every", "100ms"]
    with subprocess.Popen([*COMMAND, *arguments], stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for(target, 1)
            with ledger.open("a", encoding="utf-8") as file:
                file.write(LINE % 2)
            wait_for(target, 2)
            process.send_signal(signal.SIGTERM)
            said = process.communicate(timeout=DEADLINE_S)[1]
            assert (process.returncode, said.count("stopped; lines read: 2, bad lines: 0")) == (0, 1)
        finally:
            process.kill()


def test_a_write_that_fails_for_a_while_ends_nothing(tmp_path: Path) -> None:
    """The folder vanishes and comes back, as a disk is full and then is not: said once, and written again."""
    ledger, target = tmp_path / "a.jsonl", tmp_path / "out" / "preempt.prom"
    target.parent.mkdir()
    ledger.write_text(LINE % 1, encoding="utf-8")
    arguments = [str(ledger), "--textfile", str(target), "--every", "50ms"]
    with subprocess.Popen([*COMMAND, *arguments], stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for(target, 1)
            target.parent.rename(tmp_path / "away")
            assert process.stderr is not None
            said = next(line for line in process.stderr if "no such folder" in line)
            assert said.endswith("; tried again each time\n")
            time.sleep(0.3)
            (tmp_path / "away" / target.name).unlink()
            (tmp_path / "away").rename(target.parent)
            wait_for(target, 1)
            process.send_signal(signal.SIGTERM)
            rest = process.communicate(timeout=DEADLINE_S)[1]
            assert process.returncode == 0
            assert "no such folder" not in rest and "written again" in rest
        finally:
            process.kill()


def wait_for(target: Path, count: int) -> None:
    give_up_s = time.monotonic() + DEADLINE_S
    while not target.exists() or enqueued(target) != count:
        assert time.monotonic() < give_up_s


def test_what_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    """A missing folder, a name that node_exporter would not read, a time that is none: exit 2."""
    (tmp_path / "a.jsonl").write_text(LINE % 1, encoding="utf-8")
    ledger = str(tmp_path / "a.jsonl")
    for arguments in (
        ["--textfile", str(tmp_path / "none" / "x.prom")],
        ["--textfile", str(tmp_path / "none" / "x.prom"), "--log.level=info"],
        ["--textfile", str(tmp_path / "x.txt")],
        ["--textfile", str(tmp_path / "x.prom"), "--every", "soon"],
        ["--textfile", str(tmp_path / "x.prom"), "--every", "0"],
    ):
        done = export(ledger, "--log.level=error", *arguments)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr


def test_where_nothing_can_be_removed_either_the_write_is_what_failed(tmp_path: Path) -> None:
    """As on a file system that became read-only, here of a name with no room beside it: said of the textfile."""
    (tmp_path / "a.jsonl").write_text(LINE % 1, encoding="utf-8")
    target = tmp_path / ("x" * 250 + ".prom")
    done = export(str(tmp_path / "a.jsonl"), "--log.level=error", "--textfile", str(target))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert f"{target}: not written: " in done.stderr


@pytest.mark.parametrize("flag", ["--textfile", "--state.file"])
def test_what_is_no_regular_file_is_refused_before_anything_is_read(tmp_path: Path, flag: str) -> None:
    """A pipe, which stands for devices and sockets too, is one line; it is still one, and nothing lies beside it."""
    (tmp_path / "a.jsonl").write_text(LINE % 1, encoding="utf-8")
    folder = tmp_path / "folder"
    folder.mkdir()
    pipe = folder / "x.prom"
    os.mkfifo(pipe)
    arguments = {"--textfile": str(tmp_path / "y.prom")} | {flag: str(pipe)}
    done = export(str(tmp_path / "a.jsonl"), *(word for pair in arguments.items() for word in pair))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert f"{flag} {pipe}: a pipe, not a regular file" in done.stderr
    assert pipe.is_fifo()
    assert [path.name for path in folder.iterdir()] == ["x.prom"]
    assert not (tmp_path / "y.prom").exists()


def test_a_link_in_the_collector_s_folder_stays_one(tmp_path: Path) -> None:
    """Whoever may not write there is given a link that leads elsewhere: what it leads to is replaced."""
    (tmp_path / "a.jsonl").write_text(LINE % 1, encoding="utf-8")
    collected, kept = tmp_path / "collected", tmp_path / "kept"
    collected.mkdir()
    kept.mkdir()
    link, state = collected / "preempt.prom", collected / "state"
    link.symlink_to("../kept/preempt.prom")
    state.symlink_to("../kept/state")
    for _ in range(2):
        done = export(str(tmp_path / "a.jsonl"), "--textfile", str(link), "--state.file", str(state))
        assert done.returncode == 0, done.stderr
        assert (link.is_symlink(), state.is_symlink(), enqueued(kept / "preempt.prom")) == (True, True, 1)
    assert sorted(path.name for path in collected.iterdir()) == ["preempt.prom", "state"]
    assert (kept / "state.previous").exists()
