"""`drill batch`: jobs over lanes that can be killed at any instant, and what it takes to lose and repeat nothing."""

import math
import os
import secrets
import sys
import threading
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from preempt_exporter.cli.route import SHARED_THRESHOLDS
from preempt_exporter.clock import SystemClock
from preempt_exporter.config import add_setting_arguments, resolve
from preempt_exporter.decide.routing import RoutingPolicy
from preempt_exporter.drill.batch import BatchDrill
from preempt_exporter.drill.batch_cleanup import drop_telemetry, paid_lanes_required_slack_s, set_require_slack_s
from preempt_exporter.drill.batch_database import BatchDatabase
from preempt_exporter.drill.batch_folder import BatchFolder
from preempt_exporter.drill.batch_jobs import (
    DEFAULT_JOBS,
    DEFAULT_OUTPUT_BYTES,
    MAX_OUTPUT_BYTES,
    SIX_HOURS_MS,
    default_jobs,
    read_jobs,
    write_jobs,
)
from preempt_exporter.drill.batch_keys import ask_key
from preempt_exporter.drill.batch_lane import LaneWorker
from preempt_exporter.drill.batch_state import BatchState
from preempt_exporter.drill.batch_summary import in_words, summary_of
from preempt_exporter.errors import UsageError
from preempt_exporter.gate.switches import SwitchFile
from preempt_exporter.ledger.records import MAX_LANE_BYTES
from preempt_exporter.ledger.writer import LedgerWriter
from preempt_exporter.own_file import own_file
from preempt_exporter.router.router import Router
from preempt_exporter.router.router_yml import (
    FREE_LANE,
    LaneConfig,
    RouterConfig,
    read_router_yml,
    with_free_lane_limits,
)
from preempt_exporter.state.telemetry import Telemetry
from preempt_exporter.stopping import stopping_at_signals
from preempt_exporter.tail.batch import read_batch

PAID_LANE = "paid"
REQUIRE_SLACK_S = 3600.0
CLEANUP_PATIENCE_S = 60.0
LOOK_S = 0.05
STOPPED = 130


def add_arguments(parser: ArgumentParser) -> None:
    """Declare flags and arguments."""
    parser.description = (
        "Play jobs through the router and a worker process per lane. Kill it with 'kill -9' whenever you like and run "
        "it again with --resume: jobs go on at their last checkpoint, no side effect happens twice, no job is lost."
    )
    parser.add_argument(
        "--lane", default=FREE_LANE, type=_lane, metavar="LANE", help="the lane to begin in (default: %(default)s)"
    )
    parser.add_argument("--jobs", metavar="FILE", help="jobs as JSON Lines; written where it is empty or not there")
    parser.add_argument("--telemetry", metavar="FILE", help="attempt lines go there; the batch's state lies beside it")
    parser.add_argument("--resume", action="store_true", help="go on with the batch that was begun")
    parser.add_argument("--config", metavar="ROUTER_YML", help="lanes and admission (default: LANE, then paid)")
    parser.add_argument(
        "--count", type=_count, default=DEFAULT_JOBS, metavar="N", help="jobs of a new file (default: %(default)s)"
    )
    parser.add_argument(
        "--output-bytes",
        type=_output_bytes,
        default=DEFAULT_OUTPUT_BYTES,
        metavar="N",
        help="output of each job of a new file (default: %(default)s)",
    )
    parser.add_argument(
        "--step-bytes",
        type=_count,
        default=256,
        metavar="N",
        help="output between two checkpoints (default: %(default)s)",
    )
    parser.add_argument(
        "--step-ms", type=_seconds, default=2.0, metavar="MS", help="how long a step takes (default: 2)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--query", metavar="KEY", help="ask the dedupe table what happened under an idempotency key")
    parser.add_argument(
        "--cleanup",
        action="store_true",
        help="wait for what is in flight, drop the batch's telemetry and keys, and with --config set require_slack_s "
        "back to the paid lane's",
    )
    parser.add_argument(
        "--require-slack-s",
        type=_seconds,
        metavar="S",
        help="what --cleanup sets (default: the paid lane's required slack, measured in the telemetry)",
    )
    add_setting_arguments(parser, SHARED_THRESHOLDS)


