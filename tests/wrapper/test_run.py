"""`run`: real processes, real signals, and the lines that they leave."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from preempt_exporter.cli.main import main
from preempt_exporter.clock import SystemClock
from preempt_exporter.ledger.records import Drain, Enqueue, Preempt, Reject
from preempt_exporter.ledger.writer import LedgerWriter
from preempt_exporter.wrapper.task_gate import gate_for_one_task
from tests.wrapper.wrapped import COMMAND, Wrapped, environment, wait_until

LIMITS = ("--deadline", "5h", "--budget", "100000", "--lane", "free")


@pytest.fixture
def wrapped(tmp_path: Path) -> Wrapped:
    return Wrapped(tmp_path)


def touching(path: Path, then: str) -> list[str]:
    """A shell command that says it has begun by making a file."""
    return ["sh", "-c", f"touch {path}; {then}"]


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def is_gone(pid: int) -> str:
    """A shell command that says whether a process has ended."""
    return f"grep -qs '^State:.Z' /proc/{pid}/status || ! kill -0 {pid} 2> /dev/null"


def test_exit_0_is_complete(wrapped: Wrapped) -> None:
    """A command that succeeds leaves enqueue, admit and complete, with limits, lane and ids; status 0; no lock."""
    ended = wrapped.run("--task", "t", "--run", "r", *LIMITS, command=["true"])
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert wrapped.events() == ["enqueue", "admit", "complete"]
    admit = wrapped.lines()[1]
    assert (admit["deadline_ms"], admit["task_budget"], admit["lane"], admit["run"]) == (
        18_000_000,
        100_000,
        "free",
        "r",
    )
    assert len({line["id"] for line in wrapped.lines()}) == 3
    assert list(Path(f"{wrapped.ledger}.locks").iterdir()) == []


def test_another_exit_is_drain_and_passes_through(wrapped: Wrapped) -> None:
    """A command that fails is drained, its status is the wrapper's, and a second start does not run it again."""
    assert wrapped.run("--task", "t", *LIMITS, command=["sh", "-c", "exit 3"]).returncode == 3
    assert wrapped.events() == ["enqueue", "admit", "drain"]
    marker = wrapped.folder / "ran"
    again = wrapped.run("--task", "t", *LIMITS, command=touching(marker, "true"))
    assert (again.returncode, marker.exists()) == (75, False)
    assert b"ended" in again.stderr
    assert wrapped.run("--task", "t", "--new-life", *LIMITS, command=touching(marker, "true")).returncode == 0
    assert wrapped.events() == ["enqueue", "admit", "drain", "enqueue", "admit", "complete"]


def test_a_task_without_deadline_is_enqueued_once(wrapped: Wrapped) -> None:
    """Without a deadline the one enqueue line and a heartbeat say that it runs: nobody invents a deadline."""
    assert wrapped.run("--task", "t", command=["true"]).returncode == 0
    assert [line["event"] for line in wrapped.lines()] == ["enqueue", "heartbeat", "complete"]


def test_sigterm_is_a_preemption(wrapped: Wrapped) -> None:
    """SIGTERM reaches the command, which saves what it has; the waste is counted from what it last reported."""
    begun = wrapped.folder / "begun"

    def emit(event: str, tokens: str) -> str:
        return " ".join([*COMMAND, "emit", event, 'task_id="$PREEMPT_TASK_ID" run="$PREEMPT_RUN"', tokens])

    saved, further = emit("checkpoint", "checkpoint_tokens=100"), emit("heartbeat", "output_tokens=130")
    script = f"trap '{saved}; {further}; exit 9' TERM; {emit('checkpoint', 'checkpoint_tokens=40')}; touch {begun}; "
    script += "while true; do sleep 0.05; done"
    process = wrapped.start(
        "--task", "t", "--run", "r", "--prompt-tokens", "800", *LIMITS, command=["sh", "-c", script]
    )
    wait_until(begun.exists, "the command has begun")
    process.terminate()
    assert process.wait(30) == 9
    assert wrapped.events() == ["enqueue", "admit", "checkpoint", "checkpoint", "preempt"]
    last = wrapped.lines()[-1]
    assert (last["wasted_tokens"], last["restart_tokens"], last["preempts"]) == (830, 830, 1)
    assert "inferred" not in last


