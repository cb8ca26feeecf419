"""Ties it together: binds, serves until told to stop, lets requests in flight finish."""

import asyncio
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from uvicorn.config import Config

from preempt_exporter.clock import Clock, SystemClock
from preempt_exporter.web import listen
from preempt_exporter.web.access import host_name
from preempt_exporter.web.doorkeeper import Doorkeeper
from preempt_exporter.web.listener import Listener
from preempt_exporter.web.live_config import LiveConfig
from preempt_exporter.web.routes import Routes
from preempt_exporter.web.settings import WebSettings
from preempt_exporter.web.shared_work import SharedWork
from preempt_exporter.web.source import Exposition
from preempt_exporter.web.tls import carries_allowed_name

STOP_LOOK_S = 0.1
MAX_HEADER_BYTES = 16 * 1024


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
    pools = [SharedWork("scrape", threads=2), SharedWork("question", threads=1), SharedWork("password", threads=1)]
    scrapes, questions, passwords = pools
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
        _uvicorn_config(application, idle_s=settings.patience.idle_s),
        sockets,
        tls=lambda: live_config.current().tls,
        refuses=lambda transport: _refuses(live_config, transport),
        patience=settings.patience,
        clock=clock,
    )
    with _signals_set(stop):
        listener.start()
        on_listening([listen.url(listening, tls=live_config.current().tls is not None) for listening in sockets])
        while not stop.is_set():
            await asyncio.sleep(STOP_LOOK_S)
        await listener.stop()
    for pool in pools:
        pool.close()


def _uvicorn_config(application: Doorkeeper, *, idle_s: float) -> Config:
    # What belongs to the connection is uvicorn's; sockets, TLS, signals and logging are ours.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    config = Config(
        application,
        http="h11",
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=max(1, round(idle_s)),
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
    )
    config.load()
    return config


def _refuses(live_config: LiveConfig, transport: asyncio.Transport) -> bool:
    allowed = live_config.current().client_allowed_sans
    return bool(allowed) and not carries_allowed_name(transport, allowed)


def _listen_hosts(settings: WebSettings) -> frozenset[str]:
    return frozenset(host_name(address) for address in settings.listen_addresses) - {""}


@contextmanager
def _signals_set(stop: threading.Event) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
