"""A real Alertmanager with the shipped configuration, and a webhook listener that counts what it is told."""

import json
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SHIPPED = Path(__file__).parents[2] / "deploy" / "alertmanager" / "alertmanager.yml"
PATIENCE_S = 60


class Listener:
    """Keeps every notification: the receiver's path and Alertmanager's payload."""

    def __init__(self) -> None:
        self.notifications: list[tuple[str, dict[str, Any]]] = []
        self.last_heard_s = time.monotonic()
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                listener.last_heard_s = time.monotonic()
                listener.notifications.append((self.path.strip("/"), json.loads(body)))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def told(self, receiver: str) -> list[str]:
        """Alert names with lane, one per notification to `receiver`, sorted."""
        return sorted(
            f"{payload['groupLabels'].get('alertname')} {payload['groupLabels'].get('lane', '')}".strip()
            for path, payload in self.notifications
            if path == receiver
        )

    def wait_until_quiet(self, at_least: int, quiet_s: float) -> None:
        """Until `at_least` notifications came and none for `quiet_s` after them; fails when patience ends."""
        deadline = time.monotonic() + PATIENCE_S
        woken = threading.Event()
        while time.monotonic() < deadline:
            if len(self.notifications) >= at_least and time.monotonic() - self.last_heard_s > quiet_s:
                return
            woken.wait(0.05)
        raise AssertionError(f"{len(self.notifications)} notifications within {PATIENCE_S} s, expected {at_least}")

    def close(self) -> None:
        """Stop listening."""
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Alertmanager:
    """Speaks to a running Alertmanager."""

    def __init__(self, url: str, listener: Listener) -> None:
        self.url = url
        self.listener = listener

    def fire(self, *alerts: dict[str, str]) -> None:
        """Post alerts, given by their labels, as Prometheus does."""
        body = json.dumps([{"labels": labels, "annotations": {"summary": "x" * 100}} for labels in alerts]).encode()
        request = urllib.request.Request(
            f"{self.url}/api/v2/alerts", data=body, headers={"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert answer.status == 200

    def states(self) -> dict[str, list[str]]:
        """Alert name and severity to the states of its alerts."""
        with urllib.request.urlopen(f"{self.url}/api/v2/alerts", timeout=30) as answer:
            alerts = json.load(answer)
        states: dict[str, list[str]] = {}
        for alert in alerts:
            name = f"{alert['labels']['alertname']} {alert['labels']['severity']}"
            states.setdefault(name, []).append(alert["status"]["state"])
        return states


@contextmanager
def alertmanager(
    folder: Path,
    group_wait_s: int = 1,
    group_interval_s: int = 2,
    *,
    control_url: str | None = None,
    control_token: str = "secret",
) -> Iterator[Alertmanager]:
    """The shipped configuration with this test's addresses and quicker timers, on ports that the system chose.

    `control_url`: a real control service, instead of the listener.
    """
    program = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    assert program, "install Debian's package prometheus-alertmanager, or put alertmanager on PATH"
    listener = Listener()
    token = folder / "token"
    token.write_text(control_token, encoding="utf-8")
    text = SHIPPED.read_text(encoding="utf-8")
    for old, new in (
        ("http://127.0.0.1:9095/", f"http://127.0.0.1:{listener.port}/"),
        ("http://127.0.0.1:8080/alertmanager", control_url or f"http://127.0.0.1:{listener.port}/control"),
        ("/etc/alertmanager/preempt-exporter.token", str(token)),
        ("group_wait: 30s", f"group_wait: {group_wait_s}s"),
        ("group_wait: 10s", f"group_wait: {group_wait_s}s"),
        ("group_interval: 5m", f"group_interval: {group_interval_s}s"),
    ):
        assert old in text
        text = text.replace(old, new)
    (folder / "alertmanager.yml").write_text(text, encoding="utf-8")
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        port = chosen.getsockname()[1]
    with (folder / "alertmanager.log").open("wb") as log:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={folder / 'alertmanager.yml'}",
                f"--storage.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--cluster.listen-address=",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_until_ready(url, process, folder / "alertmanager.log")
        yield Alertmanager(url, listener)
    finally:
        process.terminate()
        process.wait(timeout=30)
        listener.close()


def _wait_until_ready(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    pause = threading.Event()
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=5):
                return
        except (urllib.error.URLError, ConnectionError):
            pause.wait(0.1)
    raise AssertionError(f"Alertmanager did not start: {log.read_text(encoding='utf-8')[-2000:]}")
