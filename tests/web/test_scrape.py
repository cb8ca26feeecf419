import gzip
import http.client
import logging
import threading
import time
from contextlib import closing

import httpx
import pytest

from preempt_exporter.errors import UsageError
from preempt_exporter.web.settings import WebSettings
from tests.web.running_server import DEADLINE_S, OPENMETRICS, TEXT, FakeExposition, RunningServer, running


@pytest.fixture(scope="module")
def exposition() -> FakeExposition:
    return FakeExposition()


@pytest.fixture(scope="module")
def server(exposition: FakeExposition):
    with running(exposition) as server:
        yield server


def ask(server: RunningServer, method: str, path: str, **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
    """One request with exactly these headers besides Host."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE_S)) as connection:
        connection.putrequest(method, path, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        response = connection.getresponse()
        body = response.read()
    return response, body


def test_a_bare_scrape_is_plain_text_0_0_4(server: RunningServer) -> None:
    """Without Accept headers: the text format, uncompressed, its type exact, and caches told what varies."""
    response, body = ask(server, "GET", "/metrics")
    assert (response.status, body) == (200, TEXT)
    assert response.getheader("Content-Type") == "text/plain; version=0.0.4; charset=utf-8"
    assert response.getheader("Content-Encoding") is None
    assert response.getheader("Vary") == "Accept, Accept-Encoding"
    assert response.getheader("Content-Length") == str(len(TEXT))
    assert response.getheader("Date")


def test_openmetrics_and_gzip_are_served_when_asked_for(server: RunningServer) -> None:
    """Both together: the type says 1.0.0, the body ends in EOF, the coding is declared."""
    response, body = ask(
        server, "GET", "/metrics", Accept="application/openmetrics-text;version=1.0.0", Accept_Encoding="gzip"
    )
    assert response.getheader("Content-Type") == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert response.getheader("Content-Encoding") == "gzip"
    assert gzip.decompress(body) == OPENMETRICS
    assert int(response.getheader("Content-Length") or 0) == len(body) < len(OPENMETRICS)


def test_accept_headers_on_several_lines_are_one_list(server: RunningServer) -> None:
    """A header that is repeated is read whole."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE_S)
    connection.putrequest("GET", "/metrics", skip_accept_encoding=True)
    connection.putheader("Accept", "text/plain;q=0.1")
    connection.putheader("Accept", "application/openmetrics-text")
    connection.endheaders()
    assert "openmetrics" in (connection.getresponse().getheader("Content-Type") or "")
    connection.close()


def test_query_strings_are_ignored(server: RunningServer) -> None:
    """A scrape with parameters is the scrape."""
    response, body = ask(server, "GET", "/metrics?name[]=up&x=%00")
    assert (response.status, body) == (200, TEXT)


@pytest.mark.parametrize("target", ["http://{host}/metrics", "HTTP://{host}/metrics?x=1", "http://[::1]:9/metrics"])
def test_a_target_that_is_a_whole_url_means_its_path(server: RunningServer, target: str) -> None:
    """RFC 9112 3.2.2: clients that take the server for a proxy send one."""
    response, body = ask(server, "GET", target.format(host=f"127.0.0.1:{server.port}"))
    assert (response.status, body) == (200, TEXT)


def test_the_host_in_a_whole_url_counts_and_not_the_header(server: RunningServer) -> None:
    """The page is for requests that name this machine; a URL with nothing but a host means `/`."""
    assert ask(server, "GET", "http://localhost")[0].status == 200
    assert ask(server, "GET", "http://evil.example/")[0].status == 403
    for no_path in (
        "http:metrics",
        "http:%2f%2flocalhost/metrics",
        "ftp://localhost/metrics",
        "http://me@localhost/metrics",
    ):
        assert ask(server, "GET", no_path)[0].status == 404


@pytest.mark.parametrize("path", ["/metrics", "/-/healthy", "/-/ready", "/", "/api/v1/tasks", "/api/v1/lanes"])
def test_head_has_the_headers_of_get_and_no_body(server: RunningServer, path: str) -> None:
    """HEAD works wherever GET does."""
    head, no_body = ask(server, "HEAD", path)
    get, body = ask(server, "GET", path)
    assert (head.status, no_body) == (get.status, b"")
    assert int(head.getheader("Content-Length") or -1) == len(body) > 0
    assert head.getheader("Content-Type") == get.getheader("Content-Type")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
@pytest.mark.parametrize("path", ["/metrics", "/-/ready", "/", "/api/v1/runs"])
def test_other_methods_get_405_with_allow(server: RunningServer, method: str, path: str) -> None:
    """What is allowed is said."""
    response, _ = ask(server, method, path)
    assert response.status == 405
    assert {word.strip() for word in (response.getheader("Allow") or "").split(",")} == {"GET", "HEAD"}


@pytest.mark.parametrize("path", ["/nope", "/metrics/", "//metrics", "/metrics/x", "/-/reload", "/api/v1", "/static/"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_other_paths_get_404(server: RunningServer, path: str, method: str) -> None:
    """There is nothing else, and no redirect to it."""
    assert ask(server, method, path)[0].status == 404


def test_health_and_readiness_are_apart(server: RunningServer, exposition: FakeExposition) -> None:
    """Catching up is healthy and not ready; the scrape answers meanwhile."""
    exposition.is_ready = False
    try:
        assert [ask(server, "GET", path)[0].status for path in ("/-/healthy", "/-/ready", "/metrics")] == [
            200,
            503,
            200,
        ]
    finally:
        exposition.is_ready = True
    assert ask(server, "GET", "/-/ready")[0].status == 200


def test_a_request_with_a_body_is_answered_and_its_connection_closed(server: RunningServer) -> None:
    """Nobody reads the body, so nothing after it is taken for a request."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE_S)
    connection.request("GET", "/-/healthy", body=b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    response = connection.getresponse()
    assert (response.status, response.read(), response.getheader("Connection")) == (200, b"healthy\n", "close")
    connection.close()


def test_one_connection_serves_many_scrapes(server: RunningServer) -> None:
    """A scraper keeps its connection between scrapes."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE_S)
    connection.connect()
    local_port = connection.sock.getsockname()[1]
    for _ in range(20):
        connection.request("GET", "/metrics")
        assert connection.getresponse().read() == TEXT
        assert connection.sock.getsockname()[1] == local_port
    connection.close()


def test_a_rendering_that_fails_is_a_500_and_the_next_scrape_works(
    server: RunningServer, exposition: FakeExposition, caplog: pytest.LogCaptureFixture
) -> None:
    """An unexpected exception costs one answer, leaves its trace in the log and not in the answer."""

    def fail() -> None:
        raise RuntimeError("secret detail")

    exposition.before_render = fail
    try:
        with caplog.at_level(logging.ERROR):
            response, body = ask(server, "GET", "/metrics")
    finally:
        exposition.before_render = lambda: None
    assert response.status == 500
    assert b"secret" not in body
    assert "secret detail" in caplog.text
    assert ask(server, "GET", "/metrics")[0].status == 200


def test_slow_questions_do_not_delay_a_scrape(server: RunningServer, exposition: FakeExposition) -> None:
    """While several API calls are stuck in their worker, scrapes are answered."""
    begun, release = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        release.wait(DEADLINE_S)

    exposition.before_tasks = wait
    askers = [threading.Thread(target=ask, args=(server, "GET", f"/api/v1/tasks?limit={n}")) for n in range(8)]
    try:
        for asker in askers:
            asker.start()
        assert begun.wait(DEADLINE_S)
        assert ask(server, "GET", "/metrics")[0].status == 200
    finally:
        release.set()
        exposition.before_tasks = lambda: None
        for asker in askers:
            asker.join()


def test_two_servers_cannot_have_one_port(server: RunningServer) -> None:
    """The second is told so before it serves anything."""
    settings = WebSettings(listen_addresses=(f"127.0.0.1:{server.port}",))
    with pytest.raises(UsageError, match="address already in use"), running(FakeExposition(), settings):
        pass


def test_several_addresses_are_served_at_once() -> None:
    """Each listen address answers, and its chosen port is reported in the order given."""
    settings = WebSettings(listen_addresses=("127.0.0.1:0", "localhost:0", ":0"))
    with running(FakeExposition(), settings) as server:
        assert len(set(server.urls)) == 3
        for url in server.urls:
            assert httpx.get(url + "/metrics").status_code == 200


def test_stopping_lets_the_scrape_in_flight_finish() -> None:
    """A scrape that is being rendered when we are told to stop is answered whole; new ones find nobody."""
    exposition = FakeExposition()
    begun, release = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        release.wait(DEADLINE_S)

    exposition.before_render = wait
    with running(exposition) as server:
        answers: list[tuple[http.client.HTTPResponse, bytes]] = []
        client = threading.Thread(target=lambda: answers.append(ask(server, "GET", "/metrics")))
        client.start()
        assert begun.wait(DEADLINE_S)
        server.stop.set()
        deadline = time.monotonic() + DEADLINE_S
        refused = False
        while not refused and time.monotonic() < deadline:
            try:
                ask(server, "GET", "/-/healthy")
            except OSError:
                refused = True
        release.set()
        client.join(DEADLINE_S)
        server.thread.join(DEADLINE_S)
        assert refused
        assert not server.thread.is_alive()
        assert [(response.status, body) for response, body in answers] == [(200, TEXT)]
