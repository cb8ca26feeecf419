"""A request whose target is a whole URL, as a client sends it that takes us for its proxy, means the path in it."""

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import unquote

Scope = MutableMapping[str, Any]
Application = Callable[[Scope, Any, Any], Awaitable[None]]

_ABSOLUTE = re.compile(rb"https?://([^/?#@]+)(/.*)?", re.IGNORECASE | re.DOTALL)


class OriginForm:
    """Wraps an ASGI application, which then sees paths only; the URL's host counts, not the header (RFC 9112)."""

    def __init__(self, application: Application) -> None:
        """`application` answers paths."""
        self._application = application

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Pass the request on as if its target had been a path."""
        target = _ABSOLUTE.fullmatch(scope["raw_path"])
        if target is not None:
            raw_path = target[2] or b"/"
            headers = [(name, value) for name, value in scope["headers"] if name != b"host"] + [(b"host", target[1])]
            scope = {**scope, "raw_path": raw_path, "path": unquote(raw_path.decode("ascii")), "headers": headers}
        await self._application(scope, receive, send)
