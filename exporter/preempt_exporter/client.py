"""A client of the control service, for workers to embed: this one file, and nothing but the standard library.

    control = ControlClient("http://127.0.0.1:8080", token)
    if control.task("t-17", "admit", lane="free", deadline_ms=3_600_000)["outcome"] == "admitted":
        ...
        control.task("t-17", "complete", output_tokens=512)

Every request is tried again, and what must not happen twice carries the same Idempotency-Key each time, so that it
happens once however often the network or the service goes away. When patience ends `ControlUnavailable` is raised:
fail closed, start nothing.
"""

import http.client
import json
import socket
import time
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlsplit

_HARMLESS_TWICE = ("heartbeat", "renew")
"""Said often, and a second time changes nothing: the service need not remember each for a day."""


class ControlUnavailable(Exception):
    """The service did not answer in time; whether it did what was asked is not known. Start nothing."""


class ControlRefused(Exception):
    """The request is wrong or not allowed; trying again will not help. `status` and `problem` are HTTP's."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        """`problem` is the RFC 9457 object."""
        super().__init__(f"{status}: {problem.get('detail', problem)}")
        self.status = status
        self.problem = problem


class ControlClient:
    """Speaks to one service. May be shared by threads."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        patience_s: float = 30.0,
        timeout_s: float = 5.0,
        now_s: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """`url`: `http://host:port`, `https://…` or `unix:///path`. `timeout_s` bounds one try, `patience_s` all."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https", "unix") or not (
            parts.path if parts.scheme == "unix" else parts.netloc
        ):
            raise ValueError(f"{url!r}: give http://host:port, https://host or unix:///path")
        self._parts = parts
        self._token = token
        self._patience_s = patience_s
        self._timeout_s = timeout_s
        self._now_s = now_s
        self._wait = wait

    def task(self, task_id: str, op: str, **fields: Any) -> dict[str, Any]:
        """`enqueue`, `admit`, `heartbeat`, `checkpoint`, `preempt`, `complete` or `drain`."""
        return self.ask("POST", f"/v1/tasks/{quote(task_id, safe='')}/{op}", fields)

    def shard(self, run: str, shard: str, op: str, **fields: Any) -> dict[str, Any]:
        """`grant`, `reserve`, `renew`, `checkpoint`, `resume`, `commit`, `release` or `compensate`."""
        return self.ask("POST", f"/v1/runs/{quote(run, safe='')}/shards/{quote(shard)}/{op}", fields)

    def run(self, run: str, op: str, **fields: Any) -> dict[str, Any]:
        """`open` or `close`."""
        return self.ask("POST", f"/v1/runs/{quote(run, safe='')}/{op}", fields)

    def ask(self, method: str, path: str, body: Any = None, *, key: str | None = None) -> dict[str, Any]:
        """One request, tried again until it is answered or patience ends; `body` is bytes or becomes JSON.

        Raises `ControlUnavailable` or `ControlRefused`.
        """
        sent = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        if key or (method == "POST" and path.rpartition("/")[2] not in _HARMLESS_TWICE):
            headers["Idempotency-Key"] = key or uuid.uuid4().hex
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        give_up_s, pause_s = self._now_s() + self._patience_s, 0.05
        while True:
            try:
                status, answer = self._try(method, path, sent, headers)
            except (OSError, http.client.HTTPException, ValueError) as error:
                status, answer = 0, {"detail": str(error) or type(error).__name__}
            if status == 200:
                return answer
            if 400 <= status < 500 and status not in (408, 429):
                raise ControlRefused(status, answer)
            if self._now_s() + pause_s >= give_up_s:
                raise ControlUnavailable(f"no answer within {self._patience_s:g} s: {answer.get('detail', status)}")
            self._wait(pause_s)
            pause_s = min(2 * pause_s, 2.0)

    def _try(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
        connection = self._connection()
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            text = response.read()
            try:
                answer = json.loads(text)
            except ValueError:
                # A page of whatever else listens there, or of a proxy: its status says all that can be known.
                status = 0 if response.status == 200 else response.status
                return status, {"detail": f"{response.status} without JSON: is this the control service?"}
            return response.status, answer if isinstance(answer, dict) else {"detail": str(answer)}
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if self._parts.scheme == "unix":
            return _UnixConnection(self._parts.path, self._timeout_s)
        if self._parts.scheme == "https":
            return http.client.HTTPSConnection(self._parts.netloc, timeout=self._timeout_s)
        return http.client.HTTPConnection(self._parts.netloc, timeout=self._timeout_s)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """To the socket instead of a host."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
