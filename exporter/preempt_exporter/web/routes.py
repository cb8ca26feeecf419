"""What is answered at which path."""

import logging
from collections.abc import Awaitable, Callable
from importlib import resources

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from preempt_exporter.web.access import reason_to_refuse
from preempt_exporter.web.live_config import LiveConfig
from preempt_exporter.web.negotiation import (
    OPENMETRICS_CONTENT_TYPE,
    TEXT_CONTENT_TYPE,
    accepts_gzip,
    prefers_openmetrics,
)
from preempt_exporter.web.overview import overview, tasks_within
from preempt_exporter.web.payload import Payload, gzipped
from preempt_exporter.web.settings import PageAudience
from preempt_exporter.web.shared_work import SharedWork
from preempt_exporter.web.source import Exposition

logger = logging.getLogger(__name__)

Endpoint = Callable[[Request], Awaitable[ASGIApp]]

GZIP_FROM_BYTES = 1024
MAX_COUNT_DIGITS = 7

PAGE_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/words.js": ("words.js", "text/javascript; charset=utf-8"),
    "/page.svg": ("page.svg", "image/svg+xml"),
}
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Routes:
    """The application, without logins."""

    def __init__(
        self,
        exposition: Exposition,
        *,
        scrapes: SharedWork,
        questions: SharedWork,
        live_config: LiveConfig,
        audience: PageAudience,
        listen_hosts: frozenset[str],
    ) -> None:
        """`scrapes` renders for /metrics only; `questions` works for everything else."""
        self._exposition = exposition
        self._scrapes = scrapes
        self._questions = questions
        self._live_config = live_config
        self._audience = audience
        self._listen_hosts = listen_hosts

    def application(self) -> Starlette:
        """GET and HEAD; 405 with Allow for other methods, 404 for other paths. Query strings of no use are ignored."""
        source = self._exposition
        routes = [
            Route("/metrics", self._metrics),
            Route("/-/healthy", self._healthy),
            Route("/-/ready", self._ready),
            Route("/api/v1/tasks", self._for_insiders(self._tasks)),
            Route("/api/v1/lanes", self._for_insiders(lambda request: self._json(request, "lanes", source.lanes))),
            Route("/api/v1/runs", self._for_insiders(lambda request: self._json(request, "runs", source.runs))),
            Route("/api/v1/health", self._for_insiders(lambda request: self._json(request, "health", source.health))),
            Route("/api/v1/overview", self._for_insiders(self._overview)),
            *(Route(path, self._for_insiders(_page_file(*file))) for path, file in PAGE_FILES.items()),
        ]
        application = Starlette(routes=routes)
        application.router.redirect_slashes = False
        return application

    async def _metrics(self, request: Request) -> ASGIApp:
        openmetrics = prefers_openmetrics(_all(request, "accept"))
        headers = {
            "Content-Type": OPENMETRICS_CONTENT_TYPE if openmetrics else TEXT_CONTENT_TYPE,
            "Vary": "Accept, Accept-Encoding",
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
        }
        return await _answer(
            request,
            self._scrapes,
            ("metrics", openmetrics),
            lambda: self._exposition.render(openmetrics=openmetrics),
            headers,
        )

    async def _healthy(self, request: Request) -> ASGIApp:
        return PlainTextResponse("healthy\n")

    async def _ready(self, request: Request) -> ASGIApp:
        if self._exposition.ready():
            return PlainTextResponse("ready\n")
        return PlainTextResponse("not ready: still reading what the ledgers held at the start\n", status_code=503)

    async def _tasks(self, request: Request) -> ASGIApp:
        limit = _number(request, "limit")
        if limit is None:
            return await self._json(request, "tasks", self._exposition.tasks)
        return await self._json(request, ("tasks", limit), lambda: tasks_within(self._exposition.tasks(), limit=limit))

    async def _overview(self, request: Request) -> ASGIApp:
        limit = _number(request, "limit")
        offset = _number(request, "offset") or 0
        match = request.query_params.get("match", "")
        return await self._json(
            request,
            ("overview", offset, limit, match),
            lambda: overview(self._exposition, offset=offset, limit=limit, match=match),
        )

    async def _json(self, request: Request, question: object, work: Callable[[], bytes]) -> ASGIApp:
        headers = PAGE_HEADERS | {"Content-Type": "application/json", "Vary": "Accept-Encoding"}
        return await _answer(request, self._questions, question, work, headers)

    def _for_insiders(self, endpoint: Endpoint) -> Endpoint:
        async def guarded(request: Request) -> ASGIApp:
            refusal = reason_to_refuse(
                request.client.host if request.client else None,
                request.headers,
                listen_hosts=self._listen_hosts,
                audience=self._audience,
                login=self._live_config.current().requires_login,
            )
            if refusal is not None:
                return PlainTextResponse(refusal + "\n", status_code=403, headers=PAGE_HEADERS)
            return await endpoint(request)

        return guarded


def _page_file(name: str, content_type: str) -> Endpoint:
    body = resources.files("preempt_exporter.web").joinpath("static", name).read_bytes()

    async def page_file(request: Request) -> ASGIApp:
        return Payload(body, PAGE_HEADERS | {"Content-Type": content_type})

    return page_file


async def _answer(
    request: Request, pool: SharedWork, question: object, work: Callable[[], bytes], headers: dict[str, str]
) -> ASGIApp:
    gzip = accepts_gzip(_all(request, "accept-encoding"))

    def body() -> bytes:
        plain = work()
        return gzipped(plain) if gzip and len(plain) >= GZIP_FROM_BYTES else plain

    try:
        answer = await pool.answer((question, gzip), body)
    except Exception:
        logger.exception("%s could not be answered", request.url.path)
        return PlainTextResponse("this could not be answered; the exporter's log says why\n", status_code=500)
    if answer.startswith(b"\x1f\x8b"):
        headers = headers | {"Content-Encoding": "gzip"}
    return Payload(answer, headers)


def _all(request: Request, name: str) -> str | None:
    values = request.headers.getlist(name)
    return ",".join(values) if values else None


def _number(request: Request, name: str) -> int | None:
    """A count of tasks in the query; None where it is absent or no number."""
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_COUNT_DIGITS else None
