"""Who is let in."""

import socket
import stat
from pathlib import Path

import pytest

from preempt_exporter.client import ControlClient, ControlRefused
from preempt_exporter.control.doors import Keys
from preempt_exporter.control.tokens import read_or_generate_token, read_token
from preempt_exporter.errors import UsageError
from preempt_exporter.http_server.listen import bind_unix
from tests.control.running_control import (
    TOKEN,
    WEBHOOK_TOKEN,
    control,
    control_process,
    is_private,
)
from tests.running_exporter import is_one_line, told


@pytest.mark.parametrize("given", [None, "", "the-token", TOKEN + "x", WEBHOOK_TOKEN, "é"])
def test_without_the_token_nothing_is_opened(tmp_path: Path, given: str | None) -> None:
    """No token, a prefix of it, a longer one and the webhook's are all 401, on every path but the health checks."""
    with control(tmp_path) as running:
        for path in ("/admin/lanes", "/openapi.json", "/nowhere"):
            answer = running.request("GET", path, token=given)
            assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert running.request("POST", "/admin/drain", {"lane": "free"}, token=given).status == 401
        assert running.events() == []
        assert running.request("GET", "/-/healthy", token=None).status == 200


def test_the_service_s_token_does_not_open_the_webhook(tmp_path: Path) -> None:
    """The webhook has a token of its own."""
    with control(tmp_path) as running:
        assert running.post("/alertmanager", {}).status == 401
        assert running.request("POST", "/alertmanager", {}, token=WEBHOOK_TOKEN).status == 422


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:1", 200),
        ("127.0.0.1:8080", 200),
        ("[::1]:8080", 200),
        ("control.internal", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example:8080", 403),
        ("", 403),
    ],
)
def test_a_host_that_is_not_ours_is_refused(tmp_path: Path, host: str, status: int) -> None:
    """A web page that points its own name at this address is not served, token or not."""
    keys = Keys(token=TOKEN, webhook_token=WEBHOOK_TOKEN, hosts=frozenset({"control.internal"}))
    with control(tmp_path, keys=keys) as running:
        assert running.request("GET", "/admin/lanes", Host=host).status == status


@pytest.mark.parametrize("origin", ["http://evil.example", "http://localhost:8080", "null"])
def test_a_browser_is_refused(tmp_path: Path, origin: str) -> None:
    """Any Origin is a browser's, even one that looks like ours, and even where no token is needed."""
    with control(tmp_path, keys=Keys(token=None, webhook_token=WEBHOOK_TOKEN)) as running:
        assert running.post("/admin/drain", {"lane": "free"}, Origin=origin).status == 403
        assert running.events() == []


def test_a_body_that_announces_or_sends_too_much_is_refused(tmp_path: Path) -> None:
    """Announced or sent in chunks, a body beyond the bound is 413 and is not read to its end."""
    with control(tmp_path) as running:
        host, port = running.url.removeprefix("http://").split(":")
        for length in (b"Content-Length: 10000000", b"Transfer-Encoding: chunked"):
            with socket.create_connection((host, int(port)), timeout=10) as client:
                head = f"POST /admin/drain HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n".encode()
                client.sendall(head + length + b"\r\n\r\n")
                if b"chunked" in length:
                    client.sendall(b"20000\r\n" + b"x" * 0x20000 + b"\r\n")
                assert client.recv(4096).startswith(b"HTTP/1.1 413 ")


def test_a_unix_socket_is_private_and_replaces_only_a_dead_one(tmp_path: Path) -> None:
    """Mode 0600; a socket left by a killed service is replaced, one in use and other files are not."""
    path = tmp_path / "s"
    dead = bind_unix(str(path))
    dead.close()
    with control_process(tmp_path / "l.jsonl", "--unix", str(path)) as running:
        assert running.url == f"unix://{path}"
        assert stat.S_ISSOCK(path.stat().st_mode)
        assert is_private(path)
        client = ControlClient(running.url, read_token(tmp_path / "l.jsonl.control-token"))
        assert client.task("t", "admit")["outcome"] == "admitted"
        with pytest.raises(UsageError, match="does it run already"):
            bind_unix(str(path))
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError):
        bind_unix(str(tmp_path / "file"))
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


def test_the_first_start_generates_tokens_that_only_their_owner_reads(tmp_path: Path) -> None:
    """Both are told by path and never by value, are kept over a restart, and open what they should."""
    ledger = tmp_path / "l.jsonl"
    with control_process(ledger) as running:
        token = read_token(tmp_path / "l.jsonl.control-token")
        said = running.log()
        assert str(tmp_path / "l.jsonl.control-token") in said
        assert str(tmp_path / "l.jsonl.alertmanager-token") in said
        assert token not in said
        assert is_private(tmp_path / "l.jsonl.control-token")
        assert is_private(tmp_path / "l.jsonl.alertmanager-token")
        assert ControlClient(running.url, token).ask("GET", "/admin/lanes")["mode"] == "normal"
        with pytest.raises(ControlRefused, match="401"):
            ControlClient(running.url).ask("GET", "/admin/lanes")
    with control_process(ledger):
        assert read_token(tmp_path / "l.jsonl.control-token") == token


def test_a_token_file_is_never_overwritten(tmp_path: Path) -> None:
    """A given token is used as it is; an empty file is an error, not an open door."""
    given = tmp_path / "token"
    given.write_text("given-by-hand\n", encoding="utf-8")
    assert read_or_generate_token(given) == ("given-by-hand", False)
    for bad in ("", " \n", "short", "two words here", "täglich-neu"):
        given.write_text(bad, encoding="utf-8")
        with pytest.raises(UsageError, match="not a token"):
            read_or_generate_token(given)
        assert given.read_text(encoding="utf-8") == bad


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--insecure-loopback", "--web.listen-address=:0"), "loopback only"),
        (("--web.listen-address=here",), "--web.listen-address"),
        (("--store", "mysql://x"), "store"),
        (("--acts-per-hour", "many"), "not a count"),
    ],
)
def test_a_wrong_start_is_one_line(tmp_path: Path, arguments: tuple[str, ...], word: str) -> None:
    """Usage errors exit 2 with one line; a loopback drill cannot be opened to the network."""
    ended = told("control", "--ledger", tmp_path / "l.jsonl", *arguments)
    assert ended.returncode == 2
    lines = [line for line in ended.stderr.splitlines(keepends=True) if line.startswith("preempt-exporter control")]
    assert len(lines) == 1
    assert is_one_line(lines[0])
    assert word in lines[0]
