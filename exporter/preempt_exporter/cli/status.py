"""`status LEDGER... | --url URL`: a row per task, least slack first, with what to do about it."""

import json
import sys
from argparse import ArgumentParser, Namespace

import msgspec

from preempt_exporter.cli.exporter_client import fetch
from preempt_exporter.cli.folding import fold_ledgers, ledgers_of
from preempt_exporter.cli.status_table import print_rows
from preempt_exporter.clock import SystemClock
from preempt_exporter.config import TASK_NAMES, add_setting_arguments, resolve
from preempt_exporter.errors import UnreadableInput, UsageError
from preempt_exporter.state.rates import LaneMeasurements
from preempt_exporter.state.task_row import TaskRow, task_rows


def add_arguments(parser: ArgumentParser) -> None:
    """Declare where from, when, and in which form."""
    parser.add_argument("ledgers", nargs="*", metavar="LEDGER", help="files, globs or folders (default: LEDGER_PATH)")
    parser.add_argument("--url", metavar="URL", help="ask a running exporter, such as http://localhost:9877, instead")
    parser.add_argument("--json", action="store_true", help="a JSON list of objects instead of a table")
    parser.add_argument(
        "--now-ms", type=int, metavar="N", help="the moment to look at, Unix milliseconds (default: now)"
    )
    add_setting_arguments(parser, TASK_NAMES)


def run(args: Namespace) -> int:
    """Print the rows; never 1."""
    if args.url and args.ledgers:
        raise UsageError("give either LEDGER or --url, not both")
    rows = _ask(args.url) if args.url else _fold(args)
    if args.json:
        json.dump(msgspec.to_builtins(rows), sys.stdout, indent=2, ensure_ascii=True)
        print()
    else:
        print_rows(rows)
    return 0


def _fold(args: Namespace) -> list[TaskRow]:
    config = resolve(args)
    now_ms = SystemClock().now_ms() if args.now_ms is None else args.now_ms
    watched = fold_ledgers(ledgers_of(args.ledgers), config, now_ms)
    thresholds = config.thresholds()
    measurements = LaneMeasurements(watched.lanes, thresholds)
    bad = sum(watched.figures.counts.errors.values())
    if bad:
        print(f"{bad} bad lines were skipped; 'preempt-exporter check' names them", file=sys.stderr)
    if watched.figures.counts.ignored:
        print(
            f"{watched.figures.counts.ignored} lines that no field mapping speaks of were ignored; "
            "'preempt-exporter check --explain' shows them",
            file=sys.stderr,
        )
    return task_rows(watched.figures, watched.tasks, thresholds, measurements, now_ms)


def _ask(url: str) -> list[TaskRow]:
    address = url.rstrip("/") + "/api/v1/tasks"
    try:
        return msgspec.json.decode(fetch(address), type=list[TaskRow])
    except msgspec.DecodeError as error:
        raise UnreadableInput(address, f"not an exporter's answer: {error}") from error
