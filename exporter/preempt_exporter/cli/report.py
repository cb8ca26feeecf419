"""`report`: what rework really costs in each lane, and whether a job's slack can bear it."""

import json
import math
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from preempt_exporter.cli.decoding import chunk_decoder
from preempt_exporter.config import Config, add_setting_arguments, resolve
from preempt_exporter.decide.break_even import LaneAccumulator
from preempt_exporter.decide.token_price import TokenPrice
from preempt_exporter.errors import UnreadableInput, UsageError, why_not_written
from preempt_exporter.ledger.records import Attempt
from preempt_exporter.printable import printable
from preempt_exporter.report.page import page_of
from preempt_exporter.report.row import ReportRow, row_object
from preempt_exporter.report.table import table_of
from preempt_exporter.state.telemetry import LaneTelemetry, Telemetry
from preempt_exporter.tail.batch import read_batch

PROGRESS_EVERY = 20_000
WIDTH_IN_A_PIPE = 200
LONGEST_COUNT = 100
"""Digits of a count that are looked at: more than any file has lines, fewer than Python refuses to read."""


def add_arguments(parser: ArgumentParser) -> None:
    """Flags of `report`."""
    parser.description = (
        "The break-even table from attempt lines: rework multiplier (attempts per completed job), seconds and tokens "
        "per completed job, and the slack a job needs to risk the lane: p95 wait + rework x p95 run + margin."
    )
    parser.add_argument("telemetry", nargs="+", metavar="TELEMETRY", help="files, globs, folders; .gz and .zst too")
    parser.add_argument("--slack-s", required=True, type=_finite, help="seconds of slack that jobs have")
    parser.add_argument(
        "--margin-s",
        type=_not_negative,
        help="seconds to keep in hand (default: 300, or the configuration's thresholds.margin-s)",
    )
    parser.add_argument("--last", type=_positive, metavar="N", help="only the last N attempts of each lane")
    parser.add_argument(
        "--model",
        choices=("once", "requeue"),
        default="once",
        help="requeue: each further attempt also pays the wait (default: %(default)s)",
    )
    parser.add_argument("--strict", action="store_true", help="bad lines are an error (exit 2), not a note")
    parser.add_argument("--fail", action="store_true", help="exit 1 if a lane is too tight")
    parser.add_argument("--json", action="store_true", help="a list of objects, one per lane")
    parser.add_argument("--html", metavar="FILE", help="also write one self-contained page")
    add_setting_arguments(parser, ())


def run(args: Namespace) -> int:
    """Read, add up, show."""
    config = resolve(args)
    if args.margin_s is None:
        args.margin_s = config.thresholds().margin_s
    telemetry = Telemetry(read_batch(args.telemetry), chunk_decoder(config))
    lanes = LaneTelemetry(last=args.last)
    for attempt in _with_progress(telemetry):
        lanes.add(attempt)
    for bad in telemetry.named_bad_lines:
        print(f"{bad.path}:{bad.line}: bad line: {bad.reason}: {bad.detail}", file=sys.stderr)
    if telemetry.bad_lines > len(telemetry.named_bad_lines):
        rest = telemetry.bad_lines - len(telemetry.named_bad_lines)
        print(f"and {rest} more bad lines; 'preempt-exporter check' lists them all", file=sys.stderr)
    if args.strict and telemetry.bad_lines:
        raise UnreadableInput(", ".join(args.telemetry), f"{telemetry.bad_lines} bad lines, and --strict was said")
    accumulators = lanes.accumulators(order=config.lane_settings().names)
    rows = _rows(accumulators, args, config)
    notes = _notes(telemetry, rows, args)
    if args.json:
        print(json.dumps([row_object(row) for row in rows], indent=2))
        for note in notes[1:]:
            print(printable(note), file=sys.stderr)
    else:
        console = Console(width=None if sys.stdout.isatty() else WIDTH_IN_A_PIPE, highlight=False)
        # Written here and not by rich, which makes an exit status of its own out of a reader that has gone.
        with console.capture() as captured:
            console.print(table_of(rows))
            for note in notes:
                console.print(Text(printable(note)))
        sys.stdout.write(captured.get())
    if args.html:
        _write_page(args.html, page_of(rows, accumulators, notes=notes, model=args.model))
    return 1 if args.fail and any(row.verdict == "TOO TIGHT" for row in rows) else 0


def _rows(accumulators: Iterable[LaneAccumulator], args: Namespace, config: Config) -> list[ReportRow]:
    prices = {str(lane["name"]): _price(lane) for lane in config.lanes}
    return [
        ReportRow(
            figures=lane.figures(margin_s=args.margin_s, model=args.model),
            slack_s=args.slack_s,
            margin_s=args.margin_s,
            price=prices.get(lane.lane),
        )
        for lane in accumulators
    ]


def _price(lane: Mapping[str, Any]) -> TokenPrice | None:
    """The lane's price; a direction that is not named costs nothing, and with neither there is no price."""
    if "price_in_per_million" not in lane and "price_out_per_million" not in lane:
        return None
    return TokenPrice(
        per_million_in=lane.get("price_in_per_million", 0.0), per_million_out=lane.get("price_out_per_million", 0.0)
    )


def _notes(telemetry: Telemetry, rows: Iterable[ReportRow], args: Namespace) -> list[str]:
    """What was measured, then what was left out."""
    window = f", of these the last {args.last} of each lane" if args.last else ""
    notes = [
        f"Measured: {telemetry.attempts} attempts{window}; slack {args.slack_s:g} s, margin {args.margin_s:g} s, "
        f"model {args.model}."
    ]
    if telemetry.repeats:
        notes.append(f"Left out: {telemetry.repeats} repeated lines.")
    if telemetry.bad_lines:
        notes.append(f"Left out: {telemetry.bad_lines} bad lines.")
    if telemetry.ignored:
        notes.append(f"Left out: {telemetry.ignored} lines that no field mapping speaks of.")
    notes += [
        f"Lane {row.figures.lane}: {row.figures.unknown_token_attempts} attempts with unknown tokens are left out of "
        "token figures."
        for row in rows
        if row.figures.unknown_token_attempts
    ]
    return notes


def _with_progress(telemetry: Telemetry) -> Iterator[Attempt]:
    """The attempts; on a terminal a line on standard error says how far reading is."""
    if not sys.stderr.isatty():
        yield from telemetry
        return
    with Console(stderr=True).status("reading telemetry") as status:
        for count, attempt in enumerate(telemetry, 1):
            yield attempt
            if count % PROGRESS_EVERY == 0:
                status.update(f"{telemetry.lines} lines, {telemetry.bytes_read / 1e6:.0f} MB, {count} attempts")


def _write_page(path: str, page: str) -> None:
    try:
        Path(path).write_text(page, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--html {path}: {why_not_written(error)}") from error


def _finite(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a number") from None
    if not math.isfinite(value):
        raise ArgumentTypeError(f"{text!r} is not a finite number")
    return value


def _not_negative(text: str) -> float:
    value = _finite(text)
    if value < 0:
        raise ArgumentTypeError(f"{text!r} is negative")
    return value


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    value = int(text[:LONGEST_COUNT])
    if value < 1:
        raise ArgumentTypeError(f"{text!r} is less than 1")
    return min(value, sys.maxsize)
