"""`undone LEDGER...`: what was rejected, drained or abandoned and never completed, to submit again."""

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from preempt_exporter.cli.decoding import chunk_decoder
from preempt_exporter.cli.folding import ledgers_of
from preempt_exporter.clock import SystemClock
from preempt_exporter.config import TASK_NAMES, Config, add_setting_arguments, resolve
from preempt_exporter.ledger.records import MAX_EXACT_INTEGER, Complete
from preempt_exporter.state.life import ABANDONED, COMPLETE, DRAINED, REJECTED
from preempt_exporter.state.watched import Watched
from preempt_exporter.tail.batch import read_batch


class UndoneTask(Struct, kw_only=True):
    """A task whose newest life ended without completing."""

    task_id: str
    run: str | None
    lane: str
    state: str
    """`rejected`, `drained` or `abandoned`."""
    reason: str | None
    """Of the last reject."""
    preempts: int
    restart_tokens: int
    checkpoint_tokens: int
    ended_ms: int
    """When it was rejected or drained, or counted as abandoned; Unix milliseconds."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare where from, of which run, and in which form."""
    parser.description = (
        "Print the ids of tasks that were rejected, drained or abandoned and never completed, a line each, in the "
        "order of their ends. 'run --new-life' starts a drained one again."
    )
    parser.add_argument("ledgers", nargs="*", metavar="LEDGER", help="files, globs or folders (default: LEDGER_PATH)")
    parser.add_argument("--run", dest="run_name", metavar="R", help="only tasks of this run")
    parser.add_argument("--json", action="store_true", help="a JSON list of objects")
    parser.add_argument(
        "--now-ms", type=int, metavar="N", help="the moment to look at, Unix milliseconds (default: now)"
    )
    add_setting_arguments(parser, TASK_NAMES)


def run(args: Namespace) -> int:
    """Print them; 0 whether there are any or not."""
    config = resolve(args)
    now_ms = SystemClock().now_ms() if args.now_ms is None else args.now_ms
    tasks = undone_tasks(ledgers_of(args.ledgers), config, now_ms)
    if args.run_name is not None:
        tasks = [task for task in tasks if task.run == args.run_name]
    if args.json:
        json.dump(msgspec.to_builtins(tasks), sys.stdout, indent=2)
        print()
        return 0
    for task in tasks:
        print(task.task_id)
    return 0


def undone_tasks(patterns: Sequence[str], config: Config, now_ms: int) -> list[UndoneTask]:
    """Tasks whose newest life was rejected, drained or abandoned by `now_ms`, in the order of their ends.

    One that completed in an earlier life is left out: its work is done. Every task of the ledgers is looked at, however
    many there are. Raises `UnreadableInput` for a named path that is not there.
    """
    settings = replace(config.tasks(), limit=MAX_EXACT_INTEGER)
    watched = Watched(settings, config.lane_settings())
    completed: set[tuple[str | None, str]] = set()
    decode = chunk_decoder(config)
    for chunk in read_batch(patterns):
        records = decode(chunk).records
        folded = 0
        for index, record in enumerate(records):
            if isinstance(record, Complete):
                watched.fold(records[folded : index + 1], chunk.ledger, now_ms)
                folded = index + 1
                run = watched.figures.runs.get(record.run)
                life = run.lives.get(record.task_id) if run else None
                if life is not None and life.state == COMPLETE:
                    completed.add((record.run, record.task_id))
        watched.fold(records[folded:], chunk.ledger, now_ms)
    undone = _ended_undone(watched, settings.abandon_after_ms, now_ms)
    return [task for task in undone if (task.run, task.task_id) not in completed]


def _ended_undone(watched: Watched, abandon_after_ms: int | None, now_ms: int) -> list[UndoneTask]:
    undone = []
    for run in watched.figures.runs.values():
        for life in run.lives.values():
            abandoned = life.ended_ms is None and not life.is_live(now_ms, abandon_after_ms)
            if life.state not in (REJECTED, DRAINED) and not abandoned:
                continue
            undone.append(
                UndoneTask(
                    task_id=life.task_id,
                    run=life.run,
                    lane=life.lane,
                    state=ABANDONED if abandoned else life.state,
                    reason=life.reject_reason,
                    preempts=life.preempts,
                    restart_tokens=life.restart_tokens,
                    checkpoint_tokens=life.checkpoint_tokens,
                    ended_ms=life.abandoned_at_ms(abandon_after_ms) if life.ended_ms is None else life.ended_ms,
                )
            )
    return sorted(undone, key=lambda task: (task.ended_ms, task.run or "", task.task_id))
