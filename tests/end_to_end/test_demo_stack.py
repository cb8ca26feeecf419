"""`make demo-stack`'s process: shows the stack, ends by itself, leaves nothing behind."""

import os
import subprocess
import sys
from pathlib import Path

from tools.demo_stack import ROOT

from tests.running_exporter import clean_environment


def shown(folder: Path, seconds: str) -> "subprocess.CompletedProcess[str]":
    """Run it with its temporary files in `folder`, so that its processes can be told by their arguments."""
    environ = clean_environment({"DEMO_SECONDS": seconds, "TMPDIR": str(folder)})
    words = [sys.executable, "-m", "tools.demo_stack"]
    return subprocess.run(words, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=180, check=False)


def processes_of(folder: Path) -> list[str]:
    """Command lines that name the folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            found += [line] * (str(folder) in line)
    return found


def test_it_shows_the_stack_and_leaves_nothing(tmp_path: Path) -> None:
    """Addresses and the way back are said, the batch is told of, then every process and file is gone."""
    done = shown(tmp_path, "6")
    assert done.returncode == 0, done.stderr
    assert "act resume --lane free" in done.stdout
    assert " live | " in done.stdout
    assert done.stdout.endswith("demo ended; nothing is left running\n")
    assert processes_of(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_make_brings_only_what_is_started() -> None:
    """Who wants to see it needs neither a browser nor a database server: no tool of the tests is brought."""
    rehearsed = subprocess.run(
        ["make", "--dry-run", "demo-stack"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    brought = [line for line in rehearsed.stdout.splitlines() if "tools/" in line and "make-venv" not in line]
    assert [line.split()[-1] for line in brought] == ["prometheus", "prometheus-alertmanager"]


def test_seconds_that_are_none_are_refused(tmp_path: Path) -> None:
    """One line that names the variable, and exit status 2."""
    done = shown(tmp_path, "soon")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "DEMO_SECONDS: 'soon' is not a number of seconds\n"
