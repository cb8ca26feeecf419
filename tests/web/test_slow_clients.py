"""Clients that are slow, half-open, idle or many, on real sockets, with and without TLS."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import trustme

from preempt_exporter.http_server.patience import Patience
from preempt_exporter.web.settings import WebSettings
from tests.web.running_server import DEADLINE_S, TEXT, FakeExposition, RunningServer, running

CROWD = 200
SHORT = Patience(handshake_s=0.6, request_s=0.6, idle_s=0.6, answer_s=5.0, send_s=0.6, close_s=0.4, shutdown_s=5.0)
UNHURRIED_SCRAPE_S = 2.0
"""Far above what a scrape takes on a busy machine, far below a scrape timeout of 10 s."""

REQUEST = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
CLIENT_HELLO_BEGINNING = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@contextmanager
def server_of(
    tmp_path: Path, authority: trustme.CA, patience: Patience, *, tls: bool
) -> Iterator[tuple[RunningServer, FakeExposition, Callable[[], socket.socket]]]:
    """A server, what it serves, and how to connect to it."""
    exposition = FakeExposition()
    config_file = None
    context = None
    if tls:
        certificate = authority.issue_cert("localhost")
        certificate.cert_chain_pems[0].write_to_path(tmp_path / "server.crt")
        certificate.private_key_pem.write_to_path(tmp_path / "server.key")
        (tmp_path / "web.yml").write_text("tls_server_config: {cert_file: server.crt, key_file: server.key}\n")
        config_file = str(tmp_path / "web.yml")
        context = ssl.create_default_context()
        authority.configure_trust(context)
    settings = WebSettings(listen_addresses=("127.0.0.1:0",), config_file=config_file, patience=patience)
    with running(exposition, settings) as server:

        def connect() -> socket.socket:
            plain = socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S)
            # As Go's clients, Prometheus among them, do.
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return context.wrap_socket(plain, server_hostname="localhost") if context else plain

        yield server, exposition, connect


def scrape(connect: Callable[[], socket.socket]) -> float:
    """Seconds that one scrape on a connection of its own takes; it must be whole."""
    started = time.monotonic()
    with connect() as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = b""
        while piece := client.recv(1 << 16):
            answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), head
    assert body == TEXT
    return time.monotonic() - started


def wait_until_closed(client: socket.socket, *, keep_sending: bytes = b"") -> None:
    """Return when the server has closed `client`, feeding it drop by drop meanwhile; fail after the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    client.settimeout(0.05)
    while time.monotonic() < deadline:
        try:
            if keep_sending:
                client.sendall(keep_sending)
            if client.recv(1 << 20) == b"":
                return
        except TimeoutError:
            continue
        except OSError:
            return
    pytest.fail("the server kept the connection")


def say_nothing(client: socket.socket) -> None:
    """Connect, and that is all."""


def stop_in_the_request_line(client: socket.socket) -> None:
    client.sendall(b"GET /met")


def stop_in_the_headers(client: socket.socket) -> None:
    client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")


