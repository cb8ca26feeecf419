"""Who is let in: no browser, no foreign Host, nobody without the token that the path asks for."""

from msgspec import Struct
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from preempt_exporter.control.problems import Problem
from preempt_exporter.control.tokens import is_bearer
from preempt_exporter.control.unread_body import EarlyAnswer, may_have_body
from preempt_exporter.http_server.hosts import host_name, is_loopback

WEBHOOK_PATH = "/alertmanager"
OPEN_PATHS = frozenset({"/-/healthy", "/-/ready"})


class Keys(Struct, frozen=True, kw_only=True):
    """What opens which door."""

    token: str | None
    """None: clients on this machine need none (`--insecure-loopback`)."""
    webhook_token: str
    """Opens `/alertmanager` and nothing else; the other token does not open it."""
    hosts: frozenset[str] = frozenset()
    """Names by which clients reach us, beside this machine's loopback."""


class Doors:
    """Wraps the application."""

    def __init__(self, application: ASGIApp, keys: Keys) -> None:
        """Refuses before a byte of the body is read."""
        self._application = application
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or answer with a problem."""
        refusal = self._refusal(scope)
        if refusal is None:
            await self._application(scope, receive, send)
            return
        response = refusal.response()
        answer = EarlyAnswer(response) if may_have_body(scope) else response
        await answer(scope, receive, send)

    def _refusal(self, scope: Scope) -> Problem | None:
        headers = Headers(scope=scope)
        if "origin" in headers:
            return Problem(403, "requests from web pages (with an Origin header) are refused")
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_ours(host_name(hosts[0])):
            return Problem(403, "the Host header does not name this service; see --host")
        path = scope["path"]
        if path in OPEN_PATHS:
            return None
        token = self._keys.webhook_token if path == WEBHOOK_PATH else self._keys.token
        if token is None and _client_is_here(scope):
            return None
        given = headers.getlist("authorization")
        if token is None or len(given) != 1 or not is_bearer(given[0], token):
            which = "the webhook's bearer token" if path == WEBHOOK_PATH else "the service's bearer token"
            return Problem(
                401, f"{which} is needed: Authorization: Bearer TOKEN", headers={"WWW-Authenticate": "Bearer"}
            )
        return None

    def _is_ours(self, host: str) -> bool:
        return host == "localhost" or is_loopback(host) or host in self._keys.hosts


def _client_is_here(scope: Scope) -> bool:
    """On this machine: through loopback, or through a Unix socket, which has no address."""
    client = scope.get("client")
    return client is None or is_loopback(client[0])