def run(args: Namespace) -> int:
    """Play, query or clean up."""
    if args.query is not None:
        return _query(args)
    if args.telemetry is None:
        raise UsageError("--telemetry FILE is missing: say where the attempt lines are to go")
    own_file(Path(args.telemetry), "--telemetry")
    if args.cleanup:
        return _clean_up(args)
    if args.require_slack_s is not None:
        raise UsageError("--require-slack-s belongs to --cleanup")
    if args.jobs is None:
        raise UsageError("--jobs FILE is missing: name the jobs, or a file that is to be written with default ones")
    return _play(args)


def _play(args: Namespace) -> int:
    config = _router_config(args)
    telemetry, clock = Path(args.telemetry), SystemClock()
    folder, switches = BatchFolder(telemetry), SwitchFile(telemetry)
    stop = threading.Event()
    with stopping_at_signals(stop), folder.held(), closing(BatchDatabase(folder.state_path)) as database:
        state = BatchState(database, clock)
        if state.run is not None and not args.resume:
            raise UsageError(f"a batch was begun in {folder.path}; --resume goes on with it, --cleanup drops it")
        _settle_jobs(args, state, config)
        workers = [
            LaneWorker(lane.name, state=folder.state_path, step_bytes=args.step_bytes, step_s=args.step_ms / 1000)
            for lane in config.lanes
        ]
        with LedgerWriter(telemetry, fsync=False) as writer, _progress() as on_progress:
            drill = BatchDrill(
                state,
                Router(config),
                writer,
                clock,
                workers=workers,
                lane_actions=lambda: switches.read().lane_actions(),
                on_progress=on_progress,
            )
            drill.play(Telemetry(read_batch([str(telemetry)]) if telemetry.exists() else ()), stop)
        summary, cleaned_up = summary_of(state), state.is_draining()
    print(msgspec.json.encode(summary).decode() if args.json else in_words(summary))
    if summary.left:
        print(f"drill batch: {_why_left(stopped=stop.is_set(), cleaned_up=cleaned_up)}", file=sys.stderr)
        return STOPPED
    return 0


def _why_left(*, stopped: bool, cleaned_up: bool) -> str:
    if cleaned_up:
        return "stopped by --cleanup, which drops the batch; a new one begins without --resume"
    why = "stopped" if stopped else "lanes are under an action, and jobs wait for 'act resume'"
    return f"{why}; --resume goes on"


def _settle_jobs(args: Namespace, state: BatchState, config: RouterConfig) -> None:
    """Begin a batch with the file's jobs, written first where there are none; or see that they are still the same."""
    path = Path(args.jobs)
    run_name = state.run or f"drill-batch-{secrets.token_hex(6)}"
    deadline_ms = resolve(args).tasks().defaults.deadline_ms or SIX_HOURS_MS
    jobs = read_jobs(path, run_name, deadline_ms=deadline_ms)
    if state.run is not None:
        state.refuse_other_jobs(jobs)
        return
    if not jobs:
        write_jobs(path, default_jobs(args.count, args.output_bytes))
        jobs = read_jobs(path, run_name, deadline_ms=deadline_ms)
    state.begin(run_name, jobs, lambda job: config.idempotency_key_for(job.job_name, run_name) or job.job_name)


def _router_config(args: Namespace) -> RouterConfig:
    """The file's lanes from the named one on, or the named one and then `paid`."""
    thresholds = resolve(args).thresholds()
    if args.config is None:
        names = [args.lane] if args.lane == PAID_LANE else [args.lane, PAID_LANE]
        lanes = [LaneConfig(name=name, idempotency_key="{{ job_id }}") for name in names]
        policy = RoutingPolicy(thresholds=thresholds, require_slack_s=REQUIRE_SLACK_S)
        return RouterConfig(lanes=tuple(with_free_lane_limits(lane, os.environ) for lane in lanes), policy=policy)
    config = read_router_yml(args.config, os.environ, thresholds=thresholds)
    names = [lane.name for lane in config.lanes]
    if args.lane not in names:
        raise UsageError(f"--lane {args.lane}: {args.config} has {', '.join(names)}")
    return msgspec.structs.replace(config, lanes=config.lanes[names.index(args.lane) :])


