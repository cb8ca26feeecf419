"""`route`: which lane a job goes to, why, and which row of the decision table said so."""

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from msgspec.structs import asdict

from preempt_exporter.clock import SystemClock
from preempt_exporter.config import add_setting_arguments, resolve
from preempt_exporter.gate.switches import SwitchFile
from preempt_exporter.printable import printable
from preempt_exporter.router.job_request import JobRequest, job_from_json
from preempt_exporter.router.router import Router
from preempt_exporter.router.router_yml import LaneConfig, RouterConfig, read_router_yml
from preempt_exporter.state.telemetry import Telemetry
from preempt_exporter.tail.batch import read_batch

SHARED_THRESHOLDS = (
    "thresholds.queue-age-frac",
    "thresholds.rework-max",
    "thresholds.interventions-per-100-max",
    "thresholds.margin-s",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Flags of `route`."""
    parser.description = (
        "Ask the decision table for one job: not idempotent, deadline, queue age, checkpoint, rework, interventions, "
        "host, slack. The first row that matches decides and is named. Lanes under an action are not chosen: the "
        "switch files beside the telemetry and LEDGER_PATH say which."
    )
    parser.add_argument(
        "--config", required=True, metavar="ROUTER_YML", help="lanes, admission, the table's thresholds"
    )
    parser.add_argument(
        "--telemetry", required=True, nargs="+", metavar="T", help="attempt lines: files, globs, folders; .gz and .zst"
    )
    parser.add_argument(
        "--job", required=True, metavar="JSON", help="an object with " + ", ".join(JobRequest.__struct_fields__)
    )
    parser.add_argument("--json", action="store_true", help="the decision as one object")
    add_setting_arguments(parser, SHARED_THRESHOLDS)


def run(args: Namespace) -> int:
    """Read, ask, show."""
    config = read_router_yml(args.config, os.environ, thresholds=resolve(args).thresholds())
    job, ignored = job_from_json(args.job)
    if ignored:
        print(f"route: --job: ignored unknown fields: {printable(', '.join(ignored))}", file=sys.stderr)
    telemetry = Telemetry(read_batch(args.telemetry))
    router = Router(config)
    router.add_all(telemetry)
    if telemetry.bad_lines:
        print(f"route: {telemetry.bad_lines} bad lines in the telemetry were left out", file=sys.stderr)
    decision = router.route(
        job,
        now_ms=SystemClock().now_ms(),
        lane_actions=_lane_actions([*args.telemetry, *filter(None, [os.environ.get("LEDGER_PATH")])]),
        preempts_by_host=telemetry.preempts_by_host(),
    )
    lane = next((lane for lane in config.lanes if lane.name == decision.lane), None)
    answer: dict[str, object] = {
        "job_id": job.job_name,
        **asdict(decision),
        "idempotency_key": _key_in(lane, config, job),
        "attempts": {name: asdict(history) for name, history in router.history_of(job).items()},
    }
    if args.json:
        print(json.dumps(answer))
        return 0
    print(f"lane    {printable(decision.lane or '-')}")
    print(f"row     {decision.row}")
    print(f"reason  {printable(decision.reason)}")
    if decision.avoid_host:
        print(f"avoid   {printable(decision.avoid_host)}")
    return 0


def _key_in(lane: LaneConfig | None, config: RouterConfig, job: JobRequest) -> str | None:
    """The key under which the job runs in the lane: the lane's own, else the one that goes along with the job."""
    if lane is None:
        return None
    own = lane.idempotency_key_for(job.job_name, job.run_name)
    return config.idempotency_key_for(job.job_name, job.run_name) if own is None else own


def _lane_actions(ledgers: Sequence[str]) -> dict[str, str]:
    """The actions in the switch files beside these ledgers; a folder or glob has none."""
    actions: dict[str, str] = {}
    for ledger in ledgers:
        actions.update(SwitchFile(ledger).read().lane_actions())
    return actions
