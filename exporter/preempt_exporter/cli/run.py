"""`run ... -- CMD`: one attempt at a task, with its admission, its heartbeats and its end on the ledger."""

import hashlib
import os
import secrets
import shutil
import sys
import time
from argparse import ArgumentParser, Namespace
from contextlib import ExitStack
from pathlib import Path

from preempt_exporter.cli.admit import in_words
from preempt_exporter.cli.ledger_path import named_ledger
from preempt_exporter.cli.one_task import OneTask, add_task_arguments, one_task
from preempt_exporter.clock import SystemClock
from preempt_exporter.control.tokens import read_token, token_path
from preempt_exporter.durations import parse_duration_ms
from preempt_exporter.errors import LedgerWriteError, StoreUnavailable, UsageError
from preempt_exporter.gate.answers import Answer
from preempt_exporter.ledger.writer import LedgerWriter
from preempt_exporter.wrapper.attempt import STATUS_OF_SIGNAL, RunningAttempt
from preempt_exporter.wrapper.controlled_slot import ControlledSlot
from preempt_exporter.wrapper.leftovers import ATTEMPT_VARIABLE, are_left, end_leftovers
from preempt_exporter.wrapper.signals import ENDS_A_PROCESS, SignalInbox, ToldToEnd
from preempt_exporter.wrapper.slot import GateSlot, Slot
from preempt_exporter.wrapper.task_gate import gate_for_one_task
from preempt_exporter.wrapper.task_lock import TaskLock

TRY_AGAIN_LATER = 75
"""EX_TEMPFAIL of sysexits.h: nothing was started."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare flags and the command."""
    parser.usage = "preempt-exporter run [--task ID] [--run R] [--lane L] [--deadline 5h] [--budget N] ... -- CMD..."
    parser.description = (
        "Wrap one attempt at a task. Enqueues it, asks for admission (exit 75 when rejected), runs CMD with heartbeats "
        "on the ledger, and writes how it ended: exit 0 is complete, SIGTERM is preempt, any other exit is drain. "
        "A start that finds the task running writes the preempt that nobody saw. Signals and exit status pass through."
    )
    parser.epilog = (
        "CMD finds LEDGER_PATH, PREEMPT_TASK_ID, PREEMPT_RUN, PREEMPT_LANE, PREEMPT_PREEMPTS and "
        "PREEMPT_CHECKPOINT_TOKENS (where to resume) in its environment, and reports progress with: preempt-exporter "
        'emit checkpoint task_id="$PREEMPT_TASK_ID" run="$PREEMPT_RUN" checkpoint_tokens=N'
    )
    parser.add_argument(
        "--heartbeat", default="30s", metavar="TIME", help="how often to say that it runs (default: 30s)"
    )
    parser.add_argument(
        "--control", metavar="URL", help="let the control service decide: http://host:port or unix:///path"
    )
    parser.add_argument(
        "--token-file", metavar="PATH", help="the service's token (default: LEDGER.control-token, if it is there)"
    )
    add_task_arguments(parser)
    parser.add_argument("command_line", nargs="*", metavar="CMD", help="the command and its arguments, after --")


def run(args: Namespace) -> int:
    """The command's exit status, 128 + the signal that ended it, or 75: not started."""
    heartbeat_ms = _heartbeat_ms(args.heartbeat)
    if not args.command_line:
        raise UsageError("which command? Give it after --")
    if shutil.which(args.command_line[0]) is None:
        raise UsageError(f"{args.command_line[0]}: no such command, nothing was started; check its name and PATH")
    task = one_task(args, instead_of_ledger=_place_of_locks(args.control) if args.control else None)
    lock = TaskLock(task.ledger, task.key)
    try:
        if not lock.take():
            return _not_started(task, "another attempt at it is running")
        try:
            return _attempt(args, task, lock, heartbeat_ms)
        except ToldToEnd as told:
            return STATUS_OF_SIGNAL + told.number
        finally:
            lock.release()
    except (LedgerWriteError, StoreUnavailable) as error:
        return _not_started(task, str(error))


