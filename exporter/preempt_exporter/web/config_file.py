"""The web configuration file: the format that Prometheus' own exporters read, as far as Python's TLS can honour it.

Every key that cannot be honoured is refused by name rather than passed over: a server that is less strict than its
configuration says is worse than one that does not start. The keys are listed in docs/web-config.md.
"""

import re
from pathlib import Path

from msgspec import Struct

from preempt_exporter.yaml_section import Section, read_section

TLS_VERSIONS = ("TLS12", "TLS13")
TLS_VERSIONS_REFUSED = ("TLS10", "TLS11")

CLIENT_AUTH_TYPES = ("NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert")
CLIENT_AUTH_TYPES_REFUSED = ("RequestClientCert", "RequireAnyClientCert", "RequireClientCert")

HEADERS: dict[str, tuple[str, ...]] = {
    "Content-Security-Policy": (),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-Content-Type-Options": ("nosniff",),
    "X-XSS-Protection": (),
    "Strict-Transport-Security": (),
}
"""The response headers that may be set, with their only values where the format names some."""

FILE_KEYS = ("tls_server_config", "http_server_config", "basic_auth_users")
FILE_KEYS_REFUSED = {"rate_limit": "requests are not rate limited here, equal scrapes that wait together share one"}
TLS_KEYS = (
    "cert_file",
    "key_file",
    "client_auth_type",
    "client_ca_file",
    "client_ca",
    "client_allowed_sans",
    "min_version",
    "max_version",
    "cipher_suites",
    "prefer_server_cipher_suites",
    "curve_preferences",
)
TLS_KEYS_REFUSED = {
    "cert": "Python's TLS reads certificates from files only: use cert_file",
    "key": "Python's TLS reads keys from files only: use key_file",
}
HTTP_KEYS = ("http2", "headers")

CURVES = {"CurveP256": "prime256v1", "CurveP384": "secp384r1", "CurveP521": "secp521r1", "X25519": "X25519"}
"""The format's names of elliptic curves, and OpenSSL's."""

CIPHER_SUITES = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
}
"""The suites up to TLS 1.2 that the format allows (the registry's names), and OpenSSL's names."""

CIPHER_SUITES_OF_TLS13 = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
"""Accepted and without effect, as in Prometheus' own exporters: TLS 1.3 chooses among these itself."""

_BCRYPT_HASH = re.compile(r"\$2[aby]\$(0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}")


class TlsServerConfig(Struct, frozen=True, kw_only=True):
    """The section `tls_server_config`, paths absolute."""

    cert_file: str
    key_file: str
    client_auth_type: str = "NoClientCert"
    client_ca_file: str | None = None
    client_ca: str | None = None
    """Certificates in PEM."""
    client_allowed_sans: tuple[str, ...] = ()
    min_version: str = "TLS12"
    max_version: str = "TLS13"
    cipher_suites: tuple[str, ...] = ()
    """OpenSSL's names, for TLS 1.2; empty: Python's default."""
    prefer_server_cipher_suites: bool = True
    curve: str | None = None
    """OpenSSL's name; None: OpenSSL's default list."""
    config_path: str
    places: dict[str, tuple[int, int]] = {}
    """Line and column of the keys that name files or ciphers, for errors that only show when these are used."""

    @property
    def verifies_every_client(self) -> bool:
        """Whether nobody gets in without a certificate that was checked."""
        return self.client_auth_type == "RequireAndVerifyClientCert"


class ConfigFile(Struct, frozen=True, kw_only=True):
    """One reading of the file."""

    tls: TlsServerConfig | None
    users: dict[str, str]
    """User name to bcrypt hash."""
    headers: dict[str, str]

    def files(self) -> tuple[str, ...]:
        """The other files whose content matters."""
        if self.tls is None:
            return ()
        named = (self.tls.cert_file, self.tls.key_file, self.tls.client_ca_file)
        return tuple(path for path in named if path is not None)


def read_config_file(path: str) -> ConfigFile:
    """Read and check everything but the content of certificates; `ConfigError` with line and column, or `OSError`."""
    file = read_section(path)
    for key, why in FILE_KEYS_REFUSED.items():
        if file.has(key):
            file.fail(key, f"{key} cannot be honoured: {why}", at_key=True)
    file.refuse_unknown(FILE_KEYS + tuple(FILE_KEYS_REFUSED))
    return ConfigFile(
        tls=_tls(file.section("tls_server_config")),
        users=_users(file.section("basic_auth_users")),
        headers=_headers(file.section("http_server_config")),
    )


