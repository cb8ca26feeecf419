"""`serve LEDGER...`: the exporter."""

import logging
import os
import threading
from argparse import ArgumentParser, Namespace
from pathlib import Path

from preempt_exporter import __version__
from preempt_exporter.cli.decoding import begin_counting_ignored, chunk_decoder
from preempt_exporter.cli.folding import ledgers_of
from preempt_exporter.cli.printable import PrintableFormatter
from preempt_exporter.clock import Clock, SystemClock
from preempt_exporter.config import SERVE_NAMES, Config, add_setting_arguments, resolve
from preempt_exporter.pipeline.exposition import WatchedExposition
from preempt_exporter.pipeline.reader import Reader
from preempt_exporter.pipeline.snapshot import SnapshotKeeper
from preempt_exporter.state.watched import Watched
from preempt_exporter.tail.follow import Tail
from preempt_exporter.tail.watch import Watch
from preempt_exporter.web.serve import serve
from preempt_exporter.web.settings import WebSettings

log = logging.getLogger("preempt_exporter")

STOP_PATIENCE_S = 30.0


def add_arguments(parser: ArgumentParser) -> None:
    """Declare ledgers and settings."""
    parser.add_argument(
        "ledgers",
        nargs="*",
        metavar="LEDGER",
        help="files, globs or folders, existing or not yet; a folder means its *.jsonl and *.ndjson "
        "(default: the environment's LEDGER_PATH)",
    )
    add_setting_arguments(parser, SERVE_NAMES)


def run(args: Namespace) -> int:
    """Serve until SIGINT or SIGTERM; 1 if reading broke down."""
    config = resolve(args)
    patterns = ledgers_of(args.ledgers)
    handler = logging.StreamHandler()
    handler.setFormatter(PrintableFormatter())
    logging.basicConfig(level=config.values["log.level"].upper(), handlers=[handler])
    clock = SystemClock()
    state_file = config.values["state.file"]
    snapshots = SnapshotKeeper(Path(state_file), clock) if state_file else None
    try:
        return _serve(config, patterns, snapshots, clock)
    finally:
        if snapshots is not None:
            snapshots.close()


def _serve(config: Config, patterns: list[str], snapshots: SnapshotKeeper | None, clock: Clock) -> int:
    kept = snapshots.load() if snapshots is not None else None
    watched = Watched(config.tasks(), config.lane_settings(), kept.figures if kept else None)
    begin_counting_ignored(watched.figures, config)
    tail = Tail(patterns, clock=clock, positions=kept.positions if kept else None)
    watch = Watch(clock=clock, mode=config.values["watch"])
    reader = Reader(tail, watch, watched, snapshots, clock, kept.tail_counts if kept else None, chunk_decoder(config))
    exposition = WatchedExposition(reader, config.thresholds(), __version__, clock)
    settings = WebSettings(
        listen_addresses=config.values["web.listen-address"],
        config_file=config.values["web.config.file"],
        page=config.values["web.page"],
    )
    stop = threading.Event()
    broken: list[BaseException] = []

    def read() -> None:
        try:
            reader.run(stop)
        except BaseException as error:
            log.exception("reading broke down; stopping, so that nobody trusts figures that stand still")
            broken.append(error)
            stop.set()

    thread = threading.Thread(target=read, name="reader")

    def listening(urls: list[str]) -> None:
        for url in urls:
            log.info("serving %s/metrics (pid %d)", url.rstrip("/"), os.getpid())
        if snapshots is None:
            log.warning("no --state.file: a restart reads the ledgers anew, and what was rotated away is not counted")
        thread.start()

    try:
        serve(exposition, settings, stop=stop, on_listening=listening, clock=clock)
    finally:
        stop.set()
        reader.wake()
        if thread.ident is not None:
            thread.join(STOP_PATIENCE_S)
    return 1 if broken else 0
