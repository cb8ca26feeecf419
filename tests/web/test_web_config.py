"""TLS, client certificates and logins on the real server, and their change while it runs."""

import base64
import logging
import os
import socket
import ssl
import time
from pathlib import Path

import bcrypt
import httpx
import pytest
import trustme

from preempt_exporter.errors import ConfigError
from preempt_exporter.web import logins
from preempt_exporter.web.logins import Logins, parse_basic
from preempt_exporter.web.settings import WebSettings
from tests.web.running_server import DEADLINE_S, TEXT, FakeExposition, RunningServer, running


def hashed(password: str | bytes, cost: int = 4) -> str:
    raw = password.encode() if isinstance(password, str) else password
    return bcrypt.hashpw(raw[:72], bcrypt.gensalt(cost)).decode()


def issue(authority: trustme.CA, folder: Path, name: str, *names: str) -> None:
    """Write NAME.crt and NAME.key."""
    certificate = authority.issue_cert(*names)
    certificate.private_key_pem.write_to_path(folder / f"{name}.key")
    certificate.cert_chain_pems[0].write_to_path(folder / f"{name}.crt")


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def rewrite(tmp_path: Path, text: str) -> None:
    """Change the configuration at once, as an editor does: a server that looks meanwhile sees no half of it."""
    (tmp_path / "web.yml.new").write_text(text)
    (tmp_path / "web.yml.new").replace(tmp_path / "web.yml")


def settings(tmp_path: Path, text: str) -> WebSettings:
    (tmp_path / "web.yml").write_text(text)
    return WebSettings(listen_addresses=("127.0.0.1:0",), config_file=str(tmp_path / "web.yml"))


def https(server: RunningServer, context: ssl.SSLContext, path: str = "/metrics") -> httpx.Response:
    return httpx.get(f"https://localhost:{server.port}{path}", verify=context, timeout=DEADLINE_S)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def tls(tmp_path: Path, authority: trustme.CA) -> str:
    """The beginning of a configuration with a certificate for localhost."""
    issue(authority, tmp_path, "server", "localhost")
    return "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n"


def test_a_certificate_makes_it_https(tmp_path: Path, authority: trustme.CA, tls: str) -> None:
    """The scrape comes over verified TLS, the URL says so, and plain HTTP gets nothing."""
    with running(FakeExposition(), settings(tmp_path, tls)) as server:
        assert server.url.startswith("https://")
        assert https(server, trusting(authority)).content == TEXT
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"http://localhost:{server.port}/metrics")


def test_old_protocols_and_foreign_ciphers_are_refused(tmp_path: Path, authority: trustme.CA, tls: str) -> None:
    """max_version, min_version and cipher_suites are what the handshake obeys."""
    suite = "  max_version: TLS12\n  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, "
    suite += "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384]\n"
    with running(FakeExposition(), settings(tmp_path, tls + suite)) as server:
        agreed = trusting(authority)
        with (
            socket.create_connection(("127.0.0.1", server.port)) as plain,
            agreed.wrap_socket(plain, server_hostname="localhost") as client,
        ):
            assert client.version() == "TLSv1.2"
            assert "AES256-GCM" in (client.cipher() or ("",))[0]
        too_new = trusting(authority)
        too_new.minimum_version = ssl.TLSVersion.TLSv1_3
        with pytest.raises(httpx.HTTPError):
            https(server, too_new)
        other_cipher = trusting(authority)
        other_cipher.maximum_version = ssl.TLSVersion.TLSv1_2
        other_cipher.set_ciphers("ECDHE+CHACHA20")
        with pytest.raises(httpx.HTTPError):
            https(server, other_cipher)


