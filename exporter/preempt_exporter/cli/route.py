"""`route`: which lane a job goes to, why, and which row of the decision table said so."""

import json
import os
import sys
from argparse import ArgumentParser, Namespace

from msgspec.structs import asdict

from preempt_exporter.clock import SystemClock
from preempt_exporter.router.job_request import JobRequest, job_from_json
from preempt_exporter.router.router import Router
from preempt_exporter.router.router_yml import read_router_yml
from preempt_exporter.state.telemetry import Telemetry
from preempt_exporter.tail.batch import read_batch


def add_arguments(parser: ArgumentParser) -> None:
    """Flags of `route`."""
    parser.description = (
        "Ask the decision table for one job: not idempotent, deadline, queue age, checkpoint, rework, interventions, "
        "host, slack. The first row that matches decides and is named."
    )
    parser.add_argument("--config", required=True, metavar="ROUTER_YML", help="lanes and admission")
    parser.add_argument(
        "--telemetry", required=True, nargs="+", metavar="T", help="attempt lines: files, globs, folders; .gz and .zst"
    )
    parser.add_argument(
        "--job", required=True, metavar="JSON", help="an object with " + ", ".join(JobRequest.__struct_fields__)
    )
    parser.add_argument("--json", action="store_true", help="the decision as one object")


def run(args: Namespace) -> int:
    """Read, ask, show."""
    config = read_router_yml(args.config, os.environ)
    job, ignored = job_from_json(args.job)
    if ignored:
        print(f"route: --job: ignored unknown fields: {', '.join(ignored)}", file=sys.stderr)
    telemetry = Telemetry(read_batch(args.telemetry))
    router = Router(config)
    router.add_all(telemetry)
    if telemetry.bad_lines:
        print(f"route: {telemetry.bad_lines} bad lines in the telemetry were left out", file=sys.stderr)
    decision = router.route(job, now_ms=SystemClock().now_ms(), preempts_by_host=telemetry.preempts_by_host())
    lane = next((lane for lane in config.lanes if lane.name == decision.lane), None)
    answer: dict[str, object] = {
        "job_id": job.job_name,
        **asdict(decision),
        "idempotency_key": lane.idempotency_key_for(job.job_name, job.run_name) if lane else None,
        "attempts": {name: asdict(history) for name, history in router.history_of(job).items()},
    }
    if args.json:
        print(json.dumps(answer))
        return 0
    print(f"lane    {decision.lane or '-'}")
    print(f"row     {decision.row}")
    print(f"reason  {decision.reason}")
    if decision.avoid_host:
        print(f"avoid   {decision.avoid_host}")
    return 0
