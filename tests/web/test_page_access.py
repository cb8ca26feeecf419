import asyncio

import httpx
import pytest

from preempt_exporter.http_server.hosts import host_name, is_loopback
from preempt_exporter.web.access import reason_to_refuse
from preempt_exporter.web.live_config import LiveConfig
from preempt_exporter.web.routes import Routes
from preempt_exporter.web.settings import PageAudience, WebSettings
from preempt_exporter.web.shared_work import SharedWork
from tests.web.running_server import FakeExposition, running

CLOSED = [
    "/",
    "/page.js",
    "/words.js",
    "/page.css",
    "/api/v1/tasks",
    "/api/v1/lanes",
    "/api/v1/runs",
    "/api/v1/overview",
]
OPEN = ["/metrics", "/-/healthy", "/-/ready"]


def refusal(
    client: str | None = "127.0.0.1", audience: PageAudience = "loopback", login: bool = False, **headers: str
) -> str | None:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return reason_to_refuse(
        client, named, listen_hosts=frozenset({"10.0.0.5", "box.lan"}), audience=audience, login=login
    )


@pytest.mark.parametrize("client", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:9877", "LOCALHOST:1", "127.0.0.1:9877", "[::1]:9877", "10.0.0.5:9877", "box.lan", ""],
)
def test_a_client_on_this_machine_that_names_it_may_see_the_page(client: str, host: str) -> None:
    """Loopback addresses of both families, and every usual name for this machine."""
    assert refusal(client, host=host) is None


@pytest.mark.parametrize("client", ["10.0.0.7", "192.168.1.1", "fe80::1%eth0", "::ffff:10.0.0.7", "2001:db8::1", None])
def test_a_client_elsewhere_may_not(client: str | None) -> None:
    """The refusal says how to open the page."""
    told = refusal(client, host="localhost")
    assert told is not None
    assert "--web.page=all" in told
    assert "--web.config.file" in told


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:9877", "localhost.evil.example", "127.0.0.1.evil.example"]
)
def test_a_loopback_client_with_a_foreign_host_may_not(host: str) -> None:
    """This is what a rebound name looks like."""
    assert "Host header" in (refusal(host=host) or "")


@pytest.mark.parametrize("header", ["x_forwarded_for", "forwarded", "x_real_ip", "via"])
def test_a_request_through_a_proxy_may_not(header: str) -> None:
    """A proxy on this machine speaks for clients elsewhere."""
    assert "proxy" in (refusal(host="localhost", **{header: "203.0.113.9"}) or "")


def test_a_login_or_an_open_page_lets_everyone_in() -> None:
    """Whatever the client, the proxy and the name."""
    everything = {"host": "queue.example", "x_forwarded_for": "203.0.113.9"}
    assert refusal("203.0.113.9", login=True, **everything) is None
    assert refusal("203.0.113.9", audience="all", **everything) is None


def test_names_and_addresses_are_told_apart() -> None:
    """A name that begins like an address is a name."""
    assert not is_loopback("127.0.0.1.evil.example")
    assert not is_loopback("localhost")
    assert host_name("[::1]") == "::1"
    assert host_name("h:1") == "h"


def test_strangers_get_the_scrape_and_not_the_page() -> None:
    """The application as it is served, asked by a client elsewhere."""
    pool = SharedWork("test", threads=1)
    routes = Routes(
        FakeExposition(),
        scrapes=pool,
        questions=pool,
        live_config=LiveConfig(None),
        audience="loopback",
        listen_hosts=frozenset(),
    )
    transport = httpx.ASGITransport(app=routes.application(), client=("203.0.113.9", 4321))

    async def statuses() -> dict[str, int]:
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return {path: (await client.get(path)).status_code for path in CLOSED + OPEN}

    assert asyncio.run(statuses()) == dict.fromkeys(CLOSED, 403) | dict.fromkeys(OPEN, 200)
    pool.close()


@pytest.mark.parametrize("audience", ["loopback", "all"])
def test_a_foreign_host_header_closes_page_and_api_but_not_the_scrape(audience: PageAudience) -> None:
    """On the real server; with --web.page=all nothing is closed."""
    settings = WebSettings(listen_addresses=("127.0.0.1:0",), page=audience)
    with running(FakeExposition(), settings) as server, httpx.Client(base_url=server.url) as client:
        for path in CLOSED:
            answer = client.get(path, headers={"Host": "evil.example"})
            assert answer.status_code == (403 if audience == "loopback" else 200), path
            assert client.get(path).status_code == 200
        for path in OPEN:
            assert client.get(path, headers={"Host": "evil.example"}).status_code == 200


@pytest.mark.parametrize("path", CLOSED)
def test_page_and_api_carry_headers_that_keep_others_out(path: str) -> None:
    """Nothing from elsewhere runs in it, nobody frames it, nothing is told to others or kept."""
    with running(FakeExposition()) as server:
        headers = httpx.get(server.url + path).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Access-Control-Allow-Origin" not in headers
