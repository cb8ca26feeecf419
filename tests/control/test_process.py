"""`preempt-exporter control` as a process."""

import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path

from preempt_exporter.client import ControlClient
from preempt_exporter.control.tokens import read_token
from preempt_exporter.ledger.decode import decode_chunk
from tests.control.running_control import control_process, word_of
from tests.running_exporter import clean_environment, wait_until


def test_sigterm_ends_it_with_a_snapshot_and_without_its_socket(tmp_path: Path) -> None:
    """Exit status 0; what it knew is put down for the next start."""
    ledger = tmp_path / "l.jsonl"
    with control_process(ledger, "--unix", str(tmp_path / "s")) as running:
        client = ControlClient(running.url, read_token(tmp_path / "l.jsonl.control-token"))
        client.task("t", "admit")
        assert running.end(signal.SIGTERM) == 0
    assert not (tmp_path / "s").exists()
    assert b'"task_id":"t"' in (tmp_path / "l.jsonl.gate").read_bytes()


def test_where_a_new_token_lies_is_said_at_every_log_level(tmp_path: Path) -> None:
    """A first start with `--log.level error` names both files; a second one generates none."""
    (tmp_path / "taken").touch()
    words = ["control", "--ledger", str(tmp_path / "l"), "--unix", str(tmp_path / "taken"), "--log.level", "error"]

    def said() -> str:
        command = [sys.executable, "-m", "preempt_exporter.cli.main", *words]
        ended = subprocess.run(command, capture_output=True, text=True, env=clean_environment({}), check=False)
        assert ended.returncode == 2
        return ended.stderr

    first = said()
    assert str(tmp_path / "l.control-token") in first
    assert str(tmp_path / "l.alertmanager-token") in first
    assert "token" not in said().replace(str(tmp_path), "")


def test_a_mode_and_a_drain_survive_kill_9(tmp_path: Path) -> None:
    """The next process admits nothing either, until it is told to."""
    ledger = tmp_path / "l.jsonl"
    with control_process(ledger) as running:
        client = ControlClient(running.url, read_token(tmp_path / "l.jsonl.control-token"))
        client.ask("POST", "/admin/drain", {"lane": "free"})
        client.ask("POST", "/admin/mode", {"mode": "reject_preempt_budget"})
        running.end()
    with control_process(ledger) as running:
        client = ControlClient(running.url, read_token(tmp_path / "l.jsonl.control-token"))
        assert client.task("t", "admit", lane="free")["reason"] == "preempt_budget"
        client.ask("POST", "/admin/mode", {"mode": "normal"})
        assert client.task("t", "admit", lane="free")["reason"] == "drain_mode"
        client.ask("POST", "/admin/resume", {"lane": "free"})
        assert client.task("t", "admit", lane="free")["outcome"] == "admitted"


def test_what_the_disk_does_not_take_is_not_acknowledged(tmp_path: Path) -> None:
    """A ledger that cannot grow answers 503 and decides nothing; the task is as it was."""
    ledger = tmp_path / "l.jsonl"
    line = b'{"event":"enqueue","task_id":"x","ts_ms":5,"id":"h-0"}\n'
    # Above all other files of the service, so that the ledger alone is at the limit.
    limit = 4 << 20
    ledger.write_bytes(line * (limit // len(line)))
    words = [sys.executable, "-m", "preempt_exporter.cli.main", "control", "--ledger", str(ledger)]
    process = subprocess.Popen(
        [*words, "--insecure-loopback", "--unix", str(tmp_path / "s")],
        stderr=subprocess.DEVNULL,
        env=clean_environment(),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    try:
        wait_until((tmp_path / "s").exists, lambda: "it does not listen")
        client = ControlClient(f"unix://{tmp_path / 's'}", patience_s=0.5)
        answers = [_status_of(client, f"t{number}") for number in range(2)]
        assert answers == [503, 503]
        assert client.ask("GET", "/admin/lanes")["lanes"] == []
    finally:
        process.kill()
        process.wait()
    # What the limit cut off is torn, and whole is what was there before.
    assert {word_of(record) for record in decode_chunk(ledger.read_bytes()).records} == {"enqueue"}


def _status_of(client: ControlClient, task: str) -> int:
    status, _ = client._try("POST", f"/v1/tasks/{task}/admit", b'{"deadline_ms":5000}', {})
    return status


def test_clients_that_hang_up_in_the_middle_leave_no_trace_in_the_log(tmp_path: Path) -> None:
    """Half a head, half a body, a body with no reader: the service goes on, and says nothing of it."""
    with control_process(tmp_path / "l.jsonl", "--insecure-loopback") as running:
        host, port = running.url.removeprefix("http://").split(":")
        said = running.log()
        head = b"POST /v1/tasks/t/admit HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"
        for sent in (head, head + b"\r\n{", head + b"Origin: x\r\n\r\n{"):
            with socket.create_connection((host, int(port)), timeout=10) as client:
                client.sendall(sent)
        client_of_all = ControlClient(running.url)
        assert client_of_all.task("t", "admit")["outcome"] == "admitted"
        assert running.end(signal.SIGTERM) == 0
        assert running.log() == said