def test_a_client_certificate_is_required_and_verified(tmp_path: Path, authority: trustme.CA, tls: str) -> None:
    """With one from the authority in, without or with another's out."""
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    issue(authority, tmp_path, "good", "scraper.example")
    issue(trustme.CA(), tmp_path, "bad", "scraper.example")
    required = tls + "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\n"
    with running(FakeExposition(), settings(tmp_path, required)) as server:
        known = trusting(authority)
        known.load_cert_chain(tmp_path / "good.crt", tmp_path / "good.key")
        assert https(server, known).status_code == 200
        elsewhere = {"Host": "queue.example", "X-Forwarded-For": "203.0.113.9"}
        page = httpx.get(f"https://localhost:{server.port}/", verify=known, headers=elsewhere)
        assert page.status_code == 200, "a verified certificate is a login"
        stranger = trusting(authority)
        with pytest.raises(httpx.HTTPError):
            https(server, stranger)
        stranger.load_cert_chain(tmp_path / "bad.crt", tmp_path / "bad.key")
        with pytest.raises(httpx.HTTPError):
            https(server, stranger)


def test_a_client_certificate_may_be_left_out_where_it_is_only_verified_if_given(
    tmp_path: Path, authority: trustme.CA, tls: str
) -> None:
    """VerifyClientCertIfGiven: none is fine, a wrong one is not."""
    issue(trustme.CA(), tmp_path, "bad", "scraper.example")
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    optional = tls + "  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: ca.crt\n"
    with running(FakeExposition(), settings(tmp_path, optional)) as server:
        assert https(server, trusting(authority)).status_code == 200
        elsewhere = {"Host": "queue.example"}
        page = httpx.get(f"https://localhost:{server.port}/", verify=trusting(authority), headers=elsewhere)
        assert page.status_code == 403, "an optional certificate is no login"
        wrong = trusting(authority)
        wrong.load_cert_chain(tmp_path / "bad.crt", tmp_path / "bad.key")
        with pytest.raises(httpx.HTTPError):
            https(server, wrong)


@pytest.mark.parametrize(("name", "welcome"), [("scraper.example", True), ("10.1.2.3", True), ("other.example", False)])
def test_allowed_alternative_names_are_matched_exactly(
    tmp_path: Path, authority: trustme.CA, tls: str, name: str, welcome: bool
) -> None:
    """A verified certificate of another name gets no answer at all."""
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    issue(authority, tmp_path, "client", name)
    text = tls + "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\n"
    text += "  client_allowed_sans: [scraper.example, 10.1.2.3]\n"
    with running(FakeExposition(), settings(tmp_path, text)) as server:
        client = trusting(authority)
        client.load_cert_chain(tmp_path / "client.crt", tmp_path / "client.key")
        if welcome:
            assert https(server, client).status_code == 200
        else:
            with pytest.raises(httpx.HTTPError):
                https(server, client)


def test_a_new_certificate_is_used_by_the_next_connection(tmp_path: Path, authority: trustme.CA, tls: str) -> None:
    """Renewal needs no restart, and a half-finished one leaves the old certificate at work."""
    with running(FakeExposition(), settings(tmp_path, tls)) as server:
        assert https(server, trusting(authority)).status_code == 200
        successor = trustme.CA()
        certificate = successor.issue_cert("localhost")
        certificate.cert_chain_pems[0].write_to_path(tmp_path / "server.crt")
        assert https(server, trusting(authority)).status_code == 200, (
            "certificate and key do not fit: the old pair stays"
        )
        certificate.private_key_pem.write_to_path(tmp_path / "server.key")
        assert https(server, trusting(successor)).status_code == 200
        with pytest.raises(httpx.HTTPError):
            https(server, trusting(authority))


REQUIRED = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\n"


@pytest.mark.parametrize("before", ["plain", "tls", "optional", "other authority", "other name"])
def test_a_kept_connection_gives_what_is_asked_now_or_is_closed(
    tmp_path: Path, authority: trustme.CA, tls: str, before: str
) -> None:
    """Who came in before client certificates were required is a stranger, not somebody who has logged in."""
    elsewhere = trustme.CA()
    elsewhere.cert_pem.write_to_path(tmp_path / "elsewhere.crt")
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    issue(elsewhere, tmp_path, "theirs", "scraper.example")
    issue(authority, tmp_path, "client", "scraper.example")
    texts = {
        "plain": "{}\n",
        "tls": tls,
        "optional": tls + REQUIRED.replace("RequireAndVerifyClientCert", "VerifyClientCertIfGiven"),
        "other authority": tls + REQUIRED.replace("ca.crt", "elsewhere.crt"),
        "other name": tls + REQUIRED,
    }
    client = trusting(authority)
    if before.startswith("other"):
        name = "theirs" if before == "other authority" else "client"
        client.load_cert_chain(tmp_path / f"{name}.crt", tmp_path / f"{name}.key")
    scheme = "http" if before == "plain" else "https"
    with (
        running(FakeExposition(), settings(tmp_path, texts[before])) as server,
        httpx.Client(base_url=f"{scheme}://localhost:{server.port}", verify=client) as kept,
    ):
        assert kept.get("/metrics").status_code == 200
        names = "  client_allowed_sans: [other.example]\n" if before == "other name" else ""
        rewrite(tmp_path, tls + REQUIRED + names)
        with pytest.raises(httpx.HTTPError):
            kept.get("/api/v1/tasks")