def _query(args: Namespace) -> int:
    folder = _folder_to_query(args)
    with closing(BatchDatabase(folder.state_path, read_only=True)) as database:
        answer = ask_key(database, args.query)
    if args.json:
        print(msgspec.json.encode(answer).decode())
        return 0
    print(f"key       {answer.key}")
    print(f"asked     {answer.asked}")
    print(f"happened  {answer.happened}")
    if answer.effect is not None:
        effect = answer.effect
        print(f"by        job {effect.job_id}, lane {effect.lane}, attempt {effect.attempt}, at {effect.ts_ms} ms")
        print(f"output    {effect.output_digest}")
    return 0


def _folder_to_query(args: Namespace) -> BatchFolder:
    """The batch of `--telemetry`, of LEDGER_PATH, or the only one in the working directory."""
    named = args.telemetry or os.environ.get("LEDGER_PATH")
    found = [named] if named else [str(path).removesuffix(".batch") for path in sorted(Path().glob("*.batch"))]
    folders = [folder for folder in (BatchFolder(Path(telemetry)) for telemetry in found) if folder.exists()]
    if len(folders) != 1:
        where = f"beside {named}" if named else "in this folder" if not folders else "alone in this folder"
        raise UsageError(f"--query: there is no batch {where}; name its --telemetry FILE")
    return folders[0]


def _clean_up(args: Namespace) -> int:
    telemetry, folder, clock = args.telemetry, BatchFolder(Path(args.telemetry)), SystemClock()
    if args.require_slack_s is not None and args.config is None:
        raise UsageError("--require-slack-s S is written into a router.yml: name it with --config")
    if not folder.exists():
        print(f"{folder.path}: no batch there, nothing was dropped")
        _set_slack_back(args)
        return 0
    with closing(BatchDatabase(folder.state_path)) as database:
        state = BatchState(database, clock)
        state.drain()
        give_up_s = clock.monotonic_s() + CLEANUP_PATIENCE_S

        def wait() -> bool:
            clock.sleep(LOOK_S)
            return clock.monotonic_s() < give_up_s

        with folder.held(wait=wait):
            _set_slack_back(args)
            dropped = drop_telemetry(read_batch([telemetry]) if Path(telemetry).exists() else (), state.run)
            folder.remove()
    if dropped.lines_of_others:
        print(
            f"{telemetry} stays: it holds {dropped.lines_of_others} lines of others too, and a ledger is append-only; "
            f"the drill's lines have run {state.run}"
        )
    for path in dropped.removed:
        print(f"{path} dropped")
    print(f"{folder.path} dropped: keys and checkpoints of run {state.run}")
    return 0


def _set_slack_back(args: Namespace) -> None:
    if args.config is None:
        return
    thresholds = resolve(args).thresholds()
    config = read_router_yml(args.config, os.environ, thresholds=thresholds)
    slack_s, origin = args.require_slack_s, "as you said"
    if slack_s is None:
        telemetry = Path(args.telemetry)
        attempts = Telemetry(read_batch([str(telemetry)]) if telemetry.exists() else ())
        slack_s = paid_lanes_required_slack_s(config, attempts)
        origin = f"what lane {config.lanes[-1].name} requires as measured in {telemetry}"
    before = set_require_slack_s(
        Path(args.config), slack_s, lambda path: read_router_yml(path, os.environ, thresholds=thresholds)
    )
    print(f"{args.config}: require_slack_s was {before}, is {slack_s:.15g}: {origin}")


@contextmanager
def _progress() -> Iterator[Callable[[int], None]]:
    if not sys.stderr.isatty():
        yield lambda ended: None
        return
    from rich.console import Console

    with Console(stderr=True).status("drill batch") as status:
        yield lambda ended: status.update(f"drill batch: {ended} attempts ended; kill -9 {os.getpid()} if you dare")


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= 10_000_000:
        raise ArgumentTypeError(f"{text!r} is not a count of 1 or more")
    return int(text)


def _output_bytes(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) > MAX_OUTPUT_BYTES:
        raise ArgumentTypeError(f"{text!r} is not a number of bytes up to {MAX_OUTPUT_BYTES}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise ArgumentTypeError(f"{text!r} is not a number of 0 or more")
    return value


def _lane(text: str) -> str:
    if not 1 <= len(text.encode(errors="surrogatepass")) <= MAX_LANE_BYTES:
        raise ArgumentTypeError(f"a lane's name has 1 to {MAX_LANE_BYTES} bytes")
    return text
