"""`drill live`: plays the fake workload in real time until told to stop."""

import random
import threading
from argparse import ArgumentParser, Namespace

from preempt_exporter.clock import SystemClock
from preempt_exporter.drill.live import TICK_S, LiveDrill
from preempt_exporter.ledger.writer import LedgerWriter
from preempt_exporter.stopping import stopping_at_signals


def add_arguments(parser: ArgumentParser) -> None:
    """Declare where the ledger goes, how long and how much."""
    parser.add_argument("--ledger", required=True, metavar="FILE", help="the ledger to append to")
    parser.add_argument("--run", default="demo", metavar="RUN", help="how the batch is called (default: %(default)s)")
    parser.add_argument("--seconds", type=float, metavar="S", help="stop after so long (default: at SIGINT or SIGTERM)")
    parser.add_argument("--arrivals-per-s", type=float, default=2.0, metavar="X", help="tasks a second (default: 2)")
    parser.add_argument("--seed", type=int, default=None, metavar="N", help="makes the story repeatable")


def run(args: Namespace) -> int:
    """Run until told to stop, then say what was written."""
    stop = threading.Event()
    with stopping_at_signals(stop):
        clock = SystemClock()
        drill = LiveDrill(
            LedgerWriter(args.ledger, fsync=False),
            clock,
            random.Random(args.seed),
            run=args.run,
            arrivals_per_tick=args.arrivals_per_s * TICK_S,
        )
        drill.open()
        began_s = clock.monotonic_s()
        while not stop.wait(TICK_S) and (args.seconds is None or clock.monotonic_s() - began_s < args.seconds):
            drill.tick()
        drill.close()
    print("drill live wrote " + ", ".join(f"{count} {event}" for event, count in sorted(drill.counts.items())))
    return 0
