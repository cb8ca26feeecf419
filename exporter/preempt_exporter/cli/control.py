"""`control`: the admission and spend service of one ledger."""

import logging
import os
import sys
import threading
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from preempt_exporter.cli.gate_settings import ADMISSION_NAMES, gate_settings
from preempt_exporter.cli.ledger_path import ledger_path
from preempt_exporter.clock import SystemClock
from preempt_exporter.config import add_setting_arguments, resolve
from preempt_exporter.control.actions import AUTOMATIC
from preempt_exporter.control.doors import Keys
from preempt_exporter.control.serve import DEFAULT_LISTEN_ADDRESS, ControlSettings, serve_control
from preempt_exporter.control.tokens import read_or_generate_token, token_path, webhook_token_path
from preempt_exporter.control.webhook import LANE_AND_RUN_ALERTS, WebhookRules
from preempt_exporter.errors import UsageError
from preempt_exporter.http_server.hosts import host_name, is_loopback
from preempt_exporter.http_server.listen import parse
from preempt_exporter.printable import PrintableFormatter, printable
from preempt_exporter.router.router_yml import read_router_yml

log = logging.getLogger("preempt_exporter")

SETTING_NAMES = (*ADMISSION_NAMES, "task.silent-after", "log.level")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare flags."""
    parser.description = (
        "Serve admission (/v1/tasks), spend (/v1/runs), foreign lines (/v1/events), routing (/v1/route), switches "
        "(/admin) and Alertmanager's webhook (/alertmanager) for one ledger; /openapi.json describes them. Its own "
        "files lie beside the ledger."
    )
    parser.add_argument("--ledger", metavar="PATH", help="the ledger (default: $LEDGER_PATH)")
    parser.add_argument(
        "--web.listen-address",
        dest="listen",
        metavar="ADDRESS",
        action="append",
        help=f"where to listen, as HOST:PORT; repeatable (default: {DEFAULT_LISTEN_ADDRESS})",
    )
    parser.add_argument("--unix", metavar="PATH", help="listen on a Unix socket of mode 0600 instead")
    parser.add_argument(
        "--host", metavar="NAME", action="append", default=[], help="a name by which clients reach it; repeatable"
    )
    parser.add_argument(
        "--token-file",
        metavar="PATH",
        help="the bearer token; generated there when missing (default: LEDGER.control-token)",
    )
    parser.add_argument(
        "--insecure-loopback", action="store_true", help="for drills: clients on this machine need no token"
    )
    parser.add_argument("--store", metavar="URL", help="spend store (default: sqlite, in LEDGER.spend.db)")
    parser.add_argument("--artifacts", metavar="FOLDER", help="artifacts that a commit must find there (default: none)")
    parser.add_argument("--router.config", dest="router_config", metavar="FILE", help="router.yml, for /v1/route")
    webhook = parser.add_argument_group("webhook")
    webhook.add_argument("--act", action="store_true", help="carry out what alerts ask for (default: a dry run)")
    webhook.add_argument(
        "--alertmanager.token-file",
        dest="webhook_token_file",
        metavar="PATH",
        help="the webhook's own token; generated there when missing (default: LEDGER.alertmanager-token)",
    )
    webhook.add_argument(
        "--allow-alert",
        metavar="NAME",
        action="append",
        help="an alert that may act; repeatable (default: the pack's alerts on lanes and runs)",
    )
    webhook.add_argument(
        "--allow-action",
        metavar="ACTION",
        action="append",
        choices=AUTOMATIC,
        help=f"an action that may be carried out; repeatable (default: {', '.join(AUTOMATIC)})",
    )
    webhook.add_argument(
        "--allow-lane", metavar="LANE", action="append", help="a lane that may be acted on; repeatable (default: all)"
    )
    webhook.add_argument(
        "--acts-per-hour", type=_count, default=10, metavar="N", help="actions within an hour at most (default: 10)"
    )
    add_setting_arguments(parser, SETTING_NAMES)


def run(args: Namespace) -> int:
    """Serve until SIGINT or SIGTERM."""
    config = resolve(args)
    handler = logging.StreamHandler()
    handler.setFormatter(PrintableFormatter())
    logging.basicConfig(level=config.values["log.level"].upper(), handlers=[handler])
    ledger = ledger_path(args.ledger, os.environ)
    addresses = tuple(args.listen or [DEFAULT_LISTEN_ADDRESS])
    settings = ControlSettings(
        ledger=ledger,
        keys=_keys(args, ledger, addresses),
        gate=gate_settings(config),
        listen_addresses=addresses,
        unix=args.unix,
        store_url=args.store,
        artifacts=Path(args.artifacts) if args.artifacts else None,
        router=read_router_yml(args.router_config, os.environ, thresholds=config.thresholds())
        if args.router_config
        else None,
        webhook=WebhookRules(
            acts=args.act,
            alerts=frozenset(args.allow_alert or LANE_AND_RUN_ALERTS),
            actions=frozenset(args.allow_action or AUTOMATIC),
            lanes=frozenset(args.allow_lane) if args.allow_lane else None,
            most_per_hour=args.acts_per_hour,
        ),
    )

    def listening(urls: list[str]) -> None:
        for url in urls:
            log.info("control listens on %s (pid %d)", url, os.getpid())

    serve_control(settings, SystemClock(), stop=threading.Event(), on_listening=listening)
    return 0


def _keys(args: Namespace, ledger: Path, addresses: tuple[str, ...]) -> Keys:
    token = None
    hosts = {host.lower() for host in args.host}
    if not args.unix:
        named = {host_name(f"{host}:0" if ":" not in host else f"[{host}]:0") for host, _ in map(parse, addresses)}
        hosts |= named - {"", "0.0.0.0", "::"}
        elsewhere = [address for address in addresses if not _is_here(address)]
        if elsewhere and args.insecure_loopback:
            raise UsageError(f"--insecure-loopback listens on loopback only, not on {elsewhere[0]}")
        if elsewhere:
            log.warning("%s is reachable from elsewhere and speaks plain HTTP: put TLS in front of it", elsewhere[0])
    if args.insecure_loopback:
        log.warning("--insecure-loopback: whoever is on this machine may drain, admit and spend")
    else:
        token = _token("token", Path(args.token_file) if args.token_file else token_path(ledger))
    webhook_file = Path(args.webhook_token_file) if args.webhook_token_file else webhook_token_path(ledger)
    webhook_token = _token("webhook token", webhook_file)
    if token == webhook_token:
        raise UsageError("the webhook's token must be one of its own")
    return Keys(token=token, webhook_token=webhook_token, hosts=frozenset(hosts))


def _is_here(address: str) -> bool:
    host, _ = parse(address)
    return host == "localhost" or is_loopback(host)


def _token(what: str, path: Path) -> str:
    token, generated = read_or_generate_token(path)
    if generated:
        # No matter of the log's level: whoever starts it for the first time must learn where it is.
        print(f"{what} generated into {printable(str(path))}", file=sys.stderr, flush=True)
    else:
        log.info("%s read from %s", what, path)
    return token


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ArgumentTypeError(f"{text!r} is not a count")
    return int(text)
