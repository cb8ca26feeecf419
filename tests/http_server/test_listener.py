import asyncio
import socket

from uvicorn.config import Config

from preempt_exporter.clock import SystemClock
from preempt_exporter.http_server.listener import Listener
from preempt_exporter.http_server.patience import Patience
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
