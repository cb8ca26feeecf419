from pathlib import Path

import pytest
import trustme

from preempt_exporter.errors import ConfigError
from preempt_exporter.web.config_file import TLS_KEYS, read_config_file
from preempt_exporter.web.tls import server_context

HASH = "$2y$10$X.nz4llSjYnh6VMCNdY.VedrWYut5WUOtoZjklKjsgAVN76Lqc5Mu"
PAIR = "cert_file: a.crt, key_file: a.key"


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "web.yml"
    path.write_text(text)
    return str(path)


def refusal(tmp_path: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read_config_file(write(tmp_path, text))
    return str(caught.value).removeprefix(str(tmp_path / "web.yml"))


def test_everything_that_can_be_honoured_is_read(tmp_path: Path) -> None:
    """A file with every supported key, paths relative to the file."""
    read = read_config_file(
        write(
            tmp_path,
            f"""
tls_server_config:
  cert_file: certs/a.crt
  key_file: /absolute/a.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca.crt
  client_allowed_sans: [scraper.example, 10.0.0.1]
  min_version: TLS13
  max_version: TLS13
  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_AES_128_GCM_SHA256]
  prefer_server_cipher_suites: false
  curve_preferences: [CurveP384]
http_server_config:
  http2: false
  headers:
    Strict-Transport-Security: max-age=60
    X-Frame-Options: deny
    X-Content-Type-Options: nosniff
    X-XSS-Protection: '0'
    Content-Security-Policy: ''
basic_auth_users:
  alice: {HASH}
  12: {HASH}
""",
        )
    )
    assert read.tls is not None
    assert read.tls.cert_file == str(tmp_path / "certs/a.crt")
    assert read.tls.key_file == "/absolute/a.key"
    assert read.files() == (str(tmp_path / "certs/a.crt"), "/absolute/a.key", str(tmp_path / "ca.crt"))
    assert read.tls.client_allowed_sans == ("scraper.example", "10.0.0.1")
    assert read.tls.cipher_suites == ("ECDHE-RSA-AES128-GCM-SHA256",)
    assert (read.tls.min_version, read.tls.prefer_server_cipher_suites, read.tls.curve) == ("TLS13", False, "secp384r1")
    assert read.headers == {
        "Strict-Transport-Security": "max-age=60",
        "X-Frame-Options": "deny",
        "X-Content-Type-Options": "nosniff",
        "X-XSS-Protection": "0",
    }
    assert read.users == {"alice": HASH, "12": HASH}


@pytest.mark.parametrize("text", ["", "{}", "# nothing\n", "tls_server_config:\nbasic_auth_users:\n", "---\n"])
def test_an_empty_configuration_is_plain_http(tmp_path: Path, text: str) -> None:
    """Nothing said, nothing required."""
    read = read_config_file(write(tmp_path, text))
    assert (read.tls, read.users, read.headers) == (None, {}, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tls_server_conf: {}", ":1:1: unknown key 'tls_server_conf' in the file; did you mean 'tls_server_config'?"),
        ("tls_server_config:\n  cert_fil: x", ":2:3: unknown key 'cert_fil' in tls_server_config; did you mean"),
        (
            "http_server_config:\n  headers:\n    X-Other: y",
            ":3:5: unknown key 'X-Other' in headers; known here: Content",
        ),
        ("a: [", ": no valid YAML: "),
        ("a: 1\na: 2", ":2:1: 'a' stands twice in the file"),
        ("- x", ":1:1: the file must be a mapping"),
        ("a: 1\n---\nb: 2", "no valid YAML"),
        ("tls_server_config: yes", ":1:20: tls_server_config must be a mapping"),
        (f"tls_server_config: {{{PAIR}, cert_file: b}}", "'cert_file' stands twice"),
        ("tls_server_config: {key_file: a}", "tls_server_config needs a cert_file"),
        ("tls_server_config: {cert_file: a}", "tls_server_config needs a key_file"),
        ("tls_server_config: {cert_file: [a], key_file: b}", "cert_file must be a single value"),
        ("tls_server_config: {cert: PEM, key: PEM}", ":1:21: cert cannot be honoured: Python's TLS reads cert"),
        ("tls_server_config: {cert_file: a, key: PEM}", "key cannot be honoured"),
        (f"tls_server_config: {{{PAIR}, min_version: TLS10}}", "min_version TLS10 cannot be honoured"),
        (f"tls_server_config: {{{PAIR}, max_version: TLS11}}", "max_version TLS11 cannot be honoured"),
        (f"tls_server_config: {{{PAIR}, min_version: SSL3}}", "min_version 'SSL3' is none of TLS12, TLS13"),
        (f"tls_server_config: {{{PAIR}, min_version: TLS13, max_version: TLS12}}", "min_version TLS13 is above"),
        (f"tls_server_config: {{{PAIR}, client_auth_type: RequestClientCert}}", "RequestClientCert cannot be honoured"),
        (
            f"tls_server_config: {{{PAIR}, client_auth_type: RequireAnyClientCert}}",
            "RequireAnyClientCert cannot be hon",
        ),
        (f"tls_server_config: {{{PAIR}, client_auth_type: RequireClientCert}}", "RequireClientCert cannot be honoured"),
        (f"tls_server_config: {{{PAIR}, client_auth_type: Maybe}}", "client_auth_type 'Maybe' is none of NoClientCert"),
        (f"tls_server_config: {{{PAIR}, client_auth_type: RequireAndVerifyClientCert}}", "needs a client_ca_file"),
        (f"tls_server_config: {{{PAIR}, client_ca_file: ca}}", "client_ca_file has no effect without client_auth_type"),
        (f"tls_server_config: {{{PAIR}, client_allowed_sans: [a]}}", "client_allowed_sans needs client_auth_type Req"),
        (
            f"tls_server_config: {{{PAIR}, client_auth_type: VerifyClientCertIfGiven, "
            "client_ca: a, client_ca_file: b}",
            "client_ca and client_ca_file exclude each other",
        ),
        (
            f"tls_server_config: {{{PAIR}, client_auth_type: VerifyClientCertIfGiven, client_ca: 'é'}}",
            "client_ca holds what PEM does not",
        ),
        ('tls_server_config: {cert_file: "a\\0b", key_file: k}', ":1:32: no valid YAML: a NUL or half of"),
        (f"tls_server_config: {{{PAIR}, cipher_suites: [NULL-MD5]}}", "'NULL-MD5' is no suite that can be offered"),
        (f"tls_server_config: {{{PAIR}, cipher_suites: x}}", "cipher_suites must be a list"),
        (
            f"tls_server_config: {{{PAIR}, curve_preferences: [CurveP256, X25519]}}",
            "curve_preferences cannot be honoured",
        ),
        (f"tls_server_config: {{{PAIR}, curve_preferences: [P-1]}}", "'P-1' is none of CurveP256"),
        (f"tls_server_config: {{{PAIR}, prefer_server_cipher_suites: 3}}", "must be true or false"),
        ("http_server_config: {http2: true}", "http2 cannot be honoured: this server speaks HTTP/1.1"),
        ("http_server_config: {headers: {X-Frame-Options: ALLOW}}", "X-Frame-Options must be one of deny, sameorigin"),
        ('http_server_config: {headers: {X-XSS-Protection: "a\\r\\nSet-Cookie: b"}}', "must be printable ASCII"),
        ("rate_limit: {interval: 1s, burst: 3}", ":1:1: rate_limit cannot be honoured"),
        ("basic_auth_users: {alice: letmein}", "the password of user 'alice' must be a bcrypt hash"),
        ("basic_auth_users: {alice: }", "the password of user 'alice' must be a bcrypt hash"),
        (f"basic_auth_users: {{alice: [{HASH}]}}", "alice must be a single value"),
        ("basic_auth_users: [alice]", "basic_auth_users must be a mapping"),
        ("basic_auth_users: {alice: $2y$32$X.nz4llSjYnh6VMCNdY.VedrWYut5WUOtoZjklKjsgAVN76Lqc5Mu}", "must be a bcrypt"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name_and_place(tmp_path: Path, text: str, message: str) -> None:
    """One line, with line and column, that names the key and says what is wrong."""
    told = refusal(tmp_path, text)
    assert message in told
    assert "\n" not in told
    assert "letmein" not in told


def test_undecodable_bytes_are_no_yaml(tmp_path: Path) -> None:
    """A binary file is refused like any other mistake."""
    path = tmp_path / "web.yml"
    path.write_bytes(b"\xff\xfe\x00\x00\x01\x02")
    with pytest.raises(ConfigError, match="no valid YAML"):
        read_config_file(str(path))


def test_broken_certificates_are_refused_at_the_key_that_names_them(tmp_path: Path) -> None:
    """Missing, mismatched, encrypted or empty files are told by line, in one line."""
    authority = trustme.CA()
    one, two = authority.issue_cert("localhost"), authority.issue_cert("localhost")
    one.cert_chain_pems[0].write_to_path(tmp_path / "one.crt")
    one.private_key_pem.write_to_path(tmp_path / "one.key")
    two.private_key_pem.write_to_path(tmp_path / "two.key")
    (tmp_path / "empty").write_text("")
    trusting = "client_auth_type: RequireAndVerifyClientCert"
    for text, message in [
        ("cert_file: one.crt, key_file: absent.key", "cert_file and key_file cannot be used: No such file"),
        ("cert_file: one.crt, key_file: two.key", "key values mismatch"),
        ("cert_file: empty, key_file: one.key", "cannot be used"),
        (f"cert_file: one.crt, key_file: one.key, {trusting}, client_ca_file: absent", "client_ca_file cannot be used"),
        (f"cert_file: one.crt, key_file: one.key, {trusting}, client_ca_file: empty", "client_ca_file cannot be used"),
        (f"cert_file: one.crt, key_file: one.key, {trusting}, client_ca: no PEM", "client_ca cannot be used"),
    ]:
        read = read_config_file(write(tmp_path, f"tls_server_config: {{{text}}}"))
        assert read.tls is not None
        with pytest.raises(ConfigError, match=message) as caught:
            server_context(read.tls)
        assert caught.value.line == 1
        assert caught.value.column > 1


def test_the_documentation_lists_exactly_the_supported_keys() -> None:
    """docs/web-config.md names every key of tls_server_config that is read."""
    page = (Path(__file__).parents[2] / "docs" / "web-config.md").read_text()
    for key in TLS_KEYS:
        assert f"| `{key}` |" in page, key
