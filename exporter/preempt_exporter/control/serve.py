"""Ties it together: opens the ledger's desk, listens, serves until told to stop."""

import asyncio
import logging
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec import Struct

from preempt_exporter.clock import Clock
from preempt_exporter.control.application import Application
from preempt_exporter.control.desk import Desk, beside
from preempt_exporter.control.doors import Doors, Keys
from preempt_exporter.control.routing import RoutingDesk
from preempt_exporter.control.table import OPERATIONS
from preempt_exporter.control.webhook import Webhook, WebhookRules, webhook_operation
from preempt_exporter.errors import StoreUnavailable
from preempt_exporter.gate.settings import GateSettings
from preempt_exporter.http_server import listen
from preempt_exporter.http_server.listener import Listener
from preempt_exporter.http_server.patience import Patience
from preempt_exporter.http_server.serving import serve_until, uvicorn_config
from preempt_exporter.router.router_yml import RouterConfig

_log = logging.getLogger(__name__)

DEFAULT_LISTEN_ADDRESS = "127.0.0.1:8080"
THREADS = 8
HOUSEKEEPING_S = 30.0


class ControlSettings(Struct, frozen=True, kw_only=True):
    """Everything that the service needs to know."""

    ledger: Path
    keys: Keys
    gate: GateSettings
    listen_addresses: tuple[str, ...] = (DEFAULT_LISTEN_ADDRESS,)
    unix: str | None = None
    """Path of a Unix socket; then it listens there alone."""
    store_url: str | None = None
    """None: a SQLite file beside the ledger."""
    artifacts: Path | None = None
    router: RouterConfig | None = None
    webhook: WebhookRules = WebhookRules()
    patience: Patience = Patience()


def serve_control(
    settings: ControlSettings, clock: Clock, *, stop: threading.Event, on_listening: Callable[[list[str]], None]
) -> None:
    """Serve until `stop` is set or, in the main thread, SIGINT or SIGTERM arrives.

    `on_listening` is called once with the URLs. Raises `UsageError`, `UnreadableInput` or `StoreUnavailable` before
    anything is served. Whatever was answered is on disk, so being killed is a way to stop as well.
    """
    routing = None if settings.router is None else RoutingDesk(settings.router, settings.ledger, clock)
    desk = Desk(
        settings.ledger,
        clock,
        gate_settings=settings.gate,
        store_url=settings.store_url,
        artifacts=settings.artifacts,
        routing=routing,
    )
    try:
        webhook = Webhook(beside(settings.ledger, "webhook"), desk.actions, settings.webhook, clock)
        try:
            sockets = [listen.bind_unix(settings.unix)] if settings.unix else listen.bind(settings.listen_addresses)
            try:
                asyncio.run(_serve(settings, desk, webhook, clock, sockets, stop=stop, on_listening=on_listening))
            finally:
                for listening in sockets:
                    listening.close()
                if settings.unix:
                    Path(settings.unix).unlink(missing_ok=True)
        finally:
            webhook.close()
    finally:
        desk.close()


async def _serve(
    settings: ControlSettings,
    desk: Desk,
    webhook: Webhook,
    clock: Clock,
    sockets: list[socket.socket],
    *,
    stop: threading.Event,
    on_listening: Callable[[list[str]], None],
) -> None:
    with ThreadPoolExecutor(THREADS, thread_name_prefix="control") as threads:
        application = Doors(
            Application(desk, (*OPERATIONS, webhook_operation(webhook)), threads),
            settings.keys,
        )
        listener = Listener(
            uvicorn_config(application, idle_s=settings.patience.idle_s),
            sockets,
            tls=lambda: None,
            refuses=lambda transport: False,
            patience=settings.patience,
            clock=clock,
        )
        urls = [listen.url(listening, tls=False) for listening in sockets]
        keeper = asyncio.create_task(_keep_house(desk, threads))
        try:
            await serve_until(stop, listener, on_listening=lambda: on_listening(urls))
        finally:
            keeper.cancel()


async def _keep_house(desk: Desk, threads: ThreadPoolExecutor) -> None:
    """Spend lines that a full disk held up go out once it has room, and old idempotency keys are forgotten."""

    def work() -> None:
        try:
            desk.spend.append_pending()
            desk.once.forget_old()
        except StoreUnavailable as error:
            _log.warning("%s", error)

    while True:
        await asyncio.sleep(HOUSEKEEPING_S)
        await asyncio.get_running_loop().run_in_executor(threads, work)