def test_a_command_that_sigterm_ends_alone_is_preempted_too(wrapped: Wrapped) -> None:
    """A host that terminates every process of the slot may reach the command first: that is no failure of the task."""
    ended = wrapped.run("--task", "t", *LIMITS, command=["sh", "-c", "kill -TERM $$"])
    assert ended.returncode == 128 + signal.SIGTERM
    assert wrapped.events()[-1] == "preempt"


def test_a_shell_whose_command_sigterm_ended_is_preempted_too(wrapped: Wrapped) -> None:
    """A shell says it with 143: the status that starts the attempt again must not stand beside a drain."""
    ended = wrapped.run("--task", "t", *LIMITS, command=["sh", "-c", "sh -c 'kill -TERM $$'; exit $?"])
    assert ended.returncode == 128 + signal.SIGTERM
    assert wrapped.events()[-1] == "preempt"


def test_the_status_passes_through_where_standard_output_is_closed(wrapped: Wrapped) -> None:
    """A daemon closes it; that is no failure of the command."""
    words = [*COMMAND, "run", "--ledger", str(wrapped.ledger), "--task", "t", "--", "true"]
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", *words]
    ended = subprocess.run(shell, env=environment(), stderr=subprocess.PIPE, timeout=30, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_heartbeat_of_centuries_ends_no_attempt(wrapped: Wrapped) -> None:
    """What select(2) refuses to wait for is not waited for at once."""
    begun = wrapped.folder / "begun"
    command = touching(begun, "sleep 1.5")
    assert wrapped.run("--task", "t", "--heartbeat", "99999999999h", *LIMITS, command=command).returncode == 0
    assert wrapped.events()[-1] == "complete"


def test_sigkill_of_the_command_is_drain(wrapped: Wrapped) -> None:
    """A command that is killed while its wrapper lives failed; the status says which signal."""
    ended = wrapped.run("--task", "t", *LIMITS, command=["sh", "-c", "kill -KILL $$"])
    assert ended.returncode == 128 + signal.SIGKILL
    assert wrapped.events()[-1] == "drain"


def test_other_signals_pass_through(wrapped: Wrapped) -> None:
    """SIGUSR1 is the command's to understand, and preempts nothing."""
    begun = wrapped.folder / "begun"
    script = f"trap 'exit 0' USR1; touch {begun}; while true; do sleep 0.05; done"
    process = wrapped.start("--task", "t", *LIMITS, command=["sh", "-c", script])
    wait_until(begun.exists, "the command has begun")
    process.send_signal(signal.SIGUSR1)
    assert process.wait(30) == 0
    assert wrapped.events()[-1] == "complete"


def test_a_second_start_meanwhile_writes_nothing(wrapped: Wrapped) -> None:
    """While one attempt runs, another start exits 75 and `admit` says no, and the ledger does not change."""
    begun = wrapped.folder / "begun"
    process = wrapped.start("--task", "t", "--heartbeat", "1h", *LIMITS, command=touching(begun, "exec sleep 600"))
    wait_until(begun.exists, "the command has begun")
    wait_until(lambda: any(line["event"] == "heartbeat" for line in wrapped.lines()), "the promise was made")
    before = wrapped.ledger.read_bytes()
    second = wrapped.run("--task", "t", *LIMITS, command=["true"])
    assert (second.returncode, second.stdout) == (75, b"")
    assert wrapped.admit("--task", "t").returncode == 1
    assert wrapped.ledger.read_bytes() == before
    process.terminate()
    process.wait(30)


@pytest.mark.parametrize("heartbeat", ["100ms", "1h"])
def test_an_attempt_that_was_declared_lost_and_lives_is_complete(wrapped: Wrapped, heartbeat: str) -> None:
    """Somebody takes a stopped wrapper for dead; it goes on, and what it finishes is not paid for once more."""
    begun, go = wrapped.folder / "begun", wrapped.folder / "go"
    script = f"until test -e {go}; do sleep 0.02; done"
    process = wrapped.start("--task", "t", "--heartbeat", heartbeat, *LIMITS, command=touching(begun, script))
    wait_until(begun.exists, "the command has begun")
    lost = Preempt(task_id="t", ts_ms=SystemClock().now_ms(), wasted_tokens=0, restart_tokens=0, preempts=1)
    with LedgerWriter(wrapped.ledger) as writer:
        writer.append(lost)
    if heartbeat == "100ms":
        wait_until(lambda: wrapped.lines()[-1]["event"] == "heartbeat", "it is heard of again")
    go.touch()
    assert process.wait(30) == 0
    assert wrapped.events() == ["enqueue", "admit", "preempt", "complete"]
    assert wrapped.run("--task", "t", *LIMITS, command=["true"]).returncode == 75


@pytest.mark.parametrize("end", ["drain", "reject"])
def test_a_clock_that_was_set_back_hides_no_life(wrapped: Wrapped, end: str) -> None:
    """After an end that is stamped in the future, a life begins, ends and is remembered as with any other clock."""
    hour_ms = 3_600_000
    enqueued_ms = SystemClock().now_ms() + hour_ms
    ended: Drain | Reject = Drain(task_id="t", ts_ms=enqueued_ms + 1, action="fail_task_not_replay")
    if end == "reject":
        ended = Reject(task_id="t", ts_ms=enqueued_ms + 1, reason="drain_mode")
    with LedgerWriter(wrapped.ledger) as writer:
        writer.append(Enqueue(task_id="t", ts_ms=enqueued_ms), ended)
    again = wrapped.run("--task", "t", "--new-life", *LIMITS, command=["true"])
    assert (again.returncode, again.stderr) == (0, b"")
    assert wrapped.events()[-2:] == ["admit", "complete"]
    assert wrapped.run("--task", "t", *LIMITS, command=["true"]).returncode == 75
    wrapped.ledger.rename(f"{wrapped.ledger}.1")
    assert wrapped.run("--task", "t", *LIMITS, command=["true"]).returncode == 75


def test_sigkill_of_the_wrapper(wrapped: Wrapped) -> None:
    """Everything of a killed attempt ends, and the next start says the preemption that nobody saw before it runs."""
    pids = wrapped.folder / "pids"
    script = f"sleep 600 & echo $! $$ > {pids}.new; mv {pids}.new {pids}; wait"
    process = wrapped.start("--task", "t", "--prompt-tokens", "10", *LIMITS, command=["sh", "-c", script])
    wait_until(pids.exists, "the command has begun")
    grandchild, child = (int(word) for word in pids.read_text().split())
    process.kill()
    process.wait(30)
    wait_until(lambda: not is_running(child), "the kernel has ended the command with its wrapper")
    assert is_running(grandchild)
    again = wrapped.run("--task", "t", *LIMITS, command=["sh", "-c", is_gone(grandchild)])
    assert again.returncode == 0, again.stderr
    assert wrapped.events() == ["enqueue", "admit", "preempt", "admit", "complete"]
    preempt = wrapped.lines()[-3]
    assert (preempt["inferred"], preempt["wasted_tokens"], preempt["preempts"]) == (True, 10, 1)


@pytest.fixture
def hangups_heard() -> Iterator[None]:
    """Also where the tests were begun by `nohup`, which what they start inherits."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hangups_heard")
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGHUP])
def test_what_a_command_left_running_is_ended_before_the_next_attempt(wrapped: Wrapped, end: signal.Signals) -> None:
    """A shell that dies of its signal leaves its own child, which may save its work until the next attempt starts."""
    pids = wrapped.folder / "pids"
    script = f"sleep 600 & echo $! > {pids}.new; mv {pids}.new {pids}; wait"
    process = wrapped.start("--task", "t", *LIMITS, command=["sh", "-c", script])
    wait_until(pids.exists, "the command has begun")
    left = int(pids.read_text())
    process.send_signal(end)
    assert process.wait(30) == 128 + end
    assert is_running(left)
    again = wrapped.run("--task", "t", "--new-life", *LIMITS, command=["sh", "-c", is_gone(left)])
    assert (again.returncode, again.stderr.count(b"\n")) == (0, 1), again.stderr
    assert wrapped.events()[1:3] == ["admit", "preempt" if end is signal.SIGTERM else "drain"]
    assert wrapped.events()[-2:] == ["admit", "complete"]
    assert list(Path(f"{wrapped.ledger}.locks").iterdir()) == []


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_slot_lost_in_a_draining_lane_fails_the_task(wrapped: Wrapped, end: signal.Signals) -> None:
    """With the `preempt`, whether the attempt says it or the next start does; that start is told why, and 75."""
    begun = wrapped.folder / "begun"
    words = ("--task", "t", "--lane", "free", *LIMITS)
    process = wrapped.start(*words, command=["sh", "-c", f"touch {begun}; exec sleep 600"])
    wait_until(begun.exists, "the command has begun")
    Path(f"{wrapped.ledger}.switches").write_text('{"version":1,"lanes":{"free":{"action":"drain_and_reject"}}}')
    process.send_signal(end)
    process.wait(30)
    again = wrapped.run(*words, command=["true"])
    assert (again.returncode, (b"drain_mode" in again.stderr) == (end is signal.SIGKILL)) == (75, True)
    assert wrapped.events() == ["enqueue", "admit", "preempt", "reject", "drain"]


def test_a_third_replay_never_starts(wrapped: Wrapped) -> None:
    """After a reboot the history comes from the ledger, rotated forms included: reject, drain, and 75 for good."""
    for number in (1, 2):
        process = wrapped.start(
            "--task", "t", *LIMITS, command=touching(wrapped.folder / f"begun{number}", "exec sleep 600")
        )
        wait_until((wrapped.folder / f"begun{number}").exists, "the command has begun")
        process.kill()
        process.wait(30)
        wrapped.ledger.rename(f"{wrapped.ledger}.{3 - number}")
    third = wrapped.run("--task", "t", *LIMITS, command=["true"])
    assert third.returncode == 75
    assert b"reject_preempt_budget" in third.stderr
    assert wrapped.events() == ["preempt", "reject", "drain"]


def test_an_orderly_history_by_hand_is_obeyed(wrapped: Wrapped) -> None:
    """Lines of a harness without ids are the task's history all the same: too old is too old."""
    wrapped.ledger.write_text('{"event":"enqueue","task_id":"t","ts_ms":1000,"deadline_ms":60000}\n')
    refused = wrapped.run("--task", "t", command=["true"])
    assert (refused.returncode, wrapped.events()) == (75, ["enqueue", "reject"])
    assert wrapped.lines()[-1]["reason"] == "slack_zero"


def test_what_the_service_enqueued_is_refused(wrapped: Wrapped) -> None:
    """A task of the gate behind `control` is the gate's: nothing is started and nothing written."""
    wrapped.ledger.write_text('{"event":"enqueue","task_id":"t","ts_ms":1000,"id":"gate-1-0"}\n')
    before = wrapped.ledger.read_bytes()
    refused = wrapped.run("--task", "t", command=["true"])
    assert (refused.returncode, wrapped.ledger.read_bytes()) == (75, before)
    assert b"not_owner" in refused.stderr


def test_the_task_is_named_by_the_scheduler(wrapped: Wrapped) -> None:
    """A Slurm array element keeps its name over a requeue; a Kubernetes index is its own; without either: usage."""
    wrapped.run(*LIMITS, command=["true"], SLURM_ARRAY_JOB_ID="77", SLURM_ARRAY_TASK_ID="3", SLURM_RESTART_COUNT="1")
    wrapped.run(*LIMITS, "--run", "job", command=["true"], JOB_COMPLETION_INDEX="0")
    assert wrapped.events("77_3") == wrapped.events("0") == ["enqueue", "admit", "complete"]
    unnamed = wrapped.run(*LIMITS, command=["true"])
    assert (unnamed.returncode, unnamed.stderr.count(b"\n")) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "command", "says"),
    [
        (["--deadline", "soon"], ["true"], b"--deadline"),
        (["--budget", "-1"], ["true"], b"--budget"),
        (["--heartbeat", "0"], ["true"], b"--heartbeat"),
        (["--lane", "x" * 65], ["true"], b"--lane"),
        ([], ["no-such-command"], b"no-such-command"),
        ([], [], b"after --"),
    ],
)
def test_usage_is_refused_before_anything_is_written(
    wrapped: Wrapped, arguments: list[str], command: list[str], says: bytes
) -> None:
    """Wrong flags and unknown commands are one line and status 2, and the task is not touched."""
    ended = wrapped.run("--task", "t", *arguments, command=command)
    assert (ended.returncode, ended.stderr.count(b"\n"), wrapped.lines()) == (2, 1, [])
    assert says in ended.stderr


