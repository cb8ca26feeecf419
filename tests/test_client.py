"""The client that workers embed."""

import ast
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from preempt_exporter import client as client_module
from preempt_exporter.client import ControlClient, ControlRefused, ControlUnavailable


class Clock:
    """Moves only while somebody waits."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def wait(self, seconds: float) -> None:
        self.now_s += seconds


class FakeService:
    """Answers with the given statuses in turn, the last one for ever; 0 closes the connection without a word."""

    def __init__(self, *statuses: int) -> None:
        self.body = json.dumps({"outcome": "recorded", "detail": "why"}).encode()
        self.keys: list[str | None] = []
        self.paths: list[str] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                service.keys.append(self.headers["Idempotency-Key"])
                service.paths.append(self.path)
                status = statuses[min(len(service.keys), len(statuses)) - 1]
                if status == 0:
                    return
                self.send_response(status)
                self.send_header("Content-Length", str(len(service.body)))
                self.end_headers()
                self.wfile.write(service.body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)


@contextmanager
def asking(*statuses: int) -> Iterator[tuple[FakeService, ControlClient]]:
    """A client of a fake service, on a clock that does not pass by itself."""
    service, clock = FakeService(*statuses), Clock()
    thread = threading.Thread(target=service.server.serve_forever)
    thread.start()
    try:
        url = f"http://127.0.0.1:{service.server.server_address[1]}"
        yield service, ControlClient(url, patience_s=30, now_s=lambda: clock.now_s, wait=clock.wait)
    finally:
        service.server.shutdown()
        service.server.server_close()
        thread.join()


def test_it_needs_nothing_but_the_standard_library() -> None:
    """A worker may copy the one file."""
    assert client_module.__file__ is not None
    tree = ast.parse(Path(client_module.__file__).read_text(encoding="utf-8"))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names


def test_it_tries_again_under_the_same_key_until_it_is_answered() -> None:
    """A lost connection, 503 and 429 are tried again; two requests have two keys, a heartbeat needs none."""
    with asking(0, 503, 429, 200) as (service, client):
        assert client.task("a/b", "checkpoint")["outcome"] == "recorded"
        client.task("a/b", "checkpoint")
        client.task("a/b", "heartbeat")
        assert len(set(service.keys[:4])) == 1
        assert service.keys[4] not in (service.keys[0], None)
        assert service.keys[5] is None
        assert set(service.paths) == {"/v1/tasks/a%2Fb/checkpoint", "/v1/tasks/a%2Fb/heartbeat"}


def test_what_is_wrong_is_not_tried_again() -> None:
    """A 4xx is the caller's mistake, with the problem's words."""
    with asking(422) as (service, client):
        with pytest.raises(ControlRefused, match="422: why") as refused:
            client.shard("r", "3/0-9", "grant")
        assert (refused.value.status, len(service.keys)) == (422, 1)
        assert service.paths == ["/v1/runs/r/shards/3/0-9/grant"]


def test_another_servers_page_is_told_by_its_status() -> None:
    """A page of HTML: a 4xx is refused at once, a 200 is no answer of ours and is tried again until patience ends."""
    with asking(404) as (service, client):
        service.body = b"<html>not here</html>"
        with pytest.raises(ControlRefused, match="404 without JSON"):
            client.ask("POST", "/admin/act", {})
        assert len(service.keys) == 1
    with asking(200) as (service, client):
        service.body = b"<html>hello</html>"
        with pytest.raises(ControlUnavailable, match="200 without JSON"):
            client.ask("POST", "/admin/act", {})
        assert len(service.keys) > 1


def test_it_fails_closed_when_patience_ends() -> None:
    """Nobody answers for 30 seconds: an exception, not an answer."""
    with asking(503) as (_, client), pytest.raises(ControlUnavailable, match="30 s: why"):
        client.task("t", "admit")
    clock = Clock()
    gone = ControlClient("unix:///no/such/socket", patience_s=1, now_s=lambda: clock.now_s, wait=clock.wait)
    with pytest.raises(ControlUnavailable):
        gone.run("r", "open")


@pytest.mark.parametrize("url", ["localhost:8080", "ftp://x", "http://", "unix://"])
def test_a_wrong_url_is_refused(url: str) -> None:
    """Before anything is sent."""
    with pytest.raises(ValueError, match="http://host:port"):
        ControlClient(url)
