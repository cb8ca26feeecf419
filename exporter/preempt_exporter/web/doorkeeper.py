"""Stands before every path: nothing but 401 without credentials, and the response headers that the operator set."""

import asyncio
import contextlib

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from preempt_exporter.web.live_config import LiveConfig
from preempt_exporter.web.logins import Logins, parse_basic
from preempt_exporter.web.password_turns import PasswordTurns

CHALLENGE = 'Basic realm="preempt-exporter", charset="UTF-8"'


class Doorkeeper:
    """Wraps an application; asks the configuration in force at each request."""

    def __init__(self, application: ASGIApp, *, live_config: LiveConfig, passwords: PasswordTurns) -> None:
        """`passwords` says whose turn it is to be checked by bcrypt."""
        self._application = application
        self._live_config = live_config
        self._passwords = passwords

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or answer 401."""
        config = self._live_config.current()
        application = self._application
        if config.logins is not None and not await self._may_pass(config.logins, scope):
            application = PlainTextResponse("Unauthorized\n", status_code=401, headers={"WWW-Authenticate": CHALLENGE})
        closes = _has_body(scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message.setdefault("headers", []))
                for name, value in config.headers.items():
                    headers[name] = value
                if closes:
                    # Nobody reads the body, so the next request could only begin where it ends.
                    headers["Connection"] = "close"
            await send(message)

        # Cancelled only when the server has stopped and this client is gone: there is nothing left to say.
        with contextlib.suppress(asyncio.CancelledError):
            await application(scope, receive, send_with_headers)

    async def _may_pass(self, logins: Logins, scope: Scope) -> bool:
        authorization = Headers(scope=scope).get("authorization")
        if parse_basic(authorization) is None:
            return False
        if logins.remembers(authorization):
            return True
        client = scope["client"][0] if scope.get("client") else None
        return await self._passwords.answer(client, (id(logins), authorization), lambda: logins.verify(authorization))


def _has_body(scope: Scope) -> bool:
    headers = Headers(scope=scope)
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
