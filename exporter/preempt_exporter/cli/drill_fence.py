"""`drill fence`: what a spend store refuses when workers are preempted, come back, and send everything twice."""

import os
import random
import secrets
import signal
import sys
import tempfile
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

import msgspec

from preempt_exporter.cli.drill_fence_words import in_words
from preempt_exporter.clock import Clock, FixedClock, SystemClock
from preempt_exporter.drill.fence import FenceDrill
from preempt_exporter.drill.fence_events import play_events, read_events
from preempt_exporter.drill.fence_processes import FenceProcesses
from preempt_exporter.drill.fence_report import FenceReport, FenceTerms
from preempt_exporter.drill.fence_sink import KeepingSink
from preempt_exporter.errors import UnreadableInput, UsageError
from preempt_exporter.ledger.records import MAX_EXACT_INTEGER
from preempt_exporter.ledger.writer import LedgerWriter
from preempt_exporter.printable import printable
from preempt_exporter.spend.open_store import open_store
from preempt_exporter.spend.run_changes import OpenRun
from preempt_exporter.spend.service import SpendService

_DEFAULTS = FenceTerms()


def add_arguments(parser: ArgumentParser) -> None:
    """Declare flags and arguments."""
    d = _DEFAULTS
    parser.add_argument("--preemptions", type=_count, metavar="N", help=f"slots taken back (default: {d.preemptions})")
    parser.add_argument("--seed", type=int, metavar="N", help="names an interleaving (default: 0)")
    parser.add_argument("--shards", type=_count, metavar="N", help=f"shards of the run (default: {d.shards})")
    parser.add_argument("--cases", type=_count, metavar="N", help=f"cases of a shard (default: {d.cases})")
    parser.add_argument(
        "--tokens-per-case", type=_count, metavar="N", help=f"what a case costs (default: {d.tokens_per_case})"
    )
    parser.add_argument(
        "--budget",
        type=_count,
        metavar="N",
        help=f"the run's budget in tokens (default: {d.budget_tokens}; with --event-order: no ceiling)",
    )
    parser.add_argument(
        "--store", metavar="URL", help="sqlite:///… or postgresql://… (default: a new SQLite file, removed at the end)"
    )
    parser.add_argument("--ledger", metavar="PATH", help="append the spend lines there (default: $LEDGER_PATH, if set)")
    parser.add_argument(
        "--processes", type=_count, metavar="N", help="real worker processes, killed and stopped for real"
    )
    parser.add_argument("--event-order", metavar="FILE", help="play these operations, JSON Lines, in order instead")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: Namespace) -> int:
    """Play the drill; 1 unless the fence held."""
    with _cleaned_up_at_sigterm():
        return _play_events(args) if args.event_order is not None else _drill(args)


def _drill(args: Namespace) -> int:
    terms = FenceTerms(
        preemptions=_given(args.preemptions, _DEFAULTS.preemptions),
        shards=_given(args.shards, _DEFAULTS.shards),
        cases=_given(args.cases, _DEFAULTS.cases),
        tokens_per_case=_given(args.tokens_per_case, _DEFAULTS.tokens_per_case),
        budget_tokens=_given(args.budget, _DEFAULTS.budget_tokens),
    )
    if 0 in (terms.shards, terms.cases) or args.processes == 0:
        raise UsageError("--shards, --cases and --processes: give 1 or more")
    if terms.shard_tokens > MAX_EXACT_INTEGER:
        raise UsageError(f"--cases times --tokens-per-case: give {MAX_EXACT_INTEGER} or less")
    seed = _given(args.seed, 0)
    with _progress(terms.preemptions) as on_preemption:
        report = _play(args, terms, random.Random(seed), on_preemption)
    if args.json:
        print(msgspec.json.encode(report).decode())
    else:
        print(in_words(report, terms, seed))
    return 0 if report.ok else 1


def _play(
    args: Namespace, terms: FenceTerms, randomness: random.Random, on_preemption: Callable[[int], None]
) -> FenceReport:
    run_name = _new_run_name()
    with ExitStack() as stack:
        url = stack.enter_context(_store_url(args.store))
        sink = KeepingSink(stack.enter_context(_ledger(args.ledger)))
        clock: Clock = SystemClock()
        if args.processes is None:
            stands = FixedClock(clock.now_ms())
            service = SpendService(stack.enter_context(closing(open_store(url, ledger=run_name, clock=stands))), sink)
            drill = FenceDrill(terms, service, stands, run=run_name, randomness=randomness, on_preemption=on_preemption)
            return drill.play(sink.lines)
        service = SpendService(stack.enter_context(closing(open_store(url, ledger=run_name))), sink)
        processes = FenceProcesses(
            terms,
            service,
            clock,
            store_url=url,
            ledger=run_name,
            run=run_name,
            randomness=randomness,
            on_preemption=on_preemption,
        )
        return processes.play(sink.lines, args.processes)


def _play_events(args: Namespace) -> int:
    given = [
        flag
        for flag in ("preemptions", "seed", "shards", "cases", "tokens_per_case", "processes")
        if getattr(args, flag) is not None
    ]
    if given:
        raise UsageError(f"--event-order plays a file as it is: leave out --{given[0].replace('_', '-')}")
    run_name = _new_run_name()
    try:
        text = Path(args.event_order).read_bytes()
    except OSError as error:
        raise UnreadableInput(args.event_order, error) from None
    clock = FixedClock(SystemClock().now_ms())
    events = read_events(text, path=args.event_order, run=run_name, starts_ms=clock.now_ms())
    with ExitStack() as stack:
        url = stack.enter_context(_store_url(args.store))
        sink = KeepingSink(stack.enter_context(_ledger(args.ledger)))
        service = SpendService(stack.enter_context(closing(open_store(url, ledger=run_name, clock=clock))), sink)
        service.change_run(OpenRun(run=run_name, budget_tokens=args.budget))
        for told in play_events(events, service, clock, run=run_name):
            if args.json:
                print(msgspec.json.encode(told).decode())
            else:
                print(" ".join(printable(str(value)) for value in told.values() if value is not None))
    return 0


@contextmanager
def _cleaned_up_at_sigterm() -> Iterator[None]:
    """SIGTERM unwinds as an interrupt does: a temporary store goes, and no worker stays behind stopped for ever."""

    def unwind(number: int, _frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, unwind)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _new_run_name() -> str:
    """A run of its own: a store that was drilled before, or that is in use, is not disturbed."""
    return f"drill-fence-{secrets.token_hex(8)}"


@contextmanager
def _store_url(given: str | None) -> Iterator[str]:
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="drill-fence-") as folder:
        yield f"sqlite:///{Path(folder).absolute() / 'spend.db'}?synchronous=off"


@contextmanager
def _ledger(given: str | None) -> Iterator[LedgerWriter | None]:
    path = given or os.environ.get("LEDGER_PATH")
    if not path:
        yield None
        return
    with LedgerWriter(path, fsync=False) as writer:
        yield writer


@contextmanager
def _progress(preemptions: int) -> Iterator[Callable[[int], None]]:
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("preemptions", total=preemptions)
        yield lambda count: progress.update(task, completed=count)


def _given(value: int | None, default: int) -> int:
    return default if value is None else value


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > MAX_EXACT_INTEGER:
        raise ArgumentTypeError(f"{text!r} is not a count")
    return int(text)
