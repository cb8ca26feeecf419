"""Answers that do not pile up in memory: sent piece by piece, at the pace at which the client takes them."""

import zlib
from collections.abc import Mapping

from starlette.types import Receive, Scope, Send

PIECE_BYTES = 64 * 1024
GZIP_LEVEL = 1
"""The scrape repeats itself so much that the fastest level already saves nine tenths."""


class Payload:
    """A finished 200 answer as an ASGI application; the server leaves the body out of the answer to HEAD."""

    def __init__(self, body: bytes, headers: Mapping[str, str]) -> None:
        """`body` as it goes over the wire; Content-Length is added here."""
        self._body = body
        self._headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        self._headers.append((b"content-length", str(len(body)).encode("ascii")))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; the server waits between pieces while the client is slow."""
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        for start in range(0, len(self._body), PIECE_BYTES):
            await send(
                {"type": "http.response.body", "body": self._body[start : start + PIECE_BYTES], "more_body": True}
            )
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def gzipped(body: bytes) -> bytes:
    """`body` as one gzip member without a time stamp, so that equal bodies stay equal."""
    compressor = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, 31)
    return compressor.compress(body) + compressor.flush()
