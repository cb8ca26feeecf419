"""Real exporters to ask while they work: ours and mtail, each a process on a port of the system's choice."""

import contextlib
import http.client
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

START_DEADLINE_S = 120


class Exporter:
    """A running exporter, asked over one kept connection."""

    def __init__(self, port: int, process: "subprocess.Popen[bytes]") -> None:
        """`port` on loopback."""
        self.process = process
        self.port = port
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def scrape(self) -> bytes:
        """The body of `/metrics`."""
        self._connection.request("GET", "/metrics")
        return self._connection.getresponse().read()

    def is_up(self) -> bool:
        """Whether it answers at all."""
        try:
            self.scrape()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            return False
        return True

    def processor_s(self) -> float:
        """Processor seconds used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def resident_bytes(self) -> int:
        """Resident memory."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1]) * 4096


@contextlib.contextmanager
def ours(*arguments: str) -> Iterator[Exporter]:
    """Our exporter on these ledgers, caught up."""
    port = free_port()
    command = [sys.executable, "-m", "preempt_exporter.cli.main", "serve", "--log.level=error"]
    with _running([*command, f"--web.listen-address=127.0.0.1:{port}", *arguments], port) as exporter:
        _wait(lambda: re.search(rb"^preempt_exporter_ready 1$", exporter.scrape(), re.M) is not None)
        yield exporter


@contextlib.contextmanager
def mtail(program: Path, log: Path) -> Iterator[Exporter]:
    """mtail as it comes, on one log."""
    port = free_port()
    command = ["mtail", "--logtostderr", f"--progs={program}", f"--logs={log}", "--address=127.0.0.1"]
    with _running([*command, f"--port={port}"], port) as exporter:
        yield exporter


@contextlib.contextmanager
def _running(command: list[str], port: int) -> Iterator[Exporter]:
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            exporter = Exporter(port, process)
            _wait(exporter.is_up)
            yield exporter
        finally:
            process.terminate()
            process.wait()


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(condition: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + START_DEADLINE_S
    while not condition():
        if time.monotonic() > give_up_s:
            raise TimeoutError("it never came up")
        time.sleep(0.02)


def p99(values: list[float]) -> float:
    """The 99th percentile, by rank."""
    return sorted(values)[min(len(values) - 1, int(0.99 * len(values)))]
