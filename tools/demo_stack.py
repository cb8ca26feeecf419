#!/usr/bin/env python3
"""`make demo-stack`: everything at once, with the shipped configurations: a batch that loses its slots, the exporter,
Prometheus with the rules, Alertmanager, and the control service that acts on what they say.

All of it listens on loopback, on ports that the system chooses, and ends with Ctrl-C or after `DEMO_SECONDS`. Scrapes
and timers are quicker than the shipped ones; addresses and timers are all that is changed.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
COMMAND = [sys.executable, "-m", "preempt_exporter.cli.main"]
PAST_NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))
START_PATIENCE_S = 60.0
STOP_PATIENCE_S = 15.0
TELL_EVERY_S = 3.0
DRILL_LANES = ("free:hosts=4,slots=3,share=0.7,preemptions-per-hour={}", "paid:hosts=6,slots=3,share=0.3")
PREEMPTIONS_PER_HOUR = 300
# Below so many jobs the router trusts require_slack_s, so that in this demo the switches alone decide.
ROUTER_YML = """\
router:
  lanes:
    - {name: free, max_attempts: 2, checkpoint: required, idempotency_key: "{{ job_id }}"}
    - {name: paid, idempotency_key: "{{ job_id }}"}
  admission: {require_slack_s: 60, require_checkpoint: true}
  thresholds: {completed_jobs_min: 1000}
"""


class BrokeDown(Exception):
    """A part of the stack did not start or ended by itself; says which and what it wrote."""


class Stack:
    """The running parts: where they are, and what they say."""

    def __init__(self, folder: Path) -> None:
        """Everything that is written lies in `folder`."""
        self.folder = folder
        self.ledger = folder / "attempts.jsonl"
        self.ports = dict(zip(("exporter", "control", "prometheus", "alertmanager"), free_ports(4), strict=True))
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def url(self, part: str) -> str:
        """Of `exporter`, `control`, `prometheus` or `alertmanager`."""
        return f"http://127.0.0.1:{self.ports[part]}"

    def token(self) -> str:
        """What the control service asks for."""
        return Path(f"{self.ledger}.control-token").read_text(encoding="utf-8").strip()

    def start(self, part: str, command: Sequence[str | Path], ready: Callable[[], bool] = lambda: True) -> None:
        """Start a process and wait until `ready`. Raises BrokeDown."""
        with (self.folder / f"{part}.log").open("wb") as log:
            # A session of its own: Ctrl-C reaches this process alone, which then stops all in order.
            self.processes[part] = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        give_up_s = time.monotonic() + START_PATIENCE_S
        pause = threading.Event()
        while not ready():
            self.check()
            if time.monotonic() > give_up_s:
                raise BrokeDown(f"{part} was not ready within {START_PATIENCE_S:.0f} s: {self.log(part)}")
            pause.wait(0.1)

    def check(self) -> None:
        """Raises BrokeDown if a part has ended."""
        for part, process in self.processes.items():
            if process.poll() is not None:
                raise BrokeDown(f"{part} ended with {process.returncode}: {self.log(part)}")

    def log(self, part: str) -> str:
        """The end of what a part wrote."""
        return (self.folder / f"{part}.log").read_text(encoding="utf-8", errors="replace")[-2000:]

    def stop(self, part: str) -> None:
        """End one part."""
        process = self.processes.pop(part)
        process.terminate()
        try:
            process.wait(STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def metric(self, name: str, *labels: str) -> float:
        """The sum of the exporter's samples of that name that have all these labels, as in `lane="free"`."""
        body = (get(f"{self.url('exporter')}/metrics") or b"").decode()
        found = [line for line in body.splitlines() if line.startswith((f"{name}{{", f"{name} "))]
        return sum(float(line.rsplit(" ", 1)[1]) for line in found if all(label in line for label in labels))

    def firing(self) -> list[dict[str, str]]:
        """Labels of the alerts that fire in Prometheus."""
        told = json.loads(get(f"{self.url('prometheus')}/api/v1/alerts") or b'{"data": {"alerts": []}}')
        return [alert["labels"] for alert in told["data"]["alerts"] if alert["state"] == "firing"]

    def drains(self) -> list[dict[str, Any]]:
        """The ledger's lines of lane switches."""
        lines = self.ledger.read_bytes().splitlines() if self.ledger.exists() else []
        words = (b'"lane_drain"', b'"lane_resume"')
        return [json.loads(line) for line in lines if any(word in line for word in words)]


