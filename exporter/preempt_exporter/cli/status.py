"""`status LEDGER... | --url URL`: a row per task, least slack first, with what to do about it."""

import json
import sys
import threading
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

import msgspec
from rich.console import Console
from rich.live import Live
from rich.table import Table

from preempt_exporter.cli.folding import ledgers_of
from preempt_exporter.cli.status_explain import explanation
from preempt_exporter.cli.status_pairs import pairs_of, pairs_table
from preempt_exporter.cli.status_source import (
    ExporterRows,
    FollowedRows,
    LedgerRows,
    RowSource,
    folded_rows,
    refuse_contradictions,
)
from preempt_exporter.cli.status_table import print_table, rows_table
from preempt_exporter.clock import Clock, SystemClock
from preempt_exporter.config import TASK_NAMES, Config, add_setting_arguments, resolve
from preempt_exporter.durations import parse_duration_ms
from preempt_exporter.errors import UsageError
from preempt_exporter.state.task_row import TaskRow
from preempt_exporter.stopping import stopping_at_signals


def add_arguments(parser: ArgumentParser) -> None:
    """Declare where from, when, and in which form."""
    parser.add_argument("ledgers", nargs="*", metavar="LEDGER", help="files, globs or folders (default: LEDGER_PATH)")
    parser.add_argument("--url", metavar="URL", help="ask a running exporter, such as http://localhost:9877, instead")
    parser.add_argument("--json", action="store_true", help="a JSON list of objects instead of a table")
    parser.add_argument("--live", action="store_true", help="redraw the table until interrupted (in a pipe: once)")
    parser.add_argument("--interval", metavar="TIME", default="1s", help="how often --live redraws (default: 1s)")
    parser.add_argument("--explain", metavar="TASK", help="the arithmetic behind this task's row, in words and numbers")
    parser.add_argument("--run", dest="run_name", metavar="R", help="with --explain: the run that the task belongs to")
    parser.add_argument(
        "--checkpoint-cost",
        metavar="TIME",
        help="with --explain: how long writing a checkpoint takes, for advice how often to write one",
    )
    parser.add_argument("--pairs", action="store_true", help="queue age against restart tokens of each live task")
    parser.add_argument(
        "--now-ms", type=int, metavar="N", help="the moment to look at, Unix milliseconds (default: now)"
    )
    add_setting_arguments(parser, TASK_NAMES)


def run(args: Namespace) -> int:
    """Print it; never 1."""
    refuse_contradictions(args)
    config, clock = resolve(args), SystemClock()
    cost_ms = None if args.checkpoint_cost is None else _duration_ms("--checkpoint-cost", args.checkpoint_cost)
    if args.live:
        _show_live(args, config, clock)
        return 0
    now_ms = clock.now_ms() if args.now_ms is None else args.now_ms
    if args.url:
        rows = ExporterRows(args.url).rows(now_ms)
    else:
        folded = folded_rows(ledgers_of(args.ledgers), config, now_ms)
        _say_bad_lines(folded)
        if args.explain is not None:
            _explain(folded, args.explain, args.run_name, None if cost_ms is None else cost_ms / 1000, now_ms)
            return 0
        rows = folded.rows(now_ms)
    if args.json:
        json.dump(msgspec.to_builtins(_shown(args, rows, config)), sys.stdout, indent=2, ensure_ascii=True)
        print()
    else:
        print_table(_table(args, rows, config))
    return 0


def _shown(args: Namespace, rows: list[TaskRow], config: Config) -> Sequence[msgspec.Struct]:
    return pairs_of(rows, config.thresholds()) if args.pairs else rows


def _table(args: Namespace, rows: list[TaskRow], config: Config) -> Table | str:
    if args.pairs:
        pairs = pairs_of(rows, config.thresholds())
        return pairs_table(pairs) if pairs else "no live tasks"
    return rows_table(rows) if rows else "no tasks"


def _explain(folded: LedgerRows, task_id: str, run: str | None, checkpoint_cost_s: float | None, now_ms: int) -> None:
    explained = folded.explained(task_id, run, checkpoint_cost_s, now_ms)
    if not explained:
        raise UsageError(f"--explain: no task {task_id!r} in these ledgers; 'status' without it lists them")
    print("\n\n".join("\n".join(explanation(what)) for what in explained))


def _show_live(args: Namespace, config: Config, clock: Clock) -> None:
    interval_s = _duration_ms("--interval", args.interval) / 1000
    if interval_s <= 0:
        raise UsageError("--interval: must be above 0")
    followed = None if args.url else FollowedRows(ledgers_of(args.ledgers), config, clock)
    source: RowSource = ExporterRows(args.url) if followed is None else followed
    console, stop = Console(), threading.Event()
    try:
        if not console.is_terminal:
            print_table(_table(args, source.rows(clock.now_ms()), config))
            return
        with stopping_at_signals(stop), Live(console=console, auto_refresh=False, screen=True) as live:
            while not stop.is_set():
                live.update(_table(args, source.rows(clock.now_ms()), config), refresh=True)
                stop.wait(interval_s)
    finally:
        if followed is not None:
            followed.close()


def _duration_ms(flag: str, text: str) -> int:
    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from error


def _say_bad_lines(folded: LedgerRows) -> None:
    bad = sum(folded.watched.figures.counts.errors.values())
    if bad:
        print(f"{bad} bad lines were skipped; 'preempt-exporter check' names them", file=sys.stderr)
    ignored = folded.watched.figures.counts.ignored
    if ignored:
        print(
            f"{ignored} lines that no field mapping speaks of were ignored; "
            "'preempt-exporter check --explain' shows them",
            file=sys.stderr,
        )
