import asyncio
import socket

import pytest
from uvicorn.config import Config

from preempt_exporter.clock import SystemClock
from preempt_exporter.http_server.listener import Listener
from preempt_exporter.http_server.patience import Patience
from preempt_exporter.http_server.serving import uvicorn_config
from preempt_exporter.web.payload import Payload


def test_a_client_that_arrives_at_the_very_moment_of_stopping_is_closed_and_delays_nothing() -> None:
    """Its connection has not taken its first step when everything is told to end."""

    async def scenario(ours: socket.socket) -> None:
        config = Config(Payload(b"", {}), http="h11", ws="none", lifespan="off", log_config=None)
        listener = Listener(
            config,
            [],
            tls=lambda: None,
            refuses=lambda transport: False,
            patience=Patience(shutdown_s=3600),
            clock=SystemClock(),
        )
        listener.start()
        listener.welcome(ours)
        async with asyncio.timeout(10):
            await listener.stop()

    ours, theirs = socket.socketpair()
    with theirs:
        asyncio.run(scenario(ours))
        theirs.settimeout(10)
        assert theirs.recv(1) == b""


def test_garbage_in_a_body_whose_request_was_answered_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    """There is no second answer to the request, and no traceback in the log for want of one."""

    async def scenario(ours: socket.socket, theirs: socket.socket) -> bytes:
        listener = Listener(
            uvicorn_config(Payload(b"answer", {}), idle_s=3600),
            [],
            tls=lambda: None,
            refuses=lambda transport: False,
            patience=Patience(request_s=3600, idle_s=3600),
            clock=SystemClock(),
        )
        listener.start()
        listener.welcome(ours)
        reader, writer = await asyncio.open_connection(sock=theirs)
        writer.write(b"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
        async with asyncio.timeout(10):
            answer = await reader.readuntil(b"answer")
            writer.write(b"zz\r\n")
            answer += await reader.read()
            writer.close()
            await listener.stop()
        return answer

    assert asyncio.run(scenario(*socket.socketpair())).count(b"HTTP/1.1") == 1
    assert caplog.text == ""
