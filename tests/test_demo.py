"""`make demo`'s process: ends by itself or at Ctrl-C, tells what it saw, leaves nothing behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.running_exporter import DEADLINE_S, clean_environment, wait_until

DEMO = [sys.executable, "-m", "preempt_exporter.demo"]


@contextmanager
def demo(folder: Path, seconds: str = "") -> Iterator["subprocess.Popen[str]"]:
    """The demo with its temporary files in `folder`, so that its processes can be told by their arguments."""
    environ = clean_environment({"TMPDIR": str(folder), "DEMO_SECONDS": seconds, "PYTHONUNBUFFERED": "1"})
    with (folder / "said").open("w") as out:
        process = subprocess.Popen(DEMO, stdout=out, stderr=subprocess.STDOUT, text=True, env=environ)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for leftover in processes_of(folder):
            os.kill(leftover, signal.SIGKILL)


def processes_of(folder: Path) -> list[int]:
    """Processes that were given a path below `folder`."""
    found = []
    for arguments in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(folder).encode() in arguments.read_bytes():
                found.append(int(arguments.parent.name))
        except OSError:
            continue
    return found


def said(folder: Path) -> str:
    return (folder / "said").read_text()


def test_it_ends_by_itself_with_a_summary(tmp_path: Path) -> None:
    """`DEMO_SECONDS=3`: exit 0, where to look, what was seen and written; no process and no file is left."""
    with demo(tmp_path, "3") as process:
        wait_until(lambda: len(processes_of(tmp_path)) == 2, lambda: said(tmp_path))
        assert process.wait(DEADLINE_S) == 0, said(tmp_path)
        assert processes_of(tmp_path) == []
    text = said(tmp_path)
    for words in ("/metrics", "attempts.jsonl", "live", "drill live wrote", "enqueue", "nothing is left running"):
        assert words in text, text
    assert "Traceback" not in text
    assert [path.name for path in tmp_path.iterdir()] == ["said"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_cleanly_when_told(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C or SIGTERM at any moment, even before anything is up: exit 0, no process and no file is left."""
    with demo(tmp_path) as process:
        wait_until(lambda: len(processes_of(tmp_path)) == 2, lambda: said(tmp_path))
        process.send_signal(number)
        assert process.wait(DEADLINE_S) == 0, said(tmp_path)
        assert processes_of(tmp_path) == []
    assert "Traceback" not in said(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["said"]


def test_a_wrong_number_of_seconds_is_one_line() -> None:
    """What is no number is refused by name with exit 2."""
    for seconds in ("soon", "-1", "nan"):
        ended = subprocess.run(
            DEMO, env=clean_environment({"DEMO_SECONDS": seconds}), capture_output=True, text=True, check=False
        )
        assert ended.returncode == 2
        assert ended.stderr == f"DEMO_SECONDS: '{seconds}' is not a number of seconds\n"


def test_a_breakdown_is_told(tmp_path: Path) -> None:
    """When the exporter dies while the demo runs, the demo ends with 1 and its log, and stops the drill too."""
    with demo(tmp_path) as process:
        wait_until(lambda: "/metrics" in said(tmp_path), lambda: said(tmp_path))
        (exporter,) = (pid for pid in processes_of(tmp_path) if b"serve" in Path(f"/proc/{pid}/cmdline").read_bytes())
        os.kill(exporter, signal.SIGKILL)
        assert process.wait(DEADLINE_S) == 1
        assert processes_of(tmp_path) == []
    assert "broke down: exit status -9" in said(tmp_path)