def _attempt(args: Namespace, task: OneTask, lock: TaskLock, heartbeat_ms: int) -> int:
    attempt = secrets.token_hex(8)
    with ExitStack() as opened:
        inbox = opened.enter_context(SignalInbox())
        left_behind = lock.died
        # Reading a long ledger takes its time, and nothing is decided before.
        with inbox.ending_at_once():
            if lock.left_by:
                if left_behind:
                    _say("the last attempt did not end in order: it counts as preempted")
                count = end_leftovers(lock.left_by, pause=time.sleep)
                if count:
                    _say(f"{count} processes of the last attempt were still running: they were killed")
            lock.sign(attempt)
            slot = _slot(args, task, attempt, opened)
        early = next((number for number in inbox.wait(0) if number in ENDS_A_PROCESS), None)
        if early is not None:
            return STATUS_OF_SIGNAL + early
        answer = slot.start(task.request, left_behind=left_behind)
        lock.settle()
        if answer.outcome != "admitted":
            return _not_started(task, in_words(answer))
        running = RunningAttempt(slot, SystemClock(), inbox, heartbeat_ms=heartbeat_ms, say=_say)
        ended = running.run(args.command_line, _environment(args, task, attempt, answer))
        last = running.finish(ended)
        if last is None:
            lock.leave(attempt, died=True)
        elif ended.status != 0 and are_left(attempt):
            lock.leave(attempt, died=False)
        if last is not None and last.outcome == "refused" and last.reason != "ended":
            _say(f"the ledger says that the task is {last.state}: its end was not written")
        return ended.status


def _slot(args: Namespace, task: OneTask, attempt: str, opened: ExitStack) -> Slot:
    if args.control:
        return ControlledSlot(args.control, _token(args), task.key)
    writer = opened.enter_context(LedgerWriter(task.ledger))
    gate = gate_for_one_task(task.ledger, writer, SystemClock(), task.key, settings=task.settings, attempt=attempt)
    return GateSlot(gate, task.key, task.settings.defaults)


def _token(args: Namespace) -> str | None:
    """The service's token: the file that was named, else the one beside the ledger, if there is any."""
    if args.token_file:
        return read_token(Path(args.token_file))
    named = named_ledger(args.ledger, os.environ)
    path = token_path(named) if named else None
    return read_token(path) if path is not None and path.exists() else None


def _place_of_locks(url: str) -> Path:
    """Where the locks of the tasks of a service lie on this host; it outlives a reboot."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "preempt-exporter"
    try:
        state.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LedgerWriteError(str(state), error) from error
    return state / hashlib.sha256(url.encode()).hexdigest()[:16]


def _environment(args: Namespace, task: OneTask, attempt: str, answer: Answer) -> dict[str, str]:
    """What the command is told: its names, and how far an earlier attempt had got."""
    run, task_id = task.key
    return {
        **os.environ,
        **({"PREEMPT_CONTROL": args.control} if args.control else {"LEDGER_PATH": str(task.ledger)}),
        "PREEMPT_TASK_ID": task_id,
        "PREEMPT_RUN": run or "",
        "PREEMPT_LANE": task.request.lane or task.settings.lane_default,
        "PREEMPT_PREEMPTS": str(answer.preempts),
        "PREEMPT_CHECKPOINT_TOKENS": str(answer.checkpoint_tokens),
        ATTEMPT_VARIABLE: attempt,
    }


def _heartbeat_ms(text: str) -> int:
    try:
        heartbeat_ms = parse_duration_ms(text)
    except ValueError as error:
        raise UsageError(f"--heartbeat: {error}") from error
    if heartbeat_ms <= 0:
        raise UsageError("--heartbeat: must be above 0")
    return heartbeat_ms


def _not_started(task: OneTask, why: str) -> int:
    _say(f"task {task.key[1]}: not started: {why}")
    return TRY_AGAIN_LATER


def _say(text: str) -> None:
    print(f"preempt-exporter run: {' '.join(text.split())}", file=sys.stderr, flush=True)
