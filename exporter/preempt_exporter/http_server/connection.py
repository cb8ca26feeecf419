"""One client connection, from accept to close: what it waits for, and when it has waited too long.

uvicorn's HTTP/1.1 protocol times nothing but the pause between two requests, so a client that stops in the middle of
a handshake, of a request or of reading its answer would be kept for ever. Here each connection is asked what it is
waiting for, twice a second or more often, and closed when that has lasted too long.
"""

import asyncio
import enum
from collections.abc import Callable

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from preempt_exporter.http_server.patience import Patience


class Waiting(enum.Enum):
    """What a connection waits for."""

    HANDSHAKE = "handshake_s"
    REQUEST = "request_s"
    ANSWER = "answer_s"
    SEND = "send_s"
    IDLE = "idle_s"
    CLOSE = "close_s"


class HttpProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 that tells when the connection is lost and can refuse a client, at once or later."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        *,
        refuses: Callable[[asyncio.Transport], bool],
        on_lost: Callable[[], None],
    ) -> None:
        """`refuses` sees the transport after the handshake and before each request; True closes it unanswered."""
        super().__init__(config, server_state, {})
        self._refuses = refuses
        self._on_lost = on_lost
        self._said_all = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The handshake, if any, is over."""
        super().connection_made(transport)
        if self._refuses(transport):
            transport.abort()

    def handle_events(self) -> None:
        """Begin what has come, also what waited behind another request: what is asked of clients may have changed."""
        if self._refuses(self.transport):
            self.transport.abort()
        else:
            super().handle_events()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP; the body of a request that is at hand has one answer, whichever was begun first."""
        is_answered = self.cycle is None or self.cycle.response_complete
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            if not is_answered:
                self.cycle.disconnected = True
            try:
                super().send_400_response(msg)
            except h11.LocalProtocolError:  # the answer to HEAD ends with its headers
                self.transport.close()
        elif is_answered:
            self.transport.close()
        else:
            self.flow.pause_reading()

    def eof_received(self) -> bool:  # type: ignore[override]
        """The client says nothing more, as `nc -N` does; it still gets what it asked for. TLS knows no such half."""
        self._said_all = self.scheme == "http" and self.cycle is not None and not self.cycle.response_complete
        return self._said_all

    def on_response_complete(self) -> None:
        """Go on with what waited behind the request; close where the client said that nothing comes."""
        super().on_response_complete()
        if self._said_all and self.cycle.response_complete:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        super().connection_lost(exc)
        self._on_lost()

    def waits_for(self) -> Waiting:
        """What the connection waits for now."""
        if self.transport is None:
            return Waiting.HANDSHAKE
        if self.transport.is_closing():
            return Waiting.CLOSE
        if self.cycle is not None and not self.cycle.response_complete:
            return Waiting.SEND if self.cycle.response_started else Waiting.ANSWER
        if self.transport.get_write_buffer_size() > 0:
            return Waiting.SEND
        if self.cycle is None or self.conn.trailing_data[0]:
            return Waiting.REQUEST
        return Waiting.IDLE


class Visit:
    """A client from accept on, with the moment since which it waits for the same thing."""

    def __init__(self, protocol: HttpProtocol, *, number: int, now_s: float) -> None:
        """`number` counts visits; `now_s` is the moment of accept on a monotonic clock."""
        self.protocol = protocol
        self.number = number
        self.arrival: asyncio.Task[None] | None = None
        """The handshake, while it lasts."""
        self._doing: tuple[Waiting, object] = (Waiting.HANDSHAKE, None)
        self._since_s = now_s

    def spent_patience(self, now_s: float, patience: Patience) -> float:
        """How much of what it may wait the visit has waited: 0 just begun, above 1 overdue.

        The request at hand is part of what is compared: a client that asks again and again is never long at one thing,
        while one that drips a request byte by byte still is.
        """
        waiting = self.protocol.waits_for()
        doing = (waiting, self.protocol.cycle)
        if doing != self._doing:
            self._doing, self._since_s = doing, now_s
        allowed_s: float = getattr(patience, waiting.value)
        return (now_s - self._since_s) / allowed_s

    def waits_for_us(self) -> bool:
        """Whether it is our answer that is outstanding, not anything of the client's."""
        return self.protocol.waits_for() is Waiting.ANSWER

    def finish(self) -> None:
        """Close after the request in flight; at once where there is none."""
        if self.protocol.transport is None:
            self.cut()
            return
        try:
            self.protocol.shutdown()
        except h11.LocalProtocolError:
            self.cut()

    def cut(self) -> None:
        """Close now, whatever is in flight."""
        if self.protocol.transport is not None:
            self.protocol.transport.abort()
        elif self.arrival is not None:
            self.arrival.cancel()
