"""`run --control`: a real service decides, and the wrapper says the same as it would say to a ledger of its own."""

import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from preempt_exporter.cli.main import main
from tests.control.running_control import ControlProcess, control_process
from tests.wrapper.wrapped import COMMAND, PATIENCE_S, Wrapped, environment, wait_until


@pytest.fixture
def wrapped(tmp_path: Path) -> Wrapped:
    return Wrapped(tmp_path)


@pytest.fixture
def service(wrapped: Wrapped) -> Iterator[ControlProcess]:
    with control_process(wrapped.ledger) as service:
        yield service


def through(service_url: str, wrapped: Wrapped) -> tuple[str, ...]:
    return ("--control", service_url, "--lane", "free", "--run", "r", "--token-file", f"{wrapped.ledger}.control-token")


def test_the_service_writes_the_lines(wrapped: Wrapped, service: ControlProcess) -> None:
    """Admission and end are the service's lines, by its owner's name; status and refusals are as without it."""
    words = through(service.url, wrapped)
    assert wrapped.run("--task", "a", *words, command=["sh", "-c", 'test "$PREEMPT_CONTROL"']).returncode == 0
    assert wrapped.run("--task", "b", *words, command=["sh", "-c", "exit 3"]).returncode == 3
    assert wrapped.run("--task", "a", *words, command=["true"]).returncode == 75
    assert wrapped.events("a") == ["admit", "complete"]
    assert wrapped.events("b") == ["admit", "drain"]
    assert {line["id"].partition("-")[0] for line in wrapped.lines()} == {"gate"}


def test_sigterm_is_a_preemption(wrapped: Wrapped, service: ControlProcess) -> None:
    """The service hears of the lost slot, and admits the task again."""
    words, begun = through(service.url, wrapped), wrapped.folder / "begun"
    process = wrapped.start("--task", "t", *words, command=["sh", "-c", f"touch {begun}; exec sleep 600"])
    wait_until(begun.exists, "the command has begun")
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 128 + signal.SIGTERM
    assert wrapped.run("--task", "t", *words, command=["true"]).returncode == 0
    assert wrapped.events("t") == ["admit", "preempt", "admit", "complete"]


def test_a_killed_wrapper_is_declared_lost_where_it_died(wrapped: Wrapped, service: ControlProcess) -> None:
    """This host knows that its attempt died and says so; another host, which knows nothing, is told to wait."""
    words, begun = through(service.url, wrapped), wrapped.folder / "begun"
    process = wrapped.start("--task", "t", *words, command=["sh", "-c", f"touch {begun}; exec sleep 600"])
    wait_until(begun.exists, "the command has begun")
    process.kill()
    process.wait(PATIENCE_S)
    other_host = [*COMMAND, "run", "--task", "t", *words, "--", "true"]
    elsewhere = environment(XDG_STATE_HOME=str(wrapped.folder / "other"))
    refused = subprocess.run(other_host, env=elsewhere, capture_output=True, timeout=PATIENCE_S, check=False)
    assert (refused.returncode, b"already_running" in refused.stderr) == (75, True)
    assert wrapped.events("t") == ["admit"]
    assert wrapped.run("--task", "t", *words, command=["true"]).returncode == 0
    assert wrapped.events("t") == ["admit", "preempt", "admit", "complete"]


def test_an_end_that_the_service_never_heard_of_is_a_loss_to_the_next_start(
    wrapped: Wrapped, service: ControlProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service dies under the attempt and is back only after the last word: this host knows that nobody runs."""
    monkeypatch.setattr("preempt_exporter.wrapper.controlled_slot.PATIENCE_S", 0.2)
    monkeypatch.setattr("preempt_exporter.wrapper.attempt.LAST_WORD_PATIENCE_S", 0.2)
    monkeypatch.setenv("XDG_STATE_HOME", str(wrapped.folder / "state"))
    monkeypatch.delenv("LEDGER_PATH", raising=False)
    kill = ["kill", "-9", str(service.process.pid)]
    assert main(["run", "--task", "t", *through(service.url, wrapped), "--", *kill]) == 0
    service.end()
    with control_process(wrapped.ledger) as again:
        assert main(["run", "--task", "t", *through(again.url, wrapped), "--", "true"]) == 75
        same_address = service.url.removeprefix("http://")
    with control_process(wrapped.ledger, address=same_address) as again:
        assert main(["run", "--task", "t", *through(again.url, wrapped), "--", "true"]) == 0
    assert wrapped.events("t") == ["admit", "preempt", "admit", "complete"]


def test_without_the_service_nothing_starts(wrapped: Wrapped) -> None:
    """An address where nobody answers: 75 after its patience, and the command was not started."""
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
    marker = wrapped.folder / "started"
    ended = wrapped.run("--task", "t", "--control", url, command=["touch", str(marker)])
    assert (ended.returncode, marker.exists(), ended.stderr.count(b"\n")) == (75, False, 1)


def test_a_wrong_token_is_an_error(wrapped: Wrapped, service: ControlProcess) -> None:
    """What trying again cannot mend is status 2 in one line."""
    token = wrapped.folder / "token"
    token.write_text("not-the-token-at-all\n")
    ended = wrapped.run("--task", "t", "--control", service.url, "--token-file", str(token), command=["true"])
    assert (ended.returncode, ended.stderr.count(b"\n"), wrapped.lines()) == (2, 1, [])