def _tls(section: Section) -> TlsServerConfig | None:
    for key, why in TLS_KEYS_REFUSED.items():
        if section.has(key):
            section.fail(key, f"{key} cannot be honoured: {why}", at_key=True)
    section.refuse_unknown(TLS_KEYS + tuple(TLS_KEYS_REFUSED))
    given = [key for key in TLS_KEYS if section.has(key)]
    if not given:
        return None
    folder = Path(section.path).absolute().parent
    cert_file, key_file, client_ca_file = (section.text(key) for key in ("cert_file", "key_file", "client_ca_file"))
    if not cert_file:
        section.fail(given[0], "tls_server_config needs a cert_file", at_key=True)
    if not key_file:
        section.fail(given[0], "tls_server_config needs a key_file", at_key=True)
    _refuse_values(section, "min_version", TLS_VERSIONS_REFUSED, "OpenSSL no longer speaks it; use TLS12 or TLS13")
    _refuse_values(section, "max_version", TLS_VERSIONS_REFUSED, "OpenSSL no longer speaks it; use TLS12 or TLS13")
    min_version = section.choice("min_version", TLS_VERSIONS) or "TLS12"
    max_version = section.choice("max_version", TLS_VERSIONS) or "TLS13"
    if min_version > max_version:
        section.fail("min_version", f"min_version {min_version} is above max_version {max_version}")
    return TlsServerConfig(
        cert_file=str(folder / cert_file),
        key_file=str(folder / key_file),
        client_auth_type=_client_auth_type(section),
        client_ca_file=str(folder / client_ca_file) if client_ca_file else None,
        client_ca=section.text("client_ca"),
        client_allowed_sans=tuple(section.texts("client_allowed_sans")),
        min_version=min_version,
        max_version=max_version,
        cipher_suites=_cipher_suites(section),
        prefer_server_cipher_suites=section.flag("prefer_server_cipher_suites", default=True),
        curve=_curve(section),
        config_path=section.path,
        places={key: section.place(key) for key in given},
    )


def _client_auth_type(section: Section) -> str:
    _refuse_values(
        section,
        "client_auth_type",
        CLIENT_AUTH_TYPES_REFUSED,
        "Python's TLS verifies every certificate that it asks for; use RequireAndVerifyClientCert",
    )
    auth_type = section.choice("client_auth_type", CLIENT_AUTH_TYPES) or "NoClientCert"
    authorities = [key for key in ("client_ca_file", "client_ca") if section.text(key)]
    if auth_type == "NoClientCert" and authorities:
        section.fail(authorities[0], f"{authorities[0]} has no effect without client_auth_type", at_key=True)
    if auth_type != "NoClientCert" and not authorities:
        section.fail("client_auth_type", f"{auth_type} needs a client_ca_file to verify certificates against")
    if not (section.text("client_ca") or "").isascii():
        section.fail("client_ca", "client_ca holds what PEM does not: characters that are not ASCII")
    if len(authorities) > 1:
        section.fail("client_ca", "client_ca and client_ca_file exclude each other", at_key=True)
    if section.has("client_allowed_sans") and auth_type != "RequireAndVerifyClientCert":
        section.fail(
            "client_allowed_sans",
            "client_allowed_sans needs client_auth_type RequireAndVerifyClientCert",
            at_key=True,
        )
    return auth_type


def _cipher_suites(section: Section) -> tuple[str, ...]:
    suites = []
    for name in section.texts("cipher_suites"):
        if name in CIPHER_SUITES:
            suites.append(CIPHER_SUITES[name])
        elif name not in CIPHER_SUITES_OF_TLS13:
            section.fail("cipher_suites", f"cipher_suites: {name!r} is no suite that can be offered")
    return tuple(suites)


def _curve(section: Section) -> str | None:
    names = section.texts("curve_preferences")
    for name in names:
        if name not in CURVES:
            section.fail("curve_preferences", f"curve_preferences: {name!r} is none of {', '.join(CURVES)}")
    if len(names) > 1:
        section.fail(
            "curve_preferences",
            "curve_preferences cannot be honoured with more than one curve: Python's TLS takes one",
            at_key=True,
        )
    return CURVES[names[0]] if names else None


def _headers(section: Section) -> dict[str, str]:
    section.refuse_unknown(HTTP_KEYS)
    if section.has("http2") and section.flag("http2", default=False):
        section.fail("http2", "http2 cannot be honoured: this server speaks HTTP/1.1; say false or leave it out")
    given = section.section("headers")
    given.refuse_unknown(tuple(HEADERS))
    headers = {}
    for name in given.names():
        value = given.text(name)
        if not value:
            continue
        if HEADERS[name] and value not in HEADERS[name]:
            given.fail(name, f"{name} must be one of {', '.join(HEADERS[name])}")
        if not value.isascii() or not value.isprintable():
            given.fail(name, f"{name} must be printable ASCII")
        headers[name] = value
    return headers


def _users(section: Section) -> dict[str, str]:
    users = {}
    for name in section.names():
        hashed = section.text(name) or ""
        if not _BCRYPT_HASH.fullmatch(hashed):
            section.fail(
                name,
                f"the password of user {name!r} must be a bcrypt hash, as `htpasswd -nBC 10 {name or 'USER'}` makes it",
                at_key=not section.has(name),
            )
        users[name] = hashed
    return users


def _refuse_values(section: Section, key: str, refused: tuple[str, ...], why: str) -> None:
    value = section.text(key)
    if value in refused:
        section.fail(key, f"{key} {value} cannot be honoured: {why}")
