"""`drill task`: one task that may lose its slot, on the real gate; prints the ledger lines it writes."""

import os
import re
import secrets
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from preempt_exporter.cli.gate_settings import add_admission_arguments, gate_settings
from preempt_exporter.cli.one_task import whole_number
from preempt_exporter.clock import SystemClock
from preempt_exporter.config import resolve
from preempt_exporter.drill.rollback import RollbackDrill
from preempt_exporter.drill.task import DEADLINE_MS, OWNER, TASK_BUDGET, TaskDrill, TaskStory
from preempt_exporter.drill.task_kill import TaskKillDrill
from preempt_exporter.drill.told_sink import ToldLedger
from preempt_exporter.durations import parse_duration_ms
from preempt_exporter.errors import UsageError
from preempt_exporter.gate.gate import Gate
from preempt_exporter.gate.settings import GateSettings
from preempt_exporter.ledger.writer import LedgerWriter
from preempt_exporter.settings import TaskDefaults

STORY = TaskStory()
COUNTS = {
    "prompt-tokens": ("prompt_tokens", "tokens that every restart reads again"),
    "output-tokens": ("output_tokens", "tokens to make"),
    "tokens-per-tick": ("tokens_per_tick", "tokens made in a tick"),
    "checkpoint-every": ("checkpoint_every_tokens", "tokens between two checkpoints; 0: none"),
    "preempt-after-ticks": ("preempt_after_ticks", "ticks of an attempt after which its slot is lost"),
}
"""Flag to the story's field and its meaning."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the story's numbers and the thresholds."""
    parser.description = (
        "The declared lab: one process, one task, no remote host. SIMULATE_PREEMPT=1 loses the slot after two ticks. "
        f"Deadline {DEADLINE_MS} ms and budget {TASK_BUDGET} unless DEADLINE_MS, TASK_BUDGET or flags say otherwise. "
        "Prints each ledger line once the disk has it; without LEDGER_PATH the ledger is a temporary one."
    )
    parser.add_argument("--ledger", metavar="PATH", help="the ledger to append to (default: $LEDGER_PATH)")
    parser.add_argument("--task", metavar="ID", default=STORY.task_id, help="the task's id (default: %(default)s)")
    parser.add_argument("--run", dest="run_name", metavar="R", help="its run (default: none)")
    parser.add_argument("--lane", metavar="L", default=STORY.lane, help="its lane (default: %(default)s)")
    for flag, (field, meaning) in COUNTS.items():
        default = getattr(STORY, field)
        parser.add_argument(f"--{flag}", dest=field, metavar="N", help=f"{meaning} (default: {default})")
    parser.add_argument("--tick", metavar="TIME", default="50ms", help="how long a tick takes (default: 50ms)")
    parser.add_argument("--preemptions", metavar="N", help="how often the slot is lost (default: SIMULATE_PREEMPT, 0)")
    parser.add_argument("--deadline-ms", metavar="MS", help=f"from enqueue (default: DEADLINE_MS, {DEADLINE_MS})")
    parser.add_argument("--budget", metavar="TOKENS", help=f"of the task (default: TASK_BUDGET, {TASK_BUDGET})")
    parser.add_argument(
        "--kill",
        choices=("stop", "kill"),
        help="freeze or kill a worker process of the drill's own and find it out by the missed heartbeat",
    )
    parser.add_argument(
        "--next-within", metavar="TIME", default="2s", help="with --kill: silence that means lost (default: 2s)"
    )
    parser.add_argument(
        "--rollback", action="store_true", help="instead: the rollback under page pressure, a step after the other"
    )
    add_admission_arguments(parser)


def run(args: Namespace) -> int:
    """Play it; 0 however the task ended."""
    story, settings = story_from(args, os.environ), settings_from(args, os.environ)
    path = args.ledger or os.environ.get("LEDGER_PATH")
    with tempfile.TemporaryDirectory(prefix="preempt-drill-") as folder:
        ledger = Path(path or Path(folder) / "ledger.jsonl").absolute()
        with LedgerWriter(ledger) as writer:
            sink = ToldLedger(writer, _print_line)
            if args.rollback:
                RollbackDrill(ledger, sink, settings, Path(folder) / "config", _say).play()
                return 0
            clock = SystemClock()
            gate = Gate(ledger, sink, clock, settings=settings, instance=secrets.token_hex(8))
            if args.kill:
                within_ms = _parsed("--next-within", args.next_within, parse_duration_ms)
                TaskKillDrill(gate, clock, story, kill=args.kill, next_within_ms=within_ms).play()
            else:
                TaskDrill(gate, clock, story, wait_s=time.sleep).play()
    return 0


def story_from(args: Namespace, environ: Mapping[str, str]) -> TaskStory:
    """The story's numbers: flags, then `SIMULATE_PREEMPT`. Raises UsageError."""
    counts = {field: _parsed(f"--{flag}", getattr(args, field), whole_number) for flag, (field, _) in COUNTS.items()}
    story = TaskStory(
        task_id=args.task,
        run=args.run_name,
        lane=args.lane,
        tick_ms=_parsed("--tick", args.tick, parse_duration_ms),
        preemptions=_preemptions(args, environ),
        **{name: value for name, value in counts.items() if value is not None},
    )
    if story.tokens_per_tick < 1:
        raise UsageError("--tokens-per-tick: must be 1 or more")
    return story


def settings_from(args: Namespace, environ: Mapping[str, str]) -> GateSettings:
    """The gate's settings with a drill's deadline and budget. Raises UsageError."""
    settings = gate_settings(resolve(args, environ), environ)
    known = settings.defaults
    deadline_ms = _parsed("--deadline-ms", args.deadline_ms, whole_number)
    budget = _parsed("--budget", args.budget, whole_number)
    deadline_ms = known.deadline_ms if deadline_ms is None else deadline_ms
    budget = known.task_budget if budget is None else budget
    return replace(
        settings,
        owner=OWNER,
        adopts=frozenset({OWNER}),
        defaults=TaskDefaults(
            deadline_ms=DEADLINE_MS if deadline_ms is None else deadline_ms,
            task_budget=TASK_BUDGET if budget is None else budget,
        ),
    )


def _preemptions(args: Namespace, environ: Mapping[str, str]) -> int:
    if args.preemptions is not None:
        return int(_parsed("--preemptions", args.preemptions, whole_number))
    word = environ.get("SIMULATE_PREEMPT", "")
    if re.fullmatch(r"(1|true|yes|on)", word, re.IGNORECASE):
        return 1
    if re.fullmatch(r"(|0|false|no|off)", word, re.IGNORECASE):
        return 0
    raise UsageError(f"SIMULATE_PREEMPT: '{word}' is neither yes (1, true, on) nor no (0, false, off)")


def _parsed(flag: str, text: str | None, parse: Any) -> Any:
    try:
        return None if text is None else parse(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from error


def _print_line(line: str) -> None:
    print(line, flush=True)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
