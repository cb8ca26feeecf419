"""`admit`: the admission decision about one task, for a shell."""

import json
import secrets
from argparse import ArgumentParser, Namespace

import msgspec

from preempt_exporter.cli.one_task import add_task_arguments, one_task
from preempt_exporter.clock import SystemClock
from preempt_exporter.gate.answers import Answer
from preempt_exporter.ledger.writer import LedgerWriter
from preempt_exporter.wrapper.task_gate import ask_to_start, gate_for_one_task
from preempt_exporter.wrapper.task_lock import TaskLock

ANOTHER_DECIDES = Answer(outcome="refused", reason="already_running")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare flags."""
    parser.description = (
        "Enqueue the task unless a life of it goes on, decide whether it may start, write the decision to the ledger "
        "and print verdict and reason. Exit 0: admitted; 1: not. The caller then reports heartbeats, checkpoints, "
        "preemptions and the end with 'emit'; 'run' does all of it."
    )
    parser.add_argument("--json", action="store_true", help="the answer as one object")
    add_task_arguments(parser)


def run(args: Namespace) -> int:
    """Decide; 0 admitted, 1 not. A ledger that cannot be written or read admits nothing: an error, 2."""
    task = one_task(args)
    lock = TaskLock(task.ledger, task.key)
    if lock.take():
        try:
            with LedgerWriter(task.ledger) as writer:
                attempt = secrets.token_hex(8)
                gate = gate_for_one_task(
                    task.ledger, writer, SystemClock(), task.key, settings=task.settings, attempt=attempt
                )
                answer = ask_to_start(gate, task.key, task.request, task.settings.defaults)
        finally:
            lock.release()
    else:
        answer = ANOTHER_DECIDES
    if args.json:
        print(json.dumps(msgspec.to_builtins(answer)))
    else:
        print(in_words(answer))
    return 0 if answer.outcome == "admitted" else 1


def in_words(answer: Answer) -> str:
    """Verdict and reason, or `refused` and why."""
    return " ".join(word for word in (answer.verdict or answer.outcome, answer.reason) if word)
