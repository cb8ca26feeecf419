"""`run ... -- CMD`: one attempt at a task, with its admission, its heartbeats and its end on the ledger."""

import os
import secrets
import shutil
import sys
import time
from argparse import ArgumentParser, Namespace

from preempt_exporter.cli.admit import in_words
from preempt_exporter.cli.one_task import OneTask, add_task_arguments, one_task
from preempt_exporter.clock import SystemClock
from preempt_exporter.durations import parse_duration_ms
from preempt_exporter.errors import LedgerWriteError, UsageError
from preempt_exporter.gate.answers import Answer
from preempt_exporter.ledger.writer import LedgerWriter
from preempt_exporter.wrapper.attempt import RunningAttempt
from preempt_exporter.wrapper.leftovers import ATTEMPT_VARIABLE, end_leftovers
from preempt_exporter.wrapper.signals import SignalInbox
from preempt_exporter.wrapper.task_gate import ask_to_start, declare_lost_if_running, gate_for_one_task
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
    add_task_arguments(parser)
    parser.add_argument("command_line", nargs="*", metavar="CMD", help="the command and its arguments, after --")


def run(args: Namespace) -> int:
    """The command's exit status, 128 + the signal that ended it, or 75: not started."""
    heartbeat_ms = _heartbeat_ms(args.heartbeat)
    if not args.command_line:
        raise UsageError("which command? Give it after --")
    if shutil.which(args.command_line[0]) is None:
        raise UsageError(f"{args.command_line[0]}: no such command; nothing was started")
    task = one_task(args)
    attempt = secrets.token_hex(8)
    lock = TaskLock(task.ledger, task.key)
    try:
        if not lock.take():
            return _not_started(task, "another attempt at it is running")
        try:
            return _attempt(task, attempt, lock, heartbeat_ms, args.command_line)
        finally:
            lock.release()
    except LedgerWriteError as error:
        return _not_started(task, str(error))


def _attempt(task: OneTask, attempt: str, lock: TaskLock, heartbeat_ms: int, command: list[str]) -> int:
    clock = SystemClock()
    with LedgerWriter(task.ledger) as writer, SignalInbox() as inbox:
        if lock.left_by:
            end_leftovers(lock.left_by, pause=time.sleep)
        lock.sign(attempt)
        gate = gate_for_one_task(task.ledger, writer, clock, task.key, settings=task.settings, attempt=attempt)
        if declare_lost_if_running(gate, task.key):
            _say("the last attempt did not end in order: it counts as preempted")
        answer = ask_to_start(gate, task.key, task.request, task.settings.defaults)
        if answer.outcome != "admitted":
            return _not_started(task, in_words(answer))
        running = RunningAttempt(gate, task.key, clock, inbox, heartbeat_ms=heartbeat_ms, say=_say)
        ended = running.run(command, _environment(task, attempt, answer))
        last = running.finish(ended)
        if last is not None and last.outcome == "refused" and last.reason != "ended":
            _say(f"the ledger says that the task is {last.state}: its end was not written")
        return ended.status


def _environment(task: OneTask, attempt: str, answer: Answer) -> dict[str, str]:
    """What the command is told: its names, and how far an earlier attempt had got."""
    run, task_id = task.key
    return {
        **os.environ,
        "LEDGER_PATH": str(task.ledger),
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
