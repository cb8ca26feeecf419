"""Ties it together: binds, serves until told to stop, lets requests in flight finish."""

import asyncio
import socket
import threading
from collections.abc import Callable

from preempt_exporter.clock import Clock, SystemClock
from preempt_exporter.http_server import listen
from preempt_exporter.http_server.hosts import host_name
from preempt_exporter.http_server.listener import Listener
from preempt_exporter.http_server.serving import serve_until, uvicorn_config
from preempt_exporter.web.doorkeeper import Doorkeeper
from preempt_exporter.web.live_config import LiveConfig
from preempt_exporter.web.password_turns import PasswordTurns
from preempt_exporter.web.routes import Routes
from preempt_exporter.web.settings import WebSettings
from preempt_exporter.web.shared_work import SharedWork
from preempt_exporter.web.source import Exposition
from preempt_exporter.web.tls import carries_allowed_name, gives_what_is_asked


def serve(
    exposition: Exposition,
    settings: WebSettings,
    *,
    stop: threading.Event,
    on_listening: Callable[[list[str]], None],
    clock: Clock | None = None,
) -> None:
    """Serve `exposition` until `stop` is set or, in the main thread, SIGINT or SIGTERM arrives (which sets `stop`).

    `on_listening` is called once with the URLs, ports that the system chose included, when clients can connect.
    Returns when requests in flight have finished, `patience.shutdown_s` later at most. `UsageError` where an address
    cannot be had, `ConfigError` where the web configuration is broken, both before anything is served.
    """
    live_config = LiveConfig(settings.config_file)
    sockets = listen.bind(settings.listen_addresses)
    try:
        asyncio.run(
            _serve(
                exposition,
                settings,
                live_config=live_config,
                sockets=sockets,
                stop=stop,
                on_listening=on_listening,
                clock=clock or SystemClock(),
            )
        )
    finally:
        for listening in sockets:
            listening.close()


async def _serve(
    exposition: Exposition,
    settings: WebSettings,
    *,
    live_config: LiveConfig,
    sockets: list[socket.socket],
    stop: threading.Event,
    on_listening: Callable[[list[str]], None],
    clock: Clock,
) -> None:
    scrapes, questions = SharedWork("scrape", threads=2), SharedWork("question", threads=1)
    passwords = PasswordTurns()
    routes = Routes(
        exposition,
        scrapes=scrapes,
        questions=questions,
        live_config=live_config,
        audience=settings.page,
        listen_hosts=_listen_hosts(settings),
    )
    application = Doorkeeper(routes.application(), live_config=live_config, passwords=passwords)
    listener = Listener(
        uvicorn_config(application, idle_s=settings.patience.idle_s),
        sockets,
        tls=lambda: live_config.current().tls,
        refuses=lambda transport: _refuses(live_config, transport),
        patience=settings.patience,
        clock=clock,
    )
    urls = [listen.url(listening, tls=live_config.current().tls is not None) for listening in sockets]
    await serve_until(stop, listener, on_listening=lambda: on_listening(urls))
    for pool in (scrapes, questions, passwords):
        pool.close()


def _refuses(live_config: LiveConfig, transport: asyncio.Transport) -> bool:
    config = live_config.current()
    if not gives_what_is_asked(transport, config.tls):
        return True
    return bool(config.client_allowed_sans) and not carries_allowed_name(transport, config.client_allowed_sans)


def _listen_hosts(settings: WebSettings) -> frozenset[str]:
    return frozenset(host_name(address) for address in settings.listen_addresses) - {""}
