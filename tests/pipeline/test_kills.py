"""Exactly once: kill -9 at any instant, while a writer writes and the ledger rotates."""

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from argparse import Namespace
from pathlib import Path

from preempt_exporter.cli.folding import cold_scrape
from preempt_exporter.clock import SystemClock
from preempt_exporter.config import Config, resolve
from preempt_exporter.metrics.line_counters import difference, line_counters

KILLS = 100
SHORTEST_LIFE_S = 0.05
SETTLE_DEADLINE_S = 60
LINES_PER_FILE = 400
SEED = 20260


class Writer(threading.Thread):
    """Appends lines, in two writes each now and then, and rotates by rename or by copy and truncate."""

    def __init__(self, ledger: Path) -> None:
        super().__init__(name="writer")
        self.ledger = ledger
        self.stop = threading.Event()
        self.lines = 0
        self.rotations = 0
        self._rng = random.Random(SEED)

    def run(self) -> None:
        while not self.stop.is_set():
            self._write_file()
            self._rotate()

    def _write_file(self) -> None:
        with self.ledger.open("ab", buffering=0) as file:
            for _ in range(LINES_PER_FILE):
                line = self._line()
                if self._rng.random() < 0.1:
                    cut = self._rng.randrange(1, len(line))
                    file.write(line[:cut])
                    file.write(line[cut:])
                else:
                    file.write(line)
                self.lines += 1
                if self.stop.wait(0.0005):
                    return

    def _line(self) -> bytes:
        number, task = self.lines, self._rng.randrange(50)
        if self._rng.random() < 0.02:
            return b'{"event": "bad", "number": %d}\n' % number
        kinds = (
            '"heartbeat"',
            f'"checkpoint", "checkpoint_tokens": {number}',
            '"preempt", "wasted_tokens": 3, "restart_tokens": 3, "preempts": 1',
            '"complete", "output_tokens": 5, "restart_tokens": 0',
        )
        return f'{{"event": {self._rng.choice(kinds)}, "task_id": "t{task}", "ts_ms": {number}}}\n'.encode()

    def _rotate(self) -> None:
        self.rotations += 1
        rotated = sorted(self.ledger.parent.glob("ledger.jsonl.*"), key=lambda path: -int(path.suffix[1:]))
        for path in rotated:
            path.rename(path.with_suffix(f".{int(path.suffix[1:]) + 1}"))
        first = self.ledger.with_name("ledger.jsonl.1")
        if self._rng.random() < 0.5:
            shutil.copyfile(self.ledger, first)
            os.truncate(self.ledger, 0)
        else:
            self.ledger.rename(first)


def start(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.pipeline.reading_process"]
    paths = [str(folder / name) for name in ("ledger.jsonl", "state", "scrape")]
    return subprocess.Popen([*command, *paths], stderr=subprocess.DEVNULL)


def seconds_to_the_first_state(folder: Path) -> float:
    """How long a process takes here and now until it has written its state; it is killed then."""
    begun_s = time.monotonic()
    process = start(folder)
    while not written(folder / "state") and time.monotonic() - begun_s < SETTLE_DEADLINE_S:
        time.sleep(0.005)  # between two looks at a condition with a deadline
    process.kill()
    process.wait()
    return time.monotonic() - begun_s


def scrape_at_the_end(folder: Path) -> str:
    """Let a last process read everything, and stop it cleanly."""
    size = sum(path.stat().st_size for path in folder.glob("ledger.jsonl*"))
    process = start(folder)
    give_up_s = time.monotonic() + SETTLE_DEADLINE_S
    text = ""
    while time.monotonic() < give_up_s:
        if process.poll() is not None:
            process = start(folder)
        threading.Event().wait(2.0)
        process.send_signal(signal.SIGTERM)
        assert process.wait(SETTLE_DEADLINE_S) == 0
        text = (folder / "scrape").read_text(encoding="utf-8")
        if f"preempt_ledger_bytes_total {size}\n" in text:
            break
    return text


def test_a_hundred_kills_count_nothing_twice_and_lose_nothing(tmp_path: Path) -> None:
    """The line counters after 100 kills at random instants equal those of a cold read of everything ever written."""
    writer = Writer(tmp_path / "ledger.jsonl")
    rng = random.Random(SEED)
    states_written = 0
    writer.start()
    try:
        longest_life_s = 2 * seconds_to_the_first_state(tmp_path)
        for _ in range(KILLS):
            before = written(tmp_path / "state")
            process = start(tmp_path)
            try:
                process.wait(rng.uniform(SHORTEST_LIFE_S, longest_life_s))
                raise AssertionError(f"it ended by itself: {process.returncode}")
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            states_written += written(tmp_path / "state") != before
    finally:
        writer.stop.set()
        writer.join()
    writer.ledger.touch()  # it may have stopped right after a rename
    warm = line_counters(scrape_at_the_end(tmp_path))
    cold = line_counters(cold_scrape([str(tmp_path / "ledger.jsonl")], config(), SystemClock().now_ms()))
    assert [found.sentence() for found in difference(warm, cold, warm)] == []
    assert cold["preempt_ledger_lines_total", ()] == writer.lines
    assert writer.rotations > 5
    assert states_written > KILLS // 5, "the processes were killed before they did anything"


def written(state: Path) -> int:
    """When the state was last replaced; 0 before the first time."""
    return state.stat().st_mtime_ns if state.exists() else 0


def config() -> Config:
    """The settings without flags, file or environment."""
    return resolve(Namespace(), {})
