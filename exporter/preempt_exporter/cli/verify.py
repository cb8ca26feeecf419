"""`verify LEDGER... --url URL`: does a running exporter's count equal a cold read of everything?"""

import json
from argparse import ArgumentParser, Namespace

from preempt_exporter.cli.exporter_client import fetch
from preempt_exporter.cli.folding import cold_scrape, ledgers_of
from preempt_exporter.clock import SystemClock
from preempt_exporter.config import TASK_NAMES, add_setting_arguments, resolve
from preempt_exporter.errors import UnreadableInput
from preempt_exporter.metrics.line_counters import Counters, difference, line_counters

PATIENCE_S = 10.0
LOOK_EVERY_S = 0.2
BYTES = ("preempt_ledger_bytes_total", ())
READY = "preempt_exporter_ready 1"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare what to compare with what."""
    parser.add_argument("ledgers", nargs="*", metavar="LEDGER", help="what the exporter reads (default: LEDGER_PATH)")
    parser.add_argument("--url", required=True, metavar="URL", help="the exporter, such as http://localhost:9877")
    parser.add_argument("--json", action="store_true", help="a JSON list of the differences")
    add_setting_arguments(parser, TASK_NAMES)


def run(args: Namespace) -> int:
    """0 if every line counter agrees, 1 with the ones that do not.

    The exporter is asked before and after the cold read: while writers write, what was read cold must lie between.
    """
    config = resolve(args)
    clock = SystemClock()
    url = args.url.rstrip("/") + "/metrics"
    before = _counters(url)
    cold = line_counters(cold_scrape(ledgers_of(args.ledgers), config, clock.now_ms()))
    give_up_s = clock.monotonic_s() + PATIENCE_S
    after = _counters(url)
    while after.get(BYTES, 0) < cold.get(BYTES, 0) and clock.monotonic_s() < give_up_s:
        clock.sleep(LOOK_EVERY_S)
        after = _counters(url)
    differences = difference(before, cold, after)
    if args.json:
        print(json.dumps([found.as_object() for found in differences], indent=2))
    else:
        for found in differences:
            print(found.sentence())
        print(f"{len(cold)} line counters compared, {len(differences)} differ")
    return 1 if differences else 0


def _counters(url: str) -> Counters:
    text = fetch(url).decode(errors="replace")
    if READY not in text:
        raise UnreadableInput(url, "the exporter is still catching up; try again when /-/ready answers 200")
    return line_counters(text)