def promise_a_body(client: socket.socket) -> None:
    client.sendall(b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\nabc")


def idle_after_an_answer(client: socket.socket) -> None:
    client.sendall(REQUEST)
    assert client.recv(100).startswith(b"HTTP/1.1 200 ")


def second_request_half(client: socket.socket) -> None:
    client.sendall(REQUEST + b"GET /metrics HT")


MANNERS = [
    say_nothing,
    stop_in_the_request_line,
    stop_in_the_headers,
    promise_a_body,
    idle_after_an_answer,
    second_request_half,
]


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("manner", MANNERS, ids=lambda manner: manner.__name__)
def test_a_client_that_stalls_is_closed(
    tmp_path: Path, authority: trustme.CA, manner: Callable[[socket.socket], None], tls: bool
) -> None:
    """Wherever a client stops, the server closes the connection by itself."""
    with server_of(tmp_path, authority, SHORT, tls=tls) as (_, _, connect), connect() as client:
        manner(client)
        wait_until_closed(client)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_dripping_does_not_buy_time(tmp_path: Path, authority: trustme.CA, tls: bool) -> None:
    """A request that grows by a byte now and then is cut as if it had stopped."""
    with server_of(tmp_path, authority, SHORT, tls=tls) as (_, _, connect), connect() as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        started = time.monotonic()
        wait_until_closed(client, keep_sending=b"a")
        assert time.monotonic() - started < 5


def test_dripping_a_body_does_not_buy_time_either(tmp_path: Path, authority: trustme.CA) -> None:
    """A body that nobody asked for does not hold the connection."""
    with server_of(tmp_path, authority, SHORT, tls=False) as (_, _, connect), connect() as client:
        promise_a_body(client)
        wait_until_closed(client, keep_sending=b"b")


@pytest.mark.parametrize("hello", [b"", CLIENT_HELLO_BEGINNING, b"GET / HTTP/1.1\r\n"], ids=["none", "half", "http"])
def test_a_handshake_that_does_not_end_is_closed(tmp_path: Path, authority: trustme.CA, hello: bytes) -> None:
    """Before TLS stands, patience is bounded too."""
    with (
        server_of(tmp_path, authority, SHORT, tls=True) as (server, _, _),
        socket.create_connection(("127.0.0.1", server.port)) as client,
    ):
        client.sendall(hello)
        wait_until_closed(client)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_client_that_does_not_read_is_closed(tmp_path: Path, authority: trustme.CA, tls: bool) -> None:
    """An answer larger than all buffers, never read: the connection is cut and the answer stays incomplete."""
    with server_of(tmp_path, authority, SHORT, tls=tls) as (_, exposition, connect), connect() as client:
        exposition.render = lambda *, openmetrics: b"x" * 50_000_000  # type: ignore[method-assign]
        client.sendall(REQUEST)
        # Only the server's closing ends this wait: nothing is read until then.
        threading.Event().wait(SHORT.send_s + 1.5)
        received = 0
        try:
            while piece := client.recv(1 << 20):
                received += len(piece)
        except OSError:
            pass
        assert received < 50_000_000


def test_a_slow_reader_that_does_read_gets_everything(tmp_path: Path, authority: trustme.CA) -> None:
    """An answer sent in many pieces arrives unchanged, its length as announced."""
    body = bytes(range(256)) * 20_000
    with server_of(tmp_path, authority, Patience(), tls=False) as (_, exposition, connect), connect() as client:
        exposition.render = lambda *, openmetrics: body  # type: ignore[method-assign]
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = bytearray()
        while piece := client.recv(20_000):
            answer += piece
    head, _, received = bytes(answer).partition(b"\r\n\r\n")
    assert f"content-length: {len(body)}".encode() in head.lower()
    assert received == body


@pytest.mark.parametrize(("requests", "rest"), [(1, b""), (3, b""), (1, b"GET /rest")])
def test_a_client_that_says_it_says_no_more_still_gets_its_answers(
    tmp_path: Path, authority: trustme.CA, requests: int, rest: bytes
) -> None:
    """`nc -N` and `socat` close their half of the connection behind the request; then ours is closed at once."""
    with server_of(tmp_path, authority, Patience(), tls=False) as (_, exposition, connect), connect() as client:
        exposition.before_render = lambda: time.sleep(0.1)
        client.sendall(REQUEST * requests + rest)
        client.shutdown(socket.SHUT_WR)
        begun = time.monotonic()
        answers = b""
        while piece := client.recv(1 << 16):
            answers += piece
        assert answers.count(TEXT) == requests
        assert time.monotonic() - begun < UNHURRIED_SCRAPE_S


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_two_hundred_bad_clients_delay_no_scrape(tmp_path: Path, authority: trustme.CA, tls: bool) -> None:
    """With 200 stalled clients of every manner, 50 scrapes a second all succeed in time, and the crowd is closed."""
    patience = Patience(handshake_s=4, request_s=4, idle_s=4, send_s=4)
    with server_of(tmp_path, authority, patience, tls=tls) as (server, _, connect), ExitStack() as crowd:
        clients = []
        for number in range(CROWD):
            if tls and number % 2:
                client = crowd.enter_context(socket.create_connection(("127.0.0.1", server.port)))
                client.sendall(CLIENT_HELLO_BEGINNING if number % 4 == 1 else b"")
            else:
                client = crowd.enter_context(connect())
                MANNERS[number % len(MANNERS)](client)
            clients.append(client)
        begun = time.monotonic()
        slowest = 0.0
        for number in range(100):
            slowest = max(slowest, scrape(connect))
            threading.Event().wait(max(0.0, begun + (number + 1) / 50 - time.monotonic()))
        assert slowest < UNHURRIED_SCRAPE_S
        for client in clients:
            wait_until_closed(client)


def test_beyond_the_cap_the_oldest_strangers_go_and_the_scrape_is_served(tmp_path: Path, authority: trustme.CA) -> None:
    """A cap of 20, a crowd of 60 whose time is not up: scrapes go on, the first comers are closed."""
    patience = Patience(connections=20, request_s=30, idle_s=30)
    with server_of(tmp_path, authority, patience, tls=False) as (_, _, connect), ExitStack() as crowd:
        clients = []
        for _ in range(60):
            client = crowd.enter_context(connect())
            stop_in_the_headers(client)
            clients.append(client)
            assert scrape(connect) < UNHURRIED_SCRAPE_S
        for client in clients[:40]:
            wait_until_closed(client)
        newest = clients[-1]
        newest.sendall(b"\r\n\r\n")
        assert newest.recv(100).startswith(b"HTTP/1.1 200 ")


def test_a_scrape_in_flight_outlives_a_flood_of_new_connections(tmp_path: Path, authority: trustme.CA) -> None:
    """While a scrape is being rendered, three times the cap of strangers come and go; it is answered all the same."""
    patience = Patience(connections=20, request_s=30, idle_s=30)
    begun, release = threading.Event(), threading.Event()
    with server_of(tmp_path, authority, patience, tls=False) as (_, exposition, connect), ExitStack() as crowd:

        def wait() -> None:
            begun.set()
            release.wait(DEADLINE_S)

        exposition.before_render = wait
        scraper = crowd.enter_context(connect())
        scraper.sendall(REQUEST)
        assert begun.wait(DEADLINE_S)
        strangers = [crowd.enter_context(connect()) for _ in range(60)]
        wait_until_closed(strangers[0])
        release.set()
        assert scraper.recv(100).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "garbage",
    [b"\x00" * 50, b"\x16\x03\x01\x00\xa5\x01", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"A" * 200_000],
    ids=["nul", "tls to a plain port", "no target", "no host", "endless line"],
)
def test_garbage_is_answered_with_400_or_closed(tmp_path: Path, authority: trustme.CA, garbage: bytes) -> None:
    """What is no HTTP ends its own connection and nothing else."""
    with server_of(tmp_path, authority, SHORT, tls=False) as (_, _, connect):
        with connect() as client:
            try:
                client.sendall(garbage)
                answer = client.recv(1000)
            except ConnectionError:
                answer = b""
            assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")
            wait_until_closed(client)
        scrape(connect)