def test_a_stopped_run_starts_nothing_until_it_is_resumed(wrapped: Wrapped) -> None:
    """A new task of a stopped run waits in the queue, is not rejected, and starts once the run is resumed."""
    switches = Path(f"{wrapped.ledger}.switches")
    switches.write_text('{"version":1,"stopped_runs":{"r":{}}}')
    for _ in range(2):
        stopped = wrapped.run("--task", "t", "--run", "r", *LIMITS, command=["true"])
        assert (stopped.returncode, b"run_stopped" in stopped.stderr) == (75, True)
    assert wrapped.events() == ["enqueue"]
    switches.unlink()
    assert wrapped.run("--task", "t", "--run", "r", *LIMITS, command=["true"]).returncode == 0
    assert wrapped.events() == ["enqueue", "admit", "complete"]


def test_a_broken_switch_file_starts_nothing(wrapped: Wrapped) -> None:
    """A drain may be written there: what cannot be read admits nobody, and says which file to repair."""
    Path(f"{wrapped.ledger}.switches").write_text("{")
    marker = wrapped.folder / "started"
    ended = wrapped.run("--task", "t", *LIMITS, command=["touch", str(marker)])
    assert (ended.returncode, marker.exists(), "admit" in wrapped.events()) == (2, False, False)
    assert b".switches" in ended.stderr


