"""Answering before a body was read: the client must be able to hear it, though it is still sending."""

import asyncio
import contextlib

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

LINGER_S = 2.0
LINGER_BYTES = 64 << 20


def may_have_body(scope: Scope) -> bool:
    """Whether the request announced a body."""
    headers = Headers(scope=scope)
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


class EarlyAnswer(Response):
    """Sends the whole answer at once, then takes what still comes for a moment and throws it away.

    A connection that is closed with bytes unread is reset, and the reset can overtake the answer.
    """

    def __init__(self, response: Response) -> None:
        """`response` closes the connection: where the body ends, nobody knows."""
        super().__init__(response.body, response.status_code)
        self.raw_headers = response.raw_headers
        self.headers["Connection"] = "close"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, linger, end."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        left = LINGER_BYTES
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_S):
                while left > 0:
                    message = await receive()
                    left -= len(message.get("body", b""))
                    if not message.get("more_body"):
                        break
        await send({"type": "http.response.body", "body": b"", "more_body": False})