CHUNKED = b"%s HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
NO_CHUNK = b"zz\r\n"


@pytest.mark.parametrize("asked", [b"GET /-/healthy", b"GET /metrics", b"HEAD /metrics", b"GET /none"])
def test_a_request_whose_body_is_garbage_has_one_answer(
    tmp_path: Path, authority: trustme.CA, caplog: pytest.LogCaptureFixture, asked: bytes
) -> None:
    """400 at once, whatever was asked; no stranger writes a traceback into our log."""
    with server_of(tmp_path, authority, Patience(), tls=False) as (_, _, connect):
        with connect() as client:
            client.sendall(CHUNKED % asked + NO_CHUNK)
            answers = b"".join(iter(lambda: client.recv(1 << 16), b""))
        assert answers.startswith(b"HTTP/1.1 400 ")
        assert answers.count(b"HTTP/1.1") == 1
        scrape(connect)
    assert caplog.text == ""


def test_an_answer_that_was_begun_is_finished_whatever_comes(
    tmp_path: Path, authority: trustme.CA, caplog: pytest.LogCaptureFixture
) -> None:
    """Garbage behind a request whose answer is on its way takes nothing from that answer, and nothing of it is kept."""
    long = TEXT * 2000
    with server_of(tmp_path, authority, Patience(), tls=False) as (_, exposition, connect), connect() as client:
        exposition.render = lambda *, openmetrics: long  # type: ignore[method-assign]
        client.sendall(CHUNKED % b"GET /metrics")
        answer = client.recv(1 << 10)
        client.sendall(NO_CHUNK * 10)
        while piece := client.recv(1 << 16):
            answer += piece
        assert answer.partition(b"\r\n\r\n")[2] == long
    assert caplog.text == ""


def test_fifty_scrapes_a_second_while_the_exposition_is_busy_never_fail(tmp_path: Path, authority: trustme.CA) -> None:
    """A thread that holds the interpreter as much as it can (a ledger that grows) costs no scrape."""
    with server_of(tmp_path, authority, Patience(), tls=False) as (_, _, connect):
        done = threading.Event()

        def grow() -> None:
            lines = 0
            while not done.is_set():
                lines += sum(range(1000)) & 1

        busy = threading.Thread(target=grow)
        busy.start()
        try:
            begun = time.monotonic()
            slowest = 0.0
            for number in range(150):
                slowest = max(slowest, scrape(connect))
                threading.Event().wait(max(0.0, begun + (number + 1) / 50 - time.monotonic()))
        finally:
            done.set()
            busy.join()
        assert slowest < UNHURRIED_SCRAPE_S
