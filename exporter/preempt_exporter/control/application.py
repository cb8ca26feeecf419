"""From HTTP to operations and back: routes, bounded bodies, idempotency keys, problems."""

import asyncio
import hashlib
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from typing import Any
from urllib.parse import unquote

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from preempt_exporter.control.bodies import body_from, json_object
from preempt_exporter.control.desk import Desk
from preempt_exporter.control.once import MAX_KEY_CHARACTERS
from preempt_exporter.control.openapi import openapi_document
from preempt_exporter.control.operations import Operation
from preempt_exporter.control.problems import Problem
from preempt_exporter.control.unread_body import EarlyAnswer, may_have_body
from preempt_exporter.errors import LedgerWriteError, PreemptExporterError, StoreUnavailable, UnreadableInput

_log = logging.getLogger(__name__)

KEY_HEADER = "Idempotency-Key"
_KEY = re.compile(rf"[!-~]{{1,{MAX_KEY_CHARACTERS}}}")
REPLAYED_HEADER = "Idempotency-Replayed"
ANSWER_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}

_UNAVAILABLE = (LedgerWriteError, StoreUnavailable, UnreadableInput)
"""Nothing was done that is known of: the client may try again."""


class Application:
    """The ASGI application, without doors. Work that waits for the disk is done in `threads`."""

    def __init__(self, desk: Desk, operations: Sequence[Operation], threads: Executor) -> None:
        """Everything it does is an operation."""
        self._desk = desk
        self._threads = threads
        self._underway: dict[str, asyncio.Event] = {}
        document = msgspec.json.encode(openapi_document(operations))

        async def openapi(request: Request) -> Response:
            return Response(document, media_type="application/json", headers=ANSWER_HEADERS)

        async def healthy(request: Request) -> Response:
            return PlainTextResponse("healthy\n")

        routes = [
            Route("/-/healthy", healthy),
            Route("/-/ready", healthy),
            Route("/openapi.json", openapi),
            *(Route(operation.path, self._endpoint(operation), methods=[operation.method]) for operation in operations),
        ]
        self._starlette = Starlette(routes=routes, exception_handlers={Problem: _problem, HTTPException: _http_problem})
        self._starlette.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Route by the path as it was sent: an escaped slash belongs to a name and divides nothing."""
        raw = scope.get("raw_path")
        if raw is not None:
            scope = {**scope, "path": raw.decode("ascii", "replace")}
        try:
            await self._starlette(scope, receive, send)
        except (asyncio.CancelledError, ClientDisconnect):
            return  # this client is gone: there is nothing left to say

    def _endpoint(self, operation: Operation) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            names = {name: _unescaped(value) for name, value in request.path_params.items()}
            raw = b"" if operation.method == "GET" else await _bounded_body(request, operation.most_bytes)
            key = _idempotency_key(request) if operation.method == "POST" else None
            if key is None:
                return await self._in_thread(operation, names, raw, None, b"")
            fingerprint = hashlib.sha256(
                b"\0".join((operation.method.encode(), request.scope["path"].encode(), raw))
            ).digest()
            while key in self._underway:
                await self._underway[key].wait()
            done = self._underway[key] = asyncio.Event()
            try:
                return await self._in_thread(operation, names, raw, key, fingerprint)
            finally:
                del self._underway[key]
                done.set()

        return endpoint

    async def _in_thread(
        self, operation: Operation, names: dict[str, str], raw: bytes, key: str | None, fingerprint: bytes
    ) -> Response:
        loop = asyncio.get_running_loop()
        # Shielded: a client that hangs up leaves the work, and the key that it holds, to come to their end.
        work = loop.run_in_executor(self._threads, self._carry_out, operation, names, raw, key, fingerprint)
        answer, repeated = await asyncio.shield(work)
        headers = ANSWER_HEADERS | ({REPLAYED_HEADER: "true"} if repeated else {})
        return Response(answer, media_type="application/json", headers=headers)

    def _carry_out(
        self, operation: Operation, names: dict[str, str], raw: bytes, key: str | None, fingerprint: bytes
    ) -> tuple[bytes, bool]:
        desk = self._desk
        try:
            body = _decoded(operation, raw)

            def work() -> bytes:
                return msgspec.json.encode(operation.carry_out(desk, names, body))

            if key is None:
                return work(), False

            def recovered(begun: Any) -> bytes | None:
                found = operation.recovered(desk, names, body, begun)
                return None if found is None else msgspec.json.encode(found)

            return desk.once.carry_out(key, fingerprint, work, recovered)
        except _UNAVAILABLE as error:
            _log.warning("%s %s: %s", operation.method, operation.path, error)
            raise Problem(503, str(error), headers={"Retry-After": "1"}) from error
        except PreemptExporterError as error:
            raise Problem(422, str(error)) from error
        except Problem:
            raise
        except Exception as error:
            _log.exception("%s %s could not be carried out", operation.method, operation.path)
            raise Problem(500, "this could not be carried out; the service's log says why") from error


def _decoded(operation: Operation, raw: bytes) -> Any:
    if operation.raw:
        return raw
    if operation.takes is None:
        return None
    fields = json_object(raw)
    return fields if operation.fields else body_from(fields, operation.takes)


async def _bounded_body(request: Request, most_bytes: int) -> bytes:
    announced = request.headers.get("content-length", "")
    if not (announced.isdigit() and int(announced) > most_bytes):
        pieces: list[bytes] = []
        size = 0
        async for piece in request.stream():
            pieces.append(piece)
            size += len(piece)
            if size > most_bytes:
                break
        else:
            return b"".join(pieces)
    raise Problem(413, f"the body may have {most_bytes} bytes at most")


def _idempotency_key(request: Request) -> str | None:
    given = request.headers.getlist(KEY_HEADER)
    if not given:
        return None
    if len(given) > 1 or not _KEY.fullmatch(given[0]):
        raise Problem(400, f"{KEY_HEADER}: give one, of 1 to {MAX_KEY_CHARACTERS} visible ASCII characters")
    return given[0]


def _unescaped(segment: str) -> str:
    try:
        return unquote(segment, errors="strict")
    except UnicodeDecodeError:
        raise Problem(400, "a name in the path is not UTF-8") from None


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return EarlyAnswer(error.response()) if error.status == 413 else error.response()


async def _http_problem(request: Request, error: Exception) -> Response:
    """What Starlette itself refuses: other paths and other methods."""
    assert isinstance(error, HTTPException)
    detail = {404: "no such path; see /openapi.json", 405: "no such method here; see Allow"}.get(
        error.status_code, error.detail
    )
    response = Problem(error.status_code, detail, headers=error.headers).response()
    return EarlyAnswer(response) if may_have_body(request.scope) else response
