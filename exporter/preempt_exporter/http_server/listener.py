"""Accepts clients, keeps their number and their slowness within bounds, and lets them finish when we stop.

The bound is kept by closing the connection that is nearest to the end of our patience, never by turning away the new
one: the new one may be the scrape.
"""

import asyncio
import contextlib
import resource
import socket
import ssl
from collections.abc import Callable
from email.utils import formatdate

from uvicorn.config import Config
from uvicorn.server import ServerState

from preempt_exporter.clock import Clock
from preempt_exporter.http_server.connection import HttpProtocol, Visit
from preempt_exporter.http_server.patience import Patience

SWEEP_S = 0.25
ACCEPT_PAUSE_S = 0.01
"""After the system refused a connection (no descriptors, no memory) and one was closed to make room."""
FEWEST_CONNECTIONS = 8


class Listener:
    """Serves one ASGI application on listening sockets."""

    def __init__(
        self,
        config: Config,
        sockets: list[socket.socket],
        *,
        tls: Callable[[], ssl.SSLContext | None],
        refuses: Callable[[asyncio.Transport], bool],
        patience: Patience,
        clock: Clock,
    ) -> None:
        """`tls` is asked for each new connection, `refuses` about each after its handshake and before each request."""
        self._config = config
        self._sockets = sockets
        self._tls = tls
        self._refuses = refuses
        self._patience = patience
        self._clock = clock
        self._state = ServerState()
        self._visits: set[Visit] = set()
        self._accepted = 0
        self._most_connections = _affordable(patience.connections)
        self._loops: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to accept, on the running event loop."""
        self._set_date()
        self._loops = [asyncio.create_task(self._accept_from(listening)) for listening in self._sockets]
        self._loops.append(asyncio.create_task(self._sweep()))

    async def stop(self) -> None:
        """Accept nothing more, let requests in flight finish within `shutdown_s`, then cut."""
        for loop in self._loops[:-1]:
            loop.cancel()
        for listening in self._sockets:
            listening.close()
        for visit in list(self._visits):
            visit.finish()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._patience.shutdown_s):
                while self._visits:
                    await asyncio.sleep(0.02)
        for visit in list(self._visits):
            visit.cut()
        self._loops[-1].cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)

    def welcome(self, client: socket.socket) -> None:
        """Take over a connected socket: from here on it is closed by us, whatever happens."""
        protocol = HttpProtocol(
            self._config, self._state, refuses=self._refuses, on_lost=lambda: self._visits.discard(visit)
        )
        self._accepted += 1
        visit = Visit(protocol, number=self._accepted, now_s=self._clock.monotonic_s())
        self._visits.add(visit)
        visit.arrival = asyncio.create_task(self._shake_hands(protocol, client))
        visit.arrival.add_done_callback(lambda arrival: self._arrived(visit, client, arrival))

    async def _accept_from(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(listening)
            except ConnectionAbortedError:
                continue
            except OSError:
                self._make_room()
                await asyncio.sleep(ACCEPT_PAUSE_S)
                continue
            if len(self._visits) >= self._most_connections:
                self._make_room()
            self.welcome(client)
            # A full backlog is accepted without ever waiting: let the requests have their turn.
            await asyncio.sleep(0)

    async def _shake_hands(self, protocol: HttpProtocol, client: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        tls = self._tls()
        if tls is None:
            await loop.connect_accepted_socket(lambda: protocol, client)
        else:
            await loop.connect_accepted_socket(
                lambda: protocol,
                client,
                ssl=tls,
                ssl_handshake_timeout=self._patience.handshake_s,
                ssl_shutdown_timeout=self._patience.close_s,
            )

    def _arrived(self, visit: Visit, client: socket.socket, arrival: asyncio.Task[None]) -> None:
        # Nobody is to be told of a failure: strangers probe, clients hang up, handshakes fail or take too long. Here
        # and not in the task, because a task that is cancelled before its first step never comes to clean up.
        if arrival.cancelled() or arrival.exception() is not None:
            client.close()
            self._visits.discard(visit)

    def _make_room(self) -> None:
        now_s = self._clock.monotonic_s()
        if self._visits:
            worst = max(
                self._visits,
                key=lambda visit: (
                    not visit.waits_for_us(),  # a scrape in flight makes room last, however slow we are
                    visit.spent_patience(now_s, self._patience),
                    -visit.number,
                ),
            )
            worst.cut()
            self._visits.discard(worst)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            self._set_date()
            now_s = self._clock.monotonic_s()
            for visit in list(self._visits):
                if visit.spent_patience(now_s, self._patience) > 1:
                    visit.cut()

    def _set_date(self) -> None:
        now_s = self._clock.now_ms() / 1000
        self._state.default_headers = [(b"date", formatdate(now_s, usegmt=True).encode("ascii"))]


def _affordable(connections: int) -> int:
    """At most `connections`, and no more than half of the descriptors that this process may have: ledgers need some."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        return connections
    return max(FEWEST_CONNECTIONS, min(connections, most // 2))
