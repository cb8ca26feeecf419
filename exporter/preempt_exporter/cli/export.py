"""`export LEDGER... --textfile FILE`: the metrics without a port, for node_exporter's textfile collector."""

import contextlib
import logging
import os
import threading
from argparse import ArgumentParser, Namespace
from pathlib import Path

from preempt_exporter import __version__
from preempt_exporter.cli.folding import ledgers_of
from preempt_exporter.cli.watching import Watching, log_to_standard_error
from preempt_exporter.clock import SystemClock
from preempt_exporter.config import EXPORT_NAMES, add_setting_arguments, resolve
from preempt_exporter.durations import parse_duration_ms
from preempt_exporter.errors import UnreadableInput, UsageError, why_not_written
from preempt_exporter.own_file import own_file
from preempt_exporter.pipeline.exposition import WatchedExposition
from preempt_exporter.stopping import stopping_at_signals

log = logging.getLogger("preempt_exporter")

READY_LOOK_S = 0.05
READABLE_BY_ALL = 0o644


def add_arguments(parser: ArgumentParser) -> None:
    """Declare ledgers, the file and settings."""
    parser.add_argument("ledgers", nargs="*", metavar="LEDGER", help="files, globs or folders (default: LEDGER_PATH)")
    parser.add_argument(
        "--textfile",
        required=True,
        metavar="FILE",
        help="what to write, as a whole each time; its name has to end in .prom for node_exporter to read it; a "
        "symbolic link stays, and the file that it leads to is replaced",
    )
    parser.add_argument(
        "--every", metavar="TIME", help="go on and write again after each TIME, such as 15s (default: write once)"
    )
    add_setting_arguments(parser, EXPORT_NAMES)


def run(args: Namespace) -> int:
    """Write once everything has been read, and again at each turn until told to stop; 1 if reading broke down.

    A first write that fails ends it, later ones are tried again.
    """
    config = resolve(args)
    patterns = ledgers_of(args.ledgers)
    every_s = _every_s(args.every)
    target = Path(args.textfile)
    if target.suffix != ".prom":
        raise UsageError(f"--textfile: node_exporter reads only names that end in .prom, not '{target.name}'")
    _writable(target)
    log_to_standard_error(config)
    clock = SystemClock()
    with Watching(config, patterns, clock) as watching, stopping_at_signals(watching.stop):
        exposition = WatchedExposition(watching.reader, config.thresholds(), __version__, clock)
        watching.start()
        while not exposition.ready() and not watching.stop.wait(READY_LOOK_S):
            pass
        if not watching.stop.is_set():
            _replace(target, exposition.textfile())
        failing = False
        while every_s is not None and not watching.stop.wait(every_s):
            failing = _replace_again(target, exposition.textfile(), failing=failing)
    if every_s is not None:
        watching.log_end()
    return 1 if watching.broken else 0


def _replace_again(target: Path, content: bytes, *, failing: bool) -> bool:
    """Whether the write failed: a full disk must not end what will work again when there is room. Logged once."""
    try:
        _replace(target, content)
    except (UsageError, UnreadableInput) as error:
        if not failing:
            log.error("%s; tried again each time", error)
        return True
    if failing:
        log.info("%s: written again", target)
    return False


def _every_s(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        every_ms = parse_duration_ms(text)
    except ValueError as error:
        raise UsageError(f"--every: {error}") from error
    if every_ms <= 0:
        raise UsageError("--every: the time between two writes has to be above 0")
    return min(every_ms / 1000, threading.TIMEOUT_MAX)


def _writable(target: Path) -> Path:
    """The file that is replaced. `UsageError` for what is no regular file, `UnreadableInput` for no folder."""
    real = own_file(target, "--textfile")
    if not real.parent.is_dir():
        raise UnreadableInput(str(real.parent), "no such folder for the textfile; make it, or name another file")
    return real


def _replace(target: Path, content: bytes) -> None:
    """Put `content` in place of `target` at once: a reader sees the old file or the new one, never a part."""
    target = _writable(target)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        temporary.write_bytes(content)
        temporary.chmod(READABLE_BY_ALL)
        temporary.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):  # where nothing can be written, nothing can be removed either
            temporary.unlink(missing_ok=True)
        raise UnreadableInput(str(target), f"not written: {why_not_written(error)}") from error
