"""A control service on a loopback port, served by a thread of the test or by a process of its own."""

import http.client
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from preempt_exporter.client import ControlClient
from preempt_exporter.clock import Clock, SystemClock
from preempt_exporter.control.doors import Keys
from preempt_exporter.control.serve import ControlSettings, serve_control
from preempt_exporter.gate.settings import GateSettings
from preempt_exporter.ledger.decode import decode_chunk
from preempt_exporter.ledger.records import EVENT_NAMES, EVENT_TYPES, Attempt, Record
from preempt_exporter.settings import TaskDefaults
from tests.running_exporter import clean_environment, wait_until

DEADLINE_S = 30.0
TOKEN = "the-token-of-the-test"
WEBHOOK_TOKEN = "alertmanager-only"
GATE = GateSettings(defaults=TaskDefaults(deadline_ms=3_600_000, task_budget=100_000))


class Answer(Struct):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)


class RunningControl:
    """Where it is, and how to speak to it."""

    def __init__(self, url: str, ledger: Path) -> None:
        self.url = url
        self.ledger = ledger
        self.client = ControlClient(url, TOKEN, patience_s=DEADLINE_S)

    def request(
        self,
        method: str,
        path: str,
        body: bytes | str | dict[str, Any] = b"",
        *,
        token: str | None = TOKEN,
        **headers: str,
    ) -> Answer:
        """One plain request; `headers` with `_` for `-`."""
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=DEADLINE_S)
        sent = json.dumps(body).encode() if isinstance(body, dict) else body
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            given.setdefault("Authorization", f"Bearer {token}")
        try:
            connection.request(method, path, sent, given)
            response = connection.getresponse()
            told = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, told, response.read())
        finally:
            connection.close()

    def post(self, path: str, body: bytes | str | dict[str, Any] = b"", **headers: str) -> Answer:
        """A POST with the token."""
        return self.request("POST", path, body, **headers)

    def records(self) -> list[Record]:
        """What the ledger holds; a bad line is an error."""
        return records_on(self.ledger)

    def events(self) -> list[str]:
        """The words of its lines."""
        return [word_of(record) for record in self.records()]


def records_on(ledger: Path) -> list[Record]:
    """A ledger's lines; a bad line is an error."""
    decoded = decode_chunk(ledger.read_bytes() if ledger.exists() else b"", at_file_start=True)
    assert decoded.bad == []
    return decoded.records


def word_of(record: Record) -> str:
    """A record's word in the ledger."""
    return "attempt" if isinstance(record, Attempt) else EVENT_NAMES[EVENT_TYPES.index(type(record))]


def settings_for(ledger: Path, **changes: Any) -> ControlSettings:
    """A service with the test's tokens on a port that the system chooses."""
    given: dict[str, Any] = {
        "ledger": ledger,
        "keys": Keys(token=TOKEN, webhook_token=WEBHOOK_TOKEN),
        "gate": GATE,
        "listen_addresses": ("127.0.0.1:0",),
    }
    return ControlSettings(**(given | changes))


@contextmanager
def control(folder: Path, clock: Clock | None = None, **changes: Any) -> Iterator[RunningControl]:
    """Serve in a thread; stopped and joined on the way out."""
    ledger = folder / "l.jsonl"
    listening: Queue[list[str] | BaseException] = Queue()
    stop = threading.Event()

    def work() -> None:
        try:
            serve_control(
                settings_for(ledger, **changes), clock or SystemClock(), stop=stop, on_listening=listening.put
            )
        except BaseException as error:
            listening.put(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        urls = listening.get(timeout=DEADLINE_S)
        if isinstance(urls, BaseException):
            raise urls
        yield RunningControl(urls[0], ledger)
    finally:
        stop.set()
        thread.join(DEADLINE_S)
        assert not thread.is_alive(), "the service did not stop"


class ControlProcess:
    """`preempt-exporter control` as users start it."""

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

    def log(self) -> str:
        """Everything on standard error so far."""
        return "".join(self.said)

    def end(self, number: signal.Signals = signal.SIGKILL) -> int:
        """Signal it; its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return status


@contextmanager
def control_process(
    ledger: Path, *arguments: str, environ: dict[str, str] | None = None, address: str = "127.0.0.1:0"
) -> Iterator[ControlProcess]:
    """Start the command, wait for its address, and leave no process behind."""
    words = [sys.executable, "-m", "preempt_exporter.cli.main", "control", "--ledger", str(ledger), *arguments]
    if "--unix" not in arguments:
        words.append(f"--web.listen-address={address}")
    process = subprocess.Popen(
        words,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment({"DEADLINE_MS": "3600000", "TASK_BUDGET": "100000", **(environ or {})}),
    )
    running = ControlProcess(process)
    try:
        wait_until(
            lambda: "control listens on " in running.log() or process.poll() is not None,
            lambda: f"it does not listen; it said {running.log()}",
        )
        assert "control listens on " in running.log(), running.log()
        running.url = running.log().partition("control listens on ")[2].split()[0]
        yield running
    finally:
        running.end()


def is_private(path: Path) -> bool:
    """Whether nobody but the owner may read or write the file."""
    return path.stat().st_mode & 0o777 == 0o600
