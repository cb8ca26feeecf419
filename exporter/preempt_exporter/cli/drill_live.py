"""`drill live`: plays the fake workload in real time until told to stop, or on a virtual clock until its end."""

import os
import random
import secrets
import threading
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from math import isfinite
from pathlib import Path

from msgspec.structs import replace

from preempt_exporter.cli.gate_settings import add_admission_arguments, gate_settings
from preempt_exporter.clock import Clock, FixedClock, SystemClock
from preempt_exporter.config import resolve
from preempt_exporter.drill.hosts import LivePlan
from preempt_exporter.drill.live import LANES, LiveDrill
from preempt_exporter.drill.spot_trace import SpotTrace, read_spot_trace
from preempt_exporter.drill.task import OWNER
from preempt_exporter.durations import parse_duration_ms
from preempt_exporter.errors import UsageError
from preempt_exporter.gate.gate import Gate
from preempt_exporter.gate.settings import GateSettings
from preempt_exporter.ledger.records import MAX_LANE_BYTES
from preempt_exporter.ledger.writer import LedgerWriter
from preempt_exporter.stopping import stopping_at_signals

TICK_MS = 250
ARRIVALS_PER_TICK = 0.5
ARRIVALS_PER_TICK_OF_TRACE = 0.1
RUN_DEADLINE_TICKS = 7_200
LANE_KEYS = {
    "hosts": "hosts",
    "slots": "slots_per_host",
    "share": "share",
    "preemptions-per-hour": "preemptions_per_hour",
}
LANE_FORM = "NAME:hosts=4,slots=3,share=0.7,preemptions-per-hour=170"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare where the ledger goes, how long and how much."""
    parser.description = (
        "A fake batch over lanes whose hosts are taken back, decided by the real gate. In real time until SIGINT or "
        "SIGTERM, or, with --clock virtual, as fast as it goes and ending now."
    )
    parser.add_argument("--ledger", required=True, metavar="FILE", help="the ledger to append to")
    parser.add_argument("--run", default="demo", metavar="RUN", help="how the batch is called (default: %(default)s)")
    parser.add_argument(
        "--seconds",
        type=_number,
        metavar="S",
        help="stop after so long, by the drill's clock (default: the trace's end)",
    )
    parser.add_argument(
        "--arrivals-per-s", type=_number, metavar="X", help="tasks a second (default: 2; with a trace: 0.1 a tick)"
    )
    parser.add_argument("--seed", type=int, default=None, metavar="N", help="makes the story repeatable")
    parser.add_argument(
        "--lane", action="append", type=_lane, metavar="LANE", help=f"a lane, as {LANE_FORM}; repeatable (default: two)"
    )
    parser.add_argument(
        "--trace",
        metavar="FILE",
        help="a recorded trace of instance counts (JSON, gap_seconds); a fall is a preemption",
    )
    parser.add_argument("--trace-lane", metavar="NAME", help="the lane that it plays in (default: the first)")
    parser.add_argument("--clock", choices=("real", "virtual"), default="real", help="(default: %(default)s)")
    parser.add_argument("--tick", metavar="TIME", help="how long a step is (default: 250ms; virtual: the trace's gap)")
    add_admission_arguments(parser)


def run(args: Namespace) -> int:
    """Run until told to stop, then say what happened."""
    trace = read_spot_trace(args.trace) if args.trace else None
    tick_ms = _tick_ms(args.tick, trace if args.clock == "virtual" else None)
    seconds = args.seconds if args.seconds is not None or trace is None else trace.duration_s
    if args.clock == "virtual" and seconds is None:
        raise UsageError("--clock virtual needs an end: give --seconds or --trace")
    per_tick = ARRIVALS_PER_TICK if trace is None else ARRIVALS_PER_TICK_OF_TRACE
    arrivals_per_s = args.arrivals_per_s if args.arrivals_per_s is not None else per_tick * 1000 / tick_ms
    lanes = _lanes(args, trace)
    settings = replace(gate_settings(resolve(args), os.environ), owner=OWNER, adopts=frozenset({OWNER}))
    stop, now_ms = threading.Event(), SystemClock().now_ms()
    with stopping_at_signals(stop), LedgerWriter(args.ledger, fsync=False) as writer:
        virtual = FixedClock(now_ms - round((seconds or 0) * 1000)) if args.clock == "virtual" else None
        clock: Clock = virtual or SystemClock()
        drill = _drill(args, writer, clock, settings, lanes, arrivals_per_s, tick_ms)
        drill.open(RUN_DEADLINE_TICKS * tick_ms if seconds is None else max(1, round(seconds * 1000)))
        end_ms = None if seconds is None else clock.now_ms() + round(seconds * 1000)
        while not stop.is_set() and (end_ms is None or clock.now_ms() < end_ms):
            if virtual is not None:
                virtual.advance(tick_ms)
            else:
                stop.wait(tick_ms / 1000)
            drill.tick()
        drill.close()
    told = ", ".join(f"{count} {event}" for event, count in sorted(drill.counts.items()))
    print(f"drill live wrote {told or 'nothing but its run'}")
    return 0


def _drill(
    args: Namespace,
    writer: LedgerWriter,
    clock: Clock,
    settings: GateSettings,
    lanes: tuple[LivePlan, ...],
    arrivals_per_s: float,
    tick_ms: int,
) -> LiveDrill:
    gate = Gate(Path(args.ledger), writer, clock, settings=settings, instance=secrets.token_hex(8))
    rng = random.Random(args.seed)
    return LiveDrill(
        gate, writer, clock, rng, run=args.run, lanes=lanes, arrivals_per_s=arrivals_per_s, tick_ms=tick_ms
    )


def _lanes(args: Namespace, trace: SpotTrace | None) -> tuple[LivePlan, ...]:
    lanes: tuple[LivePlan, ...] = tuple(args.lane or LANES)
    names = [lane.name for lane in lanes]
    if len(set(names)) < len(names):
        raise UsageError("--lane: two lanes have one name")
    if not any(lane.share for lane in lanes):
        raise UsageError("--lane: no lane has a share of the tasks")
    if trace is None:
        return lanes
    traced = args.trace_lane or names[0]
    if traced not in names:
        raise UsageError(f"--trace-lane: no lane {traced!r}; there are {', '.join(names)}")
    # The default lanes are taken back at random; a trace says when, and then nothing else does.
    rate = {} if args.lane else {"preemptions_per_hour": 0.0, "hosts": 1}
    return tuple(replace(lane, trace=trace, **rate) if lane.name == traced else lane for lane in lanes)


def _lane(text: str) -> LivePlan:
    name, _, rest = text.partition(":")
    if not name or len(name.encode()) > MAX_LANE_BYTES:
        raise ArgumentTypeError(f"a lane's name has 1 to {MAX_LANE_BYTES} bytes; say {LANE_FORM}")
    if "," in name or "=" in name:
        raise ArgumentTypeError(f"'{name}' is no lane's name: put a colon behind the name; say {LANE_FORM}")
    values: dict[str, float] = {"hosts": 1, "slots_per_host": 1, "share": 1.0}
    given: set[str] = set()
    for word in filter(None, rest.split(",")):
        key, _, value = word.partition("=")
        if key not in LANE_KEYS:
            raise ArgumentTypeError(f"{key!r} is none of {', '.join(LANE_KEYS)}; say {LANE_FORM}")
        if key in given:
            raise ArgumentTypeError(f"{key} is given twice for lane {name}; give it once")
        given.add(key)
        number = _number(value)
        if key in ("hosts", "slots") and number != int(number):
            raise ArgumentTypeError(f"{key}: '{value}' is not a whole number")
        values[LANE_KEYS[key]] = number
    return LivePlan(
        name=name,
        hosts=int(values["hosts"]),
        slots_per_host=int(values["slots_per_host"]),
        share=values["share"],
        preemptions_per_hour=values.get("preemptions_per_hour", 0.0),
    )


def _tick_ms(text: str | None, trace: SpotTrace | None) -> int:
    try:
        given_ms = None if text is None else parse_duration_ms(text)
    except ValueError as error:
        raise UsageError(f"--tick: {error}") from error
    tick_ms = (TICK_MS if trace is None else max(1, round(trace.gap_s * 1000))) if given_ms is None else given_ms
    if tick_ms <= 0:
        raise UsageError("--tick: must be above 0")
    return tick_ms


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not isfinite(value) or value < 0:
        raise ArgumentTypeError(f"'{text}' is not a number of 0 or more")
    return value
