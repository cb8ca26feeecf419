"""What `run` and `admit` share: which task on which ledger, and what is said of it."""

import os
import re
import socket
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from preempt_exporter.cli.gate_settings import add_admission_arguments, gate_settings
from preempt_exporter.cli.ledger_path import ledger_path, named_ledger
from preempt_exporter.config import resolve
from preempt_exporter.durations import parse_duration_ms
from preempt_exporter.errors import UnreadableInput, UsageError
from preempt_exporter.gate.life import TaskKey
from preempt_exporter.gate.request import TaskRequest
from preempt_exporter.gate.settings import GateSettings
from preempt_exporter.ledger.records import MAX_EXACT_INTEGER, MAX_ID_BYTES, MAX_LANE_BYTES
from preempt_exporter.wrapper.task_name import task_id_from


class OneTask(Struct, frozen=True):
    """One task on one ledger, as the command line and the environment name it."""

    ledger: Path
    key: TaskKey
    request: TaskRequest
    settings: GateSettings


def add_task_arguments(parser: ArgumentParser) -> None:
    """Declare what is said of the task."""
    parser.add_argument(
        "--task", metavar="ID", help="the task's id (default: the Slurm array element or the Kubernetes job index)"
    )
    parser.add_argument(
        "--run", dest="run_name", metavar="R", help="the batch that the task belongs to (default: none)"
    )
    parser.add_argument("--lane", metavar="L", help="where the attempt runs, such as free or paid")
    parser.add_argument("--deadline", metavar="TIME", help="how long after enqueue the task must be done, such as 5h")
    parser.add_argument("--budget", metavar="TOKENS", help="tokens that the task may use")
    parser.add_argument("--prompt-tokens", metavar="N", help="tokens that every restart reads again")
    parser.add_argument("--target-tokens", metavar="N", help="output tokens that the task is to make")
    parser.add_argument("--enqueued-ms", metavar="MS", help="when it was enqueued, Unix milliseconds (default: now)")
    parser.add_argument(
        "--new-life", action="store_true", help="start again a task that was rejected, drained or completed"
    )
    parser.add_argument("--ledger", metavar="PATH", help="the ledger to append to (default: $LEDGER_PATH)")
    add_admission_arguments(parser)


def one_task(
    args: Namespace, environ: Mapping[str, str] | None = None, *, instead_of_ledger: Path | None = None
) -> OneTask:
    """Read it. Raises UsageError that names what is wrong.

    `instead_of_ledger` is where the task's lock lies when somebody else has the ledger.
    """
    environ = os.environ if environ is None else environ
    if instead_of_ledger is None:
        ledger = ledger_path(args.ledger, environ)
    else:
        ledger = named_ledger(args.ledger, environ) or instead_of_ledger
    if not ledger.parent.is_dir():
        raise UnreadableInput(str(ledger.parent), "no such folder for the ledger; make it, or name another ledger")
    task_id = _name("--task", task_id_from(args.task, environ), MAX_ID_BYTES)
    run = _name("--run", args.run_name, MAX_ID_BYTES) if args.run_name else None
    request = TaskRequest(
        lane=_name("--lane", args.lane, MAX_LANE_BYTES) if args.lane else None,
        deadline_ms=_parsed("--deadline", args.deadline, parse_duration_ms),
        task_budget=_parsed("--budget", args.budget, whole_number),
        prompt_tokens=_parsed("--prompt-tokens", args.prompt_tokens, whole_number),
        target_tokens=_parsed("--target-tokens", args.target_tokens, whole_number),
        enqueued_ms=_parsed("--enqueued-ms", args.enqueued_ms, whole_number),
        host=socket.gethostname() or None,
        new_life=args.new_life,
    )
    settings = gate_settings(resolve(args, environ), environ)
    return OneTask(ledger, (run, task_id), request, settings)


def whole_number(text: str) -> int:
    """A count as a ledger takes it. `ValueError` that says so for anything else."""
    if not re.fullmatch(r"[0-9]{1,16}", text, re.ASCII) or int(text) > MAX_EXACT_INTEGER:
        raise ValueError(f"'{text}' is not a whole number from 0 to 2^53")
    return int(text)


def _name(flag: str, text: str, max_bytes: int) -> str:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise UsageError(f"{flag}: not valid UTF-8") from None
    if size > max_bytes:
        raise UsageError(f"{flag}: longer than {max_bytes} bytes")
    return text


def _parsed(flag: str, text: str | None, parse: Callable[[str], Any]) -> Any:
    try:
        return None if text is None else parse(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from error
