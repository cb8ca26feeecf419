"""`act ACTION`: an alert's action, carried out once and reversibly, by the service or directly; or its runbook."""

import getpass
import json
import os
import re
import socket
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import msgspec

from preempt_exporter.cli.gate_settings import gate_settings
from preempt_exporter.cli.ledger_path import ledger_path, named_ledger
from preempt_exporter.client import ControlClient, ControlRefused, ControlUnavailable
from preempt_exporter.clock import SystemClock
from preempt_exporter.config import add_setting_arguments, resolve
from preempt_exporter.control.actions import ACTION_NAMES, FOR_A_PERSON, ActAnswer, Actions, ActRequest
from preempt_exporter.control.desk import EveryoneBut, beside, default_store_url, gate_over, lock_service
from preempt_exporter.control.tokens import read_token, token_path
from preempt_exporter.errors import UnreadableInput, UsageError
from preempt_exporter.gate.gate import Gate
from preempt_exporter.gate.switches import SwitchFile
from preempt_exporter.ledger.torn_line import end_torn_line
from preempt_exporter.ledger.writer import LedgerWriter
from preempt_exporter.rules_pack.pack import runbooks_folder
from preempt_exporter.spend.open_store import open_store
from preempt_exporter.spend.service import SpendService

MODES = ("normal", "reject_preempt_budget")
PATIENCE_S = 10.0
_RUNBOOK_ACTION = re.compile(r"^Action: `(\w+)`$", re.MULTILINE)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare flags and arguments."""
    parser.description = (
        "Carry out an alert's action: on a lane (reject_enqueue, drain_and_reject, abandon_lane, route_to_paid), on a "
        "run (stop_run), on silent tasks and expired leases (reclaim_lease); resume is the way back, mode changes the "
        "admission mode. What only a person can do prints its runbooks. Through the control service with --control, "
        "else directly through the switch file beside the ledger."
    )
    parser.add_argument("action", choices=ACTION_NAMES, metavar="ACTION", help=", ".join(ACTION_NAMES))
    parser.add_argument("mode", nargs="?", choices=MODES, metavar="MODE", help=f"for mode: {' or '.join(MODES)}")
    parser.add_argument("--lane", metavar="L", help="the lane to act on")
    parser.add_argument("--run", dest="run_name", metavar="R", help="the run to act on")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    parser.add_argument("--reason", metavar="WHY", help="why, for the ledger")
    parser.add_argument("--by", metavar="WHO", help="who, for the ledger (default: user@host)")
    parser.add_argument("--alert", metavar="NAME", help="print only this alert's runbook")
    parser.add_argument("--control", metavar="URL", help="the service: http://host:port or unix:///path")
    parser.add_argument(
        "--token-file", metavar="PATH", help="the service's token (default: LEDGER.control-token, if it is there)"
    )
    parser.add_argument("--ledger", metavar="PATH", help="the ledger, without --control (default: $LEDGER_PATH)")
    parser.add_argument(
        "--store",
        metavar="URL",
        help="spend store, without --control (default: LEDGER.spend.db, if there); stop_run stops the run there too",
    )
    parser.add_argument("--json", action="store_true", help="the answer as one object")
    add_setting_arguments(parser, ("lane.default", "task.silent-after"))


def run(args: Namespace) -> int:
    """Do it; 0 also where there was nothing to do."""
    if args.alert is not None and args.action not in FOR_A_PERSON:
        raise UsageError(f"--alert chooses a runbook, and {args.action} prints none")
    request = ActRequest(
        action=args.action,
        lane=args.lane,
        run=args.run_name,
        mode=args.mode,
        by=args.by or _who(),
        reason=args.reason,
        dry_run=args.dry_run,
    )
    if args.action in FOR_A_PERSON:
        return _print_runbooks(args.action, args.alert, as_json=args.json)
    if args.control and args.store:
        raise UsageError("--store is for acting directly: the service of --control has its own")
    answer = _through_service(args, request) if args.control else _directly(args, request)
    if args.json:
        print(json.dumps(answer))
        return 0
    in_flight = answer.get("in_flight")
    print(answer["says"] + ("" if in_flight is None else f" ({in_flight} in flight)"))
    return 0


def _through_service(args: Namespace, request: ActRequest) -> dict[str, Any]:
    fields = {name: value for name, value in msgspec.to_builtins(request).items() if value is not None}
    try:
        client = ControlClient(args.control, _token(args), patience_s=PATIENCE_S)
        return client.ask("POST", "/admin/act", fields)
    except (ValueError, ControlRefused) as error:
        unknown = isinstance(error, ControlRefused) and error.status == 401
        hint = "; give --token-file, or the ledger that the token lies beside" if unknown else ""
        raise UsageError(f"--control {args.control}: {error}{hint}") from error
    except ControlUnavailable as error:
        raise UnreadableInput(args.control, f"{error}; without --control act needs no service") from error


def _token(args: Namespace) -> str | None:
    if args.token_file:
        return read_token(Path(args.token_file))
    named = named_ledger(args.ledger, os.environ)
    path = token_path(named) if named else None
    return read_token(path) if path is not None and path.exists() else None


def _directly(args: Namespace, request: ActRequest) -> dict[str, Any]:
    ledger, clock = ledger_path(args.ledger, os.environ), SystemClock()
    if not ledger.parent.is_dir():
        raise UnreadableInput(str(ledger.parent), "no such folder for the ledger; make it, or name another ledger")
    is_new = not ledger.exists()
    with ExitStack() as stack:
        writer = stack.enter_context(LedgerWriter(ledger))
        if request.action == "reclaim_lease":
            # A running service remembers its tasks and would not see them move.
            stack.callback(os.close, lock_service(ledger))
            if not request.dry_run:
                end_torn_line(ledger)

        def gates() -> Sequence[Gate]:
            return [gate_over(ledger, writer, clock, gate_settings(resolve(args)), EveryoneBut(None))]

        actions = Actions(
            SwitchFile(ledger),
            writer,
            clock,
            gates=gates,
            spend=_spend(args.store, ledger, request, writer, stack),
            stops_in_store=args.store is not None,
        )
        answer: ActAnswer = actions.carry_out(request)
    if is_new and not request.dry_run:
        print(f"{ledger}: there was no such ledger; it begins with this", file=sys.stderr)
    told: dict[str, Any] = msgspec.to_builtins(answer)
    return told


def _spend(
    given: str | None, ledger: Path, request: ActRequest, writer: LedgerWriter, stack: ExitStack
) -> SpendService | None:
    """The spend store, where the action needs one and there is one."""
    if request.action not in ("reclaim_lease", "stop_run", "resume") or request.dry_run:
        return None
    if given is None and not beside(ledger, "spend.db").exists():
        return None
    store = stack.enter_context(closing(open_store(given or default_store_url(ledger), ledger=str(ledger))))
    return SpendService(store, writer)


def _print_runbooks(action: str, alert: str | None, *, as_json: bool) -> int:
    pages = {
        path.stem: text
        for path in sorted(runbooks_folder().glob("*.md"))
        if action in _RUNBOOK_ACTION.findall(text := path.read_text(encoding="utf-8"))
    }
    if alert is not None:
        if alert not in pages:
            raise UsageError(f"no alert {alert!r} asks for {action}; those that do: {', '.join(pages)}")
        pages = {alert: pages[alert]}
    if as_json:
        print(json.dumps({"action": action, "outcome": "for_a_person", "runbooks": pages}))
        return 0
    print(f"{action} is a person's work. Runbooks of the alerts that ask for it: {', '.join(pages)}", file=sys.stderr)
    print("\n".join(pages.values()), end="")
    return 0


def _who() -> str:
    try:
        user = os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
