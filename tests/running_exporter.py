"""`preempt-exporter serve` as a real process on a port that the system chose, and conditions to wait for."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from preempt_exporter.cli.main import main

DEADLINE_S = 60.0
LOOK_EVERY_S = 0.05
PAST_NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))
COMMAND = [sys.executable, "-m", "preempt_exporter.cli.main"]
SERVING = re.compile(r"serving (http://\S+)/metrics")

SETTINGS_FROM_ENVIRONMENT = (
    "LEDGER_PATH",
    "DEADLINE_MS",
    "TASK_BUDGET",
    "QUEUE_AGE_FRAC",
    "RESTART_FRAC",
    "MAX_PREEMPTS",
)


class Scraped(dict[tuple[str, frozenset[tuple[str, str]]], float]):
    """Values by sample name and labels."""

    def value(self, name: str, **labels: str) -> float | None:
        """The value of exactly this series; None where there is none."""
        return self.get((name, frozenset(labels.items())))

    def names(self) -> set[str]:
        """Every sample name."""
        return {name for name, _ in self}


class RunningExporter:
    """The process, what it said, and what it serves."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.said: list[str] = []
        self.url = ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)

    def get(self, path: str) -> tuple[int, str]:
        """Status and body."""
        try:
            with PAST_NO_PROXY.open(self.url + path, timeout=DEADLINE_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def scrape(self) -> Scraped:
        """What `/metrics` says now."""
        families = text_string_to_metric_families(self.get("/metrics")[1])
        samples = (sample for family in families for sample in family.samples)
        return Scraped({(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples})

    def value(self, name: str, **labels: str) -> float | None:
        """One series of the scrape of now."""
        return self.scrape().value(name, **labels)

    def wait_for_value(self, expected: float | None, name: str, **labels: str) -> None:
        """Until a series has this value (None: is gone)."""
        seen: list[float | None] = []

        def has_it() -> bool:
            seen.append(self.value(name, **labels))
            return seen[-1] == expected

        wait_until(has_it, lambda: f"{name}{labels}: {seen[-1]} instead of {expected}; it said {self.log()}")

    def wait_until_ready(self) -> None:
        """Until it has caught up."""
        wait_until(lambda: self.get("/-/ready")[0] == 200, lambda: f"not ready; it said {self.log()}")

    def wait_until_said(self, words: str) -> None:
        """Until the log holds these words."""
        wait_until(lambda: words in self.log(), lambda: f"it did not say {words!r} but {self.log()}")

    def log(self) -> str:
        """Everything on standard error so far."""
        return "".join(self.said)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to stop; its exit status."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Until it has ended; its exit status."""
        status = self.process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)
        return status


def wait_until(condition: Callable[[], bool], otherwise: Callable[[], str]) -> None:
    """Look until `condition` holds; fail with what `otherwise` says once the deadline has passed."""
    give_up_s = time.monotonic() + DEADLINE_S
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < give_up_s, otherwise()
        pause.wait(LOOK_EVERY_S)


@contextmanager
def serving(
    *arguments: object, environ: dict[str, str] | None = None, command: list[str] = COMMAND, cwd: Path | None = None
) -> Iterator[RunningExporter]:
    """Start it, wait for its URL, and leave no process behind."""
    words = [*command, "serve", *map(str, arguments), "--web.listen-address=127.0.0.1:0"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=clean_environment(environ), cwd=cwd)
    exporter = RunningExporter(process)
    try:
        wait_until(
            lambda: SERVING.search(exporter.log()) is not None or process.poll() is not None,
            lambda: f"no URL in {exporter.log()}",
        )
        found = SERVING.search(exporter.log())
        assert found, f"it ended with {process.poll()}: {exporter.log()}"
        exporter.url = found[1]
        yield exporter
    finally:
        process.kill()
        exporter.wait()
        assert process.stderr is not None
        process.stderr.close()


def told(
    *arguments: object, environ: dict[str, str] | None = None, stdin: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Run any command to its end."""
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        timeout=DEADLINE_S,
        env=clean_environment(environ),
        check=False,
    )


def exit_status(*arguments: str) -> int:
    """Of a command run in this process; what it says goes to the test's own standard output and error."""
    try:
        return main(arguments)
    except SystemExit as ended:
        return int(ended.code or 0)


def clean_environment(changes: dict[str, str] | None = None) -> dict[str, str]:
    """This environment without what would set something, but for `changes`."""
    kept = {name: value for name, value in os.environ.items() if name not in SETTINGS_FROM_ENVIRONMENT}
    return kept | (changes or {})


def is_one_line(text: str) -> bool:
    """One line, and no traceback."""
    return text.count("\n") == 1 and text.endswith("\n") and "Traceback" not in text
