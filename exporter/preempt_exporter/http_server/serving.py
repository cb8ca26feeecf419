"""Serves until told to stop, and lets requests in flight finish."""

import asyncio
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from uvicorn.config import Config

from preempt_exporter.http_server.listener import Listener
from preempt_exporter.http_server.request_target import OriginForm

STOP_LOOK_S = 0.1
MAX_HEADER_BYTES = 16 * 1024


def uvicorn_config(application: Any, *, idle_s: float) -> Config:
    """How uvicorn's protocol serves an ASGI application: sockets, TLS, signals and logging are ours."""
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    config = Config(
        OriginForm(application),
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


async def serve_until(stop: threading.Event, listener: Listener, *, on_listening: Callable[[], None]) -> None:
    """Accept clients until `stop` is set or, in the main thread, SIGINT or SIGTERM arrives (which sets `stop`).

    Returns when requests in flight have finished, or the listener's patience has ended.
    """
    with _signals_set(stop):
        listener.start()
        on_listening()
        while not stop.is_set():
            await asyncio.sleep(STOP_LOOK_S)
        await listener.stop()


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
