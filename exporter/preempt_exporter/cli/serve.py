"""`serve LEDGER...`: the exporter."""

import logging
import os
import sys
from argparse import ArgumentParser, Namespace

from preempt_exporter import __version__
from preempt_exporter.cli.folding import ledgers_of
from preempt_exporter.cli.watching import Watching, log_to_standard_error
from preempt_exporter.clock import SystemClock
from preempt_exporter.config import SERVE_NAMES, add_setting_arguments, resolve
from preempt_exporter.pipeline.exposition import WatchedExposition
from preempt_exporter.web.serve import serve
from preempt_exporter.web.settings import WebSettings

log = logging.getLogger("preempt_exporter")

SWITCH_INTERVAL_S = 0.0002
"""How long a thread that folds may keep the interpreter from one that sends: an answer is sent in many short steps."""


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
    log_to_standard_error(config)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    clock = SystemClock()
    settings = WebSettings(
        listen_addresses=config.values["web.listen-address"],
        config_file=config.values["web.config.file"],
        page=config.values["web.page"],
    )
    with Watching(config, patterns, clock) as watching:

        def listening(urls: list[str]) -> None:
            for url in urls:
                log.info("serving %s/metrics (pid %d)", url.rstrip("/"), os.getpid())
            watching.start()

        exposition = WatchedExposition(watching.reader, config.thresholds(), __version__, clock)
        serve(exposition, settings, stop=watching.stop, on_listening=listening, clock=clock)
    watching.log_end()
    return 1 if watching.broken else 0