@contextmanager
def running_stack(
    folder: Path, pager: str, start_rules: Callable[[Stack], None] | None = None, *, act: bool = True
) -> Iterator[Stack]:
    """Start everything but the batch.

    `pager`: where the shipped receivers for people lead. `start_rules` starts what scrapes and evaluates (default:
    Prometheus). `act`: control acts; else it only says what it would do.
    """
    stack = Stack(folder)
    with ExitStack() as undo:
        undo.callback(lambda: [stack.stop(part) for part in reversed(list(stack.processes))])
        _start_ours(stack, act)
        _start_alertmanager(stack, pager)
        (start_rules or start_prometheus)(stack)
        yield stack


def start_batch(stack: Stack, preemptions_per_hour: int = PREEMPTIONS_PER_HOUR) -> None:
    """The drill: a fake batch whose free lane is taken back so often."""
    words = [word for lane in DRILL_LANES for word in ("--lane", lane.format(preemptions_per_hour))]
    stack.start("drill", [*COMMAND, "drill", "live", "--ledger", stack.ledger, "--run", "demo", *words])


def _start_ours(stack: Stack, act: bool) -> None:
    router = stack.folder / "router.yml"
    router.write_text(ROUTER_YML, encoding="utf-8")
    control = [*COMMAND, "control", "--ledger", stack.ledger, "--router.config", router]
    control += [f"--web.listen-address=127.0.0.1:{stack.ports['control']}", "--task.deadline-ms=3600000"]
    stack.start("control", [*control, "--act"] if act else control, lambda: _is_ready(stack.url("control")))
    serve = [*COMMAND, "serve", stack.ledger, f"--web.listen-address=127.0.0.1:{stack.ports['exporter']}"]
    stack.start("exporter", serve, lambda: _is_ready(stack.url("exporter")))


def _start_alertmanager(stack: Stack, pager: str) -> None:
    there = stack.folder / "alertmanager.yml"
    text = (ROOT / "deploy" / "alertmanager" / "alertmanager.yml").read_text(encoding="utf-8")
    changes = {
        "http://127.0.0.1:9095": pager,
        "http://127.0.0.1:8080": stack.url("control"),
        "/etc/alertmanager/preempt-exporter.token": f"{stack.ledger}.alertmanager-token",
        "group_wait: 30s": "group_wait: 2s",
        "group_wait: 10s": "group_wait: 1s",
        "group_interval: 5m": "group_interval: 5s",
    }
    there.write_text(replaced(text, changes), encoding="utf-8")
    words = [program("prometheus-alertmanager", "alertmanager"), f"--config.file={there}", "--cluster.listen-address="]
    words += [f"--storage.path={stack.folder / 'alertmanager'}"]
    words += [f"--web.listen-address=127.0.0.1:{stack.ports['alertmanager']}"]
    stack.start("alertmanager", words, lambda: _is_ready(stack.url("alertmanager")))