def test_what_was_sent_ahead_is_judged_when_its_turn_comes(tmp_path: Path, authority: trustme.CA, tls: str) -> None:
    """A request that waits behind another while client certificates become required is not answered."""
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    exposition = FakeExposition()
    exposition.before_render = lambda: rewrite(tmp_path, tls + REQUIRED)
    with (
        running(exposition, settings(tmp_path, "{}\n")) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S) as client,
    ):
        client.sendall(b"".join(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path for path in (b"/metrics", b"/")))
        answers = b""
        try:
            while piece := client.recv(1 << 16):
                answers += piece
        except ConnectionResetError:
            pass
        assert answers.count(b"HTTP/1.1") <= 1


def test_a_kept_connection_outlives_a_renewed_certificate(tmp_path: Path, authority: trustme.CA, tls: str) -> None:
    """Nothing else is asked of the client than before, so its connection stays."""
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    issue(authority, tmp_path, "client", "scraper.example")
    client = trusting(authority)
    client.load_cert_chain(tmp_path / "client.crt", tmp_path / "client.key")
    with (
        running(FakeExposition(), settings(tmp_path, tls + REQUIRED)) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S) as plain,
        client.wrap_socket(plain, server_hostname="localhost") as kept,
    ):
        for _ in range(2):
            kept.sendall(b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = b""
            while not answer.endswith(b"healthy\n"):
                answer += kept.recv(1 << 16) or pytest.fail("the connection was closed")
            issue(authority, tmp_path, "server", "localhost")
            rewrite(tmp_path, tls + REQUIRED + "  client_allowed_sans: [scraper.example]\n")


def test_users_change_while_it_runs_and_a_broken_file_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A rewritten file holds from the next request on; a mistake is logged once and the old users stay."""
    before = f"basic_auth_users: {{alice: {hashed('one')}}}\n"
    with running(FakeExposition(), settings(tmp_path, before)) as server, httpx.Client(base_url=server.url) as client:
        assert client.get("/metrics", auth=("alice", "one")).status_code == 200
        rewrite(tmp_path, f"basic_auth_users: {{alice: {hashed('two')}}}\n")
        assert client.get("/metrics", auth=("alice", "one")).status_code == 401
        assert client.get("/metrics", auth=("alice", "two")).status_code == 200
        with caplog.at_level(logging.ERROR):
            rewrite(tmp_path, "basic_auth_users: {alice: plain}\n")
            for _ in range(3):
                assert client.get("/metrics", auth=("alice", "two")).status_code == 200
                assert client.get("/metrics").status_code == 401
            (tmp_path / "web.yml").unlink()
            assert client.get("/metrics").status_code == 401
        assert caplog.text.count("not taken over") == 2
        rewrite(tmp_path, "{}\n")
        assert client.get("/metrics").status_code == 200


def test_a_change_that_no_newer_content_shows_holds(tmp_path: Path) -> None:
    """Same file, size and time of writing, as when a file that could not be read is given to us afterwards."""
    before, after = (f"basic_auth_users: {{alice: {hashed(password)}}}\n" for password in ("one", "two"))
    with running(FakeExposition(), settings(tmp_path, before)) as server, httpx.Client(base_url=server.url) as client:
        assert client.get("/metrics", auth=("alice", "one")).status_code == 200
        written = (tmp_path / "web.yml").stat()
        with (tmp_path / "web.yml").open("r+") as file:
            file.write(after)
        os.utime(tmp_path / "web.yml", ns=(written.st_atime_ns, written.st_mtime_ns))
        assert client.get("/metrics", auth=("alice", "two")).status_code == 200


def test_emptying_the_file_takes_no_lock_off(tmp_path: Path) -> None:
    """Between the two halves of a rewrite in place the file is empty: the login stays until the new text is there."""
    before = f"basic_auth_users: {{alice: {hashed('one')}}}\n"
    with running(FakeExposition(), settings(tmp_path, before)) as server, httpx.Client(base_url=server.url) as client:
        rewrite(tmp_path, "")
        assert client.get("/metrics").status_code == 401
        assert client.get("/metrics", auth=("alice", "one")).status_code == 200
        rewrite(tmp_path, f"basic_auth_users: {{alice: {hashed('two')}}}\n")
        assert client.get("/metrics", auth=("alice", "two")).status_code == 200


def test_emptying_the_file_takes_no_tls_off(tmp_path: Path, authority: trustme.CA, tls: str) -> None:
    """Nor is a scrape sent in clear between the two halves, or for as long as a disk is full; `{}` means it."""
    with running(FakeExposition(), settings(tmp_path, tls)) as server:
        rewrite(tmp_path, "")
        assert https(server, trusting(authority)).content == TEXT
        rewrite(tmp_path, "{}\n")
        assert httpx.get(f"http://127.0.0.1:{server.port}/metrics", timeout=DEADLINE_S).content == TEXT


def test_a_configuration_that_is_broken_from_the_start_is_a_config_error(tmp_path: Path) -> None:
    """Nothing is served under a configuration that nobody meant."""
    with (
        pytest.raises(ConfigError, match=r"web.yml:1:1: unknown key 'x'"),
        running(FakeExposition(), settings(tmp_path, "x: 1")),
    ):
        pass
    absent = WebSettings(listen_addresses=("127.0.0.1:0",), config_file=str(tmp_path / "absent.yml"))
    with pytest.raises(ConfigError, match=r"absent\.yml: No such file"), running(FakeExposition(), absent):
        pass


@pytest.mark.parametrize("path", ["/metrics", "/", "/-/healthy", "/-/ready", "/api/v1/tasks", "/nope", "/page.js"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS"])
@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "Basic",
        "Basic !!!",
        "Bearer abc",
        "Basic " + base64.b64encode(b"alice").decode(),
        "Basic " + base64.b64encode(b"alice:wrong").decode(),
        "Basic " + base64.b64encode(b"bob:right").decode(),
        "Basic " + base64.b64encode(b":").decode(),
        "Basic " + base64.b64encode(b"alice:\x00").decode(),
        "Basic " + base64.b64encode(b"\xff\xfe:\xff").decode(),
    ],
)
def test_nothing_but_401_without_credentials(
    locked: RunningServer, path: str, method: str, authorization: str | None
) -> None:
    """Every path, known or not, and every method ask for credentials first and tell nothing else."""
    headers = {} if authorization is None else {"Authorization": authorization}
    answer = httpx.request(method, locked.url + path, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"].startswith("Basic ")
    assert "Allow" not in answer.headers
    assert answer.text in ("", "Unauthorized\n")


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("locked")
    with running(FakeExposition(), settings(folder, f"basic_auth_users: {{alice: {hashed('right')}}}\n")) as server:
        yield server


def test_with_credentials_everything_is_open(locked: RunningServer) -> None:
    """A login opens the page and API too; unknown paths and methods are then told as such."""
    with httpx.Client(base_url=locked.url, auth=("alice", "right")) as client:
        for path in ("/metrics", "/", "/-/healthy", "/-/ready", "/api/v1/tasks", "/api/v1/lanes", "/api/v1/runs"):
            assert client.get(path).status_code == 200, path
        assert client.get("/api/v1/tasks", headers={"Host": "queue.example"}).status_code == 200
        assert client.get("/nope").status_code == 404
        assert client.post("/metrics").status_code == 405


def test_configured_headers_are_sent_and_replace_ours(tmp_path: Path) -> None:
    """On every answer, 401 and 404 included."""
    text = (
        "http_server_config:\n  headers:\n    X-Frame-Options: sameorigin\n    Strict-Transport-Security: max-age=9\n"
    )
    with running(FakeExposition(), settings(tmp_path, text)) as server:
        for path in ("/metrics", "/", "/nope"):
            answer = httpx.get(server.url + path)
            assert answer.headers.get_list("X-Frame-Options") == ["sameorigin"]
            assert answer.headers["Strict-Transport-Security"] == "max-age=9"


def basic(name: str, password: str | bytes) -> str:
    raw = password.encode() if isinstance(password, str) else password
    return "Basic " + base64.b64encode(name.encode() + b":" + raw).decode()


def test_bcrypt_is_paid_once_per_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """A verified password is remembered without being kept; a wrong one is checked each time."""
    paid = []
    real = bcrypt.checkpw
    monkeypatch.setattr(logins.bcrypt, "checkpw", lambda *args: paid.append(1) or real(*args))
    users = Logins({"alice": hashed("right")})
    assert not users.remembers(basic("alice", "right"))
    assert users.verify(basic("alice", "right"))
    assert len(paid) == 1
    assert all(users.remembers(basic("alice", "right")) for _ in range(100))
    assert not users.remembers(basic("alice", "wrong"))
    assert not users.remembers(basic("alic", "eright"))
    assert not users.verify(basic("alice", "wrong"))
    assert len(paid) == 2
    assert "right" not in repr(vars(users))


def test_an_unknown_user_costs_as_much_as_a_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hash that is tried for nobody has the cost of the dearest real one, and is never right."""
    tried: list[bytes] = []
    real = bcrypt.checkpw

    def check(password: bytes, against: bytes) -> bool:
        tried.append(against)
        return real(password, against)

    monkeypatch.setattr(logins.bcrypt, "checkpw", check)
    users = Logins({"alice": hashed("right", 4), "bob": hashed("right", 5)})
    assert not users.verify(basic("mallory", "right"))
    assert [against[:7] for against in tried] == [b"$2b$05$"]


def test_long_and_odd_passwords_work_as_elsewhere() -> None:
    """Past 72 bytes bcrypt reads nothing; colons and non-ASCII bytes belong to the password."""
    long = "x" * 100
    users = Logins({"a": hashed(long), "b": hashed("c:d"), "ü": hashed("pä"), "y": hashed("z").replace("$2b$", "$2y$")})
    assert users.verify(basic("a", long))
    assert users.verify(basic("b", "c:d"))
    assert users.verify(basic("ü", "pä"))
    assert users.verify(basic("y", "z"))


def test_memory_for_verified_passwords_is_bounded() -> None:
    """More users than are remembered are verified again, oldest first."""
    shared = hashed("p")
    users = Logins({f"user{number}": shared for number in range(logins.MAX_REMEMBERED + 1)})
    for number in range(logins.MAX_REMEMBERED + 1):
        assert users.verify(basic(f"user{number}", "p"))
    assert not users.remembers(basic("user0", "p"))
    assert users.remembers(basic("user1", "p"))


@pytest.mark.parametrize("scheme", ["Basic", "basic", "BASIC"])
def test_the_scheme_is_read_without_regard_to_case(scheme: str) -> None:
    """RFC 9110 says so."""
    assert parse_basic(f"{scheme} {base64.b64encode(b'a:b').decode()}") == ("a", b"b")


def test_scrapes_with_dear_passwords_are_quick_from_the_second_on(tmp_path: Path) -> None:
    """With a cost at which one check takes hundreds of milliseconds, fifty scrapes cost one check."""
    text = f"basic_auth_users: {{alice: {hashed('right', 12)}}}\n"
    with (
        running(FakeExposition(), settings(tmp_path, text)) as server,
        httpx.Client(base_url=server.url, auth=("alice", "right")) as client,
    ):
        started = time.monotonic()
        assert client.get("/metrics").status_code == 200
        first_s = time.monotonic() - started
        started = time.monotonic()
        for _ in range(50):
            assert client.get("/metrics").status_code == 200
        assert time.monotonic() - started < 25 * first_s
