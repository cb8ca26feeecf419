"""The logrotate file, run by the real logrotate under a real exporter: no line is lost and none is counted twice."""

import getpass
import grp
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

from preempt_exporter.ledger.records import Enqueue
from preempt_exporter.ledger.writer import LedgerWriter
from tests.running_exporter import RunningExporter, serving, wait_until

SHIPPED = Path(__file__).parents[2] / "deploy" / "logrotate" / "preempt-exporter"
TASKS_BETWEEN_ROTATIONS = 20


def configuration(folder: Path) -> Path:
    """The shipped file for ledgers in `folder`, as the user who runs the test."""
    owner = f"{getpass.getuser()} {grp.getgrgid(os.getgid()).gr_name}"
    text = SHIPPED.read_text(encoding="utf-8").replace("/var/lib/batch", str(folder))
    text, found = re.subn(r"(su|create 0640) batch batch", rf"\1 {owner}", text)
    assert found == 2
    if os.getuid() != 0:
        text = re.sub(r"(?m)^ *su .*\n", "", text)
    there = folder.parent / "logrotate.conf"
    there.write_text(text, encoding="utf-8")
    there.chmod(0o644)
    return there


def rotate(configured: Path) -> None:
    """Rotate now, whatever the size."""
    program = shutil.which("logrotate", path=f"{os.environ['PATH']}:/usr/sbin")
    assert program, "install Debian's package logrotate"
    words = [program, "--force", "--state", configured.with_name("logrotate.state"), configured]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


class Batch:
    """A ledger with one writer that keeps it open over every rotation."""

    def __init__(self, folder: Path) -> None:
        self.ledger = folder / "ledgers" / "attempts.jsonl"
        self.ledger.parent.mkdir()
        self.ledger.parent.chmod(0o755)
        self.configured = configuration(self.ledger.parent)
        self.writer = LedgerWriter(self.ledger, fsync=False)
        self.written = 0

    def write(self) -> None:
        """More tasks that begin."""
        for _ in range(TASKS_BETWEEN_ROTATIONS):
            self.written += 1
            self.writer.append(Enqueue(task_id=f"t-{self.written}", ts_ms=time.time_ns() // 1_000_000))

    def rotate(self) -> None:
        """Rotate in a second of its own: seconds name the rotated files."""
        second = int(time.time())
        # The system's coarse clock, which logrotate reads, lags behind by up to a tick.
        wait_until(lambda: time.time() > second + 1.05, lambda: "the clock stands still")
        before = len(self.forms())
        rotate(self.configured)
        assert len(self.forms()) == before + 1

    def forms(self) -> list[str]:
        """The names of the rotated forms."""
        return sorted(path.name for path in self.ledger.parent.iterdir() if path != self.ledger)


def wait_until_all_counted(exporter: RunningExporter, batch: Batch) -> None:
    """Every line once, in every count that could tell otherwise."""
    exporter.wait_for_value(batch.written, "preempt_ledger_lines_total")
    exporter.wait_for_value(batch.written, "preempt_events_total", lane="default", event="enqueue")
    for metric in ("preempt_ledger_duplicate_lines_total", "preempt_ledger_suspected_loss_total"):
        assert exporter.value(metric) == 0


def test_every_line_is_counted_once_over_rotations(tmp_path: Path) -> None:
    """A writer that keeps its file, three rotations and a compression under a running exporter."""
    batch = Batch(tmp_path)
    batch.write()
    with serving(batch.ledger.parent) as exporter:
        for rotations in (1, 2, 3):
            batch.rotate()
            batch.write()
            wait_until_all_counted(exporter, batch)
            assert exporter.value("preempt_ledger_rotations_total") == rotations
        assert exporter.value("preempt_ledger_truncations_total") == 0
    assert [name.endswith(".gz") for name in batch.forms()] == [True, True, False]
    assert all(re.fullmatch(r"attempts\.jsonl-\d+(\.gz)?", name) for name in batch.forms())


def test_exporter_that_was_down_finds_what_was_rotated_away(tmp_path: Path) -> None:
    """Stopped in the middle of a file that is then rotated twice and compressed, it goes on where it was.

    The new file may get the inode of the one that was compressed: that looks like a truncation and is counted as one.
    """
    batch = Batch(tmp_path)
    state = f"--state.file={tmp_path / 'state'}"
    batch.write()
    with serving(batch.ledger.parent, state) as exporter:
        wait_until_all_counted(exporter, batch)
        assert exporter.stop() == 0
    batch.write()
    batch.rotate()
    batch.write()
    batch.rotate()
    batch.write()
    assert [name.endswith(".gz") for name in batch.forms()] == [True, False]
    with serving(batch.ledger.parent, state) as exporter:
        wait_until_all_counted(exporter, batch)