def prometheus_yml(stack: Stack) -> Path:
    """The shipped configuration with this stack's addresses."""
    there = stack.folder / "prometheus.yml"
    text = (ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text(encoding="utf-8")
    changes = {
        "127.0.0.1:9877": f"127.0.0.1:{stack.ports['exporter']}",
        "127.0.0.1:9093": f"127.0.0.1:{stack.ports['alertmanager']}",
        "rules.d/*.yml": f"{ROOT / 'rules'}/*.yml",
        "_interval: 15s": "_interval: 1s",
    }
    there.write_text(replaced(text, changes), encoding="utf-8")
    return there


def start_prometheus(stack: Stack) -> None:
    """It scrapes, evaluates and tells Alertmanager."""
    words = [
        program("prometheus"),
        f"--config.file={prometheus_yml(stack)}",
        f"--storage.tsdb.path={stack.folder / 'prometheus'}",
    ]
    words += [f"--web.listen-address=127.0.0.1:{stack.ports['prometheus']}"]
    query = urllib.parse.urlencode({"query": "preempt_exporter_ready == 1"})
    asked = f"{stack.url('prometheus')}/api/v1/query?{query}"
    stack.start("prometheus", words, lambda: b'"value"' in (get(asked) or b""))


def replaced(text: str, changes: dict[str, str]) -> str:
    """A shipped file with other values; one that is not in it is a mistake."""
    for old, new in changes.items():
        if old not in text:
            raise ValueError(f"the shipped file does not have {old!r}")
        text = text.replace(old, new)
    return text


def program(*names: str) -> str:
    """The first of these that is installed. Raises BrokeDown."""
    for name in names:
        if found := shutil.which(name):
            return found
    raise BrokeDown(f"{names[0]} is not installed: make stack-tools")


def get(url: str) -> bytes | None:
    """The body of an answer; None if there is none."""
    try:
        with PAST_NO_PROXY.open(url, timeout=5) as answer:
            return bytes(answer.read())
    except OSError:
        return None


def _is_ready(url: str) -> bool:
    return get(f"{url}/-/ready") is not None


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


@contextmanager
def people(hear: Callable[[str, dict[str, Any]], None]) -> Iterator[str]:
    """Whoever the receivers for people lead to; `hear` gets the receiver and the notification. Yields the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            hear(self.path.strip("/"), json.loads(body))

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _print_notification(receiver: str, payload: dict[str, Any]) -> None:
    if payload["status"] == "firing":
        first = payload["alerts"][0]
        print(f"  {receiver:<16} {first['labels']['action']}: {first['annotations']['summary']}", flush=True)


def _where(stack: Stack) -> str:
    command = ".venv/bin/preempt-exporter"
    return f"""
A batch runs over two lanes; the free one is taken back again and again. Alerts that ask for it drain the lane.

  page          {stack.url("exporter")}/
  Prometheus    {stack.url("prometheus")}/alerts
  Alertmanager  {stack.url("alertmanager")}/
  control       {stack.url("control")}  (token: {stack.ledger}.control-token)
  dashboard     dashboards/preempt-exporter.json, for a Grafana with this Prometheus
  way back      {command} act resume --lane free --control {stack.url("control")} \\
                    --token-file {stack.ledger}.control-token

Ctrl-C ends it. What alerts tell people appears below.
"""


def _tell(stack: Stack, stop: threading.Event, seconds: float | None) -> None:
    end_s = None if seconds is None else time.monotonic() + seconds
    seen = 0
    while not stop.wait(TELL_EVERY_S) and (end_s is None or time.monotonic() < end_s):
        stack.check()
        preempted = stack.metric("preempt_events_total", 'event="preempt"')
        told = (
            f"{stack.metric('preempt_tasks'):3.0f} live",
            f"{preempted:3.0f} preempted",
            f"{stack.metric('preempt_rejects_total'):3.0f} rejected",
            f"{len({labels['alertname'] for labels in stack.firing()}):2d} alerts fire",
            f"{stack.metric('preempt_lane_draining'):.0f} lanes drain",
        )
        print(" | ".join(told), flush=True)
        for line in stack.drains()[seen:]:
            seen += 1
            print(
                f"  {line['event']:<16} {line['lane']}: {line.get('action', '')} {line.get('reason', '')}", flush=True
            )


def main() -> int:
    """Show it; 0 unless something broke down."""
    seconds = os.environ.get("DEMO_SECONDS", "")
    if seconds and not re.fullmatch(r"\d+(\.\d+)?", seconds):
        print(f"DEMO_SECONDS: '{seconds}' is not a number of seconds", file=sys.stderr)
        return 2
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with tempfile.TemporaryDirectory(prefix="preempt-stack-") as folder, people(_print_notification) as pager:
        try:
            print("Starting six programs ...", flush=True)
            with running_stack(Path(folder), pager) as stack:
                start_batch(stack)
                print(_where(stack), flush=True)
                _tell(stack, stop, float(seconds) if seconds else None)
        except BrokeDown as error:
            print(f"the demo broke down: {error}", file=sys.stderr)
            return 1
    print("demo ended; nothing is left running")
    return 0


if __name__ == "__main__":
    sys.exit(main())