def test_a_signal_before_the_start_starts_nothing(wrapped: Wrapped, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM while the ledger is read: the command does not start, nothing is written, and the status says it."""
    monkeypatch.setattr("preempt_exporter.cli.run.gate_for_one_task", _gate_interrupted_by_sigterm)
    marker = wrapped.folder / "started"
    words = ["run", "--ledger", str(wrapped.ledger), "--task", "t", *LIMITS, "--", "touch", str(marker)]
    assert main(words) == 128 + signal.SIGTERM
    assert (marker.exists(), wrapped.lines(), list(Path(f"{wrapped.ledger}.locks").iterdir())) == (False, [], [])


def _gate_interrupted_by_sigterm(*given: Any, **more: Any) -> Any:
    os.kill(os.getpid(), signal.SIGTERM)
    return gate_for_one_task(*given, **more)


def test_a_signal_while_a_ledger_without_end_is_read_ends_the_wrapper(wrapped: Wrapped) -> None:
    """Status 128 + the signal, nothing started, and no lock is left behind."""
    wrapped.ledger.touch()
    os.truncate(wrapped.ledger, 1 << 40)
    marker = wrapped.folder / "started"
    process = wrapped.start("--task", "t", *LIMITS, command=["touch", str(marker)])
    locks = Path(f"{wrapped.ledger}.locks")
    wait_until(lambda: any(path.stat().st_size for path in locks.glob("*")), "the wrapper has the lock")
    process.send_signal(signal.SIGTERM)
    try:
        assert process.wait(10) == 128 + signal.SIGTERM
    finally:
        process.kill()
    assert (marker.exists(), list(locks.iterdir())) == (False, [])


def test_a_folder_that_is_not_there_is_an_error(wrapped: Wrapped) -> None:
    """A ledger whose folder does not exist is no passing trouble: status 2, and nothing is made there."""
    wrapped.ledger = wrapped.folder / "missing" / "l.jsonl"
    ended = wrapped.run("--task", "t", *LIMITS, command=["true"])
    assert (ended.returncode, ended.stderr.count(b"\n"), wrapped.ledger.parent.exists()) == (2, 1, False)


def test_two_spellings_of_a_ledger_share_its_locks_and_its_history(wrapped: Wrapped) -> None:
    """A second start by a link is refused while the first one runs, and finds what stands in a rotated form."""
    begun = wrapped.folder / "begun"
    process = wrapped.start("--task", "t", *LIMITS, command=["sh", "-c", f"touch {begun}; exec sleep 600"])
    wait_until(begun.exists, "the command has begun")
    linked = Wrapped(wrapped.folder)
    linked.ledger = wrapped.folder / "elsewhere" / "link.jsonl"
    linked.ledger.parent.mkdir()
    linked.ledger.symlink_to(wrapped.ledger)
    refused = linked.run("--task", "t", *LIMITS, command=["true"])
    assert (refused.returncode, b"another attempt" in refused.stderr) == (75, True)
    process.send_signal(signal.SIGINT)
    process.wait(30)
    wrapped.ledger.rename(f"{wrapped.ledger}.1")
    refused = linked.run("--task", "t", *LIMITS, command=["true"])
    assert (refused.returncode, b"ended" in refused.stderr) == (75, True)
    assert [path.name for path in linked.ledger.parent.iterdir()] == ["link.jsonl"]


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), Path.mkdir])
@pytest.mark.parametrize("command", ["run", "admit"])
def test_a_ledger_that_is_no_file_is_refused_in_one_line(
    wrapped: Wrapped, make: Callable[[Path], object], command: str
) -> None:
    """A device would be read for ever, a pipe never: status 2, and nothing is made beside it."""
    make(wrapped.ledger)
    words = ("--task", "t", *LIMITS)
    ended = wrapped.run(*words, command=["true"]) if command == "run" else wrapped.admit(*words)
    assert (ended.returncode, ended.stderr.count(b"\n"), b"not a regular file" in ended.stderr) == (2, 1, True)
    assert [path.name for path in wrapped.folder.iterdir()] == ["l.jsonl"]


def test_the_switch_file_is_obeyed_without_a_restart(wrapped: Wrapped) -> None:
    """A lane that drains and a mode that rejects hold for the next start, and no longer once they are switched back."""
    switches = Path(f"{wrapped.ledger}.switches")
    switches.write_text('{"version":1,"lanes":{"free":{"action":"drain_and_reject"}}}')
    assert wrapped.admit("--task", "t", *LIMITS).stdout == b"reject_drain_mode drain_mode\n"
    switches.write_text('{"version":1,"mode":"reject_preempt_budget"}')
    assert wrapped.admit("--task", "t", *LIMITS).stdout == b"reject_preempt_budget preempt_budget\n"
    switches.write_text('{"version":1,"mode":"normal"}')
    assert wrapped.admit("--task", "t", *LIMITS, ADMIT_MODE="reject_preempt_budget").stdout == b"admit\n"
    assert wrapped.events() == ["enqueue", "reject", "reject", "admit"]


FORKING = """
import os, sys
from preempt_exporter.cli import run
from preempt_exporter.cli.main import main
from preempt_exporter.clock import SystemClock
from preempt_exporter.ledger.records import Drain, Enqueue, Preempt, Reject
from preempt_exporter.ledger.writer import LedgerWriter

def attempt(number):
    return main(["run", "--ledger", sys.argv[1], "--task", f"t{number}", "--deadline", "5h", "--", "true"])

pids = []
for number in range(int(sys.argv[2])):
    pid = os.fork()
    if pid == 0:
        os._exit(attempt(number))
    pids.append(pid)
sys.exit(max(os.waitpid(pid, 0)[1] for pid in pids))
"""


def test_hundreds_of_attempts_on_one_ledger(wrapped: Wrapped) -> None:
    """Two hundred attempts append to one ledger at once: every line whole, every task with exactly its own."""
    workers = 200
    words = [sys.executable, "-c", FORKING, str(wrapped.ledger), str(workers)]
    done = subprocess.run(words, env=environment(), timeout=120, check=False)
    assert done.returncode == 0
    assert wrapped.run("--task", "last", *LIMITS, command=["true"]).returncode == 0
    by_task: dict[str, list[str]] = {}
    for line in wrapped.lines():
        by_task.setdefault(line["task_id"], []).append(line["event"])
    assert len(by_task) == workers + 1
    assert all(
        [e for e in events if e != "heartbeat"] == ["enqueue", "admit", "complete"] for events in by_task.values()
    )
    ids = [line["id"] for line in wrapped.lines()]
    assert len(ids) == len(set(ids))
