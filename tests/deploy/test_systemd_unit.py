"""The unit files, as systemd's own tools read them; what they start are real commands."""

import importlib
import re
import shlex
import shutil
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path

import pytest

from preempt_exporter.cli.main import COMMANDS

UNITS = sorted((Path(__file__).parents[2] / "deploy" / "systemd").glob("*.service"))
COMMAND = Path(sys.executable).with_name("preempt-exporter")
EXPOSURE_IN_TENTHS = 15
"""What `systemd-analyze security` gives now; 100 is the worst."""


def analyzed(unit: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run systemd-analyze on a unit."""
    program = shutil.which("systemd-analyze")
    assert program, "install Debian's package systemd"
    return subprocess.run([program, *words, unit], capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(params=UNITS, ids=lambda path: path.name)
def unit(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Each unit, with the command where this machine has it."""
    shipped: Path = request.param
    there = tmp_path / shipped.name
    text, found = re.subn(r"(?m)^ExecStart=\S+", f"ExecStart={COMMAND}", shipped.read_text(encoding="utf-8"))
    assert found == 1
    there.write_text(text, encoding="utf-8")
    return there


def test_systemd_understands_every_line(unit: Path) -> None:
    """`systemd-analyze verify` has nothing to say: no unknown key, no bad value, a command that is there."""
    done = analyzed(unit, "verify", "--man=no")
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_verify_would_notice(unit: Path) -> None:
    """The check above can fail: a key that systemd does not know is told."""
    unit.write_text(unit.read_text(encoding="utf-8").replace("ProtectClock", "ProtectClocks"), encoding="utf-8")
    assert "ProtectClocks" in analyzed(unit, "verify", "--man=no").stderr


def test_unit_is_hardened(unit: Path) -> None:
    """`systemd-analyze security` rates the exposure no worse than it was when this was written."""
    rated = analyzed(unit, "security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE_IN_TENTHS}")
    assert rated.returncode == 0, rated.stdout


def test_command_line_is_ours(unit: Path) -> None:
    """What the unit starts is a command line that the command takes; a flag that it does not know would be noticed."""
    (line,) = re.findall(r"(?m)^ExecStart=(.*)$", unit.read_text(encoding="utf-8"))
    words = shlex.split(line)[1:]
    assert words[0] in COMMANDS
    parser = ArgumentParser(exit_on_error=False)
    importlib.import_module(f"preempt_exporter.cli.{words[0]}").add_arguments(parser)
    assert parser.parse_known_args(words[1:])[1] == []
    assert parser.parse_known_args([*words[1:], "--no-such-flag"])[1] == ["--no-such-flag"]
