"""TLS contexts from the web configuration, and which client certificates are welcome."""

import asyncio
import ssl

from preempt_exporter.errors import ConfigError
from preempt_exporter.web.config_file import TlsServerConfig

_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}


def server_context(tls: TlsServerConfig) -> ssl.SSLContext:
    """A context with certificate, key and authorities loaded; `ConfigError` at the key whose file is broken."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[tls.min_version]
    context.maximum_version = _VERSIONS[tls.max_version]
    context.set_alpn_protocols(["http/1.1"])
    if tls.prefer_server_cipher_suites:
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    else:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    if tls.cipher_suites:
        context.set_ciphers(":".join(tls.cipher_suites))
    if tls.curve:
        context.set_ecdh_curve(tls.curve)
    try:
        # Without a callback OpenSSL would ask the terminal for the passphrase of an encrypted key.
        context.load_cert_chain(tls.cert_file, tls.key_file, password=_no_passphrase)
    except (OSError, ValueError) as error:
        raise _at(tls, "cert_file", f"cert_file and key_file cannot be used: {_words(error)}") from error
    context.verify_mode = _CLIENT_AUTH[tls.client_auth_type]
    try:
        if tls.client_ca_file or tls.client_ca:
            context.load_verify_locations(cafile=tls.client_ca_file, cadata=tls.client_ca)
    except (OSError, ValueError) as error:
        key = "client_ca_file" if tls.client_ca_file else "client_ca"
        raise _at(tls, key, f"{key} cannot be used: {_words(error)}") from error
    return context


def gives_what_is_asked(transport: asyncio.BaseTransport, context: ssl.SSLContext | None) -> bool:
    """Whether a connection, which may be older than `context`, shows of its client what `context` asks for.

    Its certificate was verified against the authorities of the context that it was made with, if it was asked for one.
    """
    if context is None:
        return True
    connection = transport.get_extra_info("ssl_object")
    if connection is None:
        return False
    before: ssl.SSLContext = connection.context
    return before is context or context.verify_mode == ssl.CERT_NONE or _asked(before) == _asked(context)


def _asked(context: ssl.SSLContext) -> tuple[ssl.VerifyMode, set[bytes]]:
    return context.verify_mode, set(context.get_ca_certs(binary_form=True))


def carries_allowed_name(transport: asyncio.BaseTransport, allowed: frozenset[str]) -> bool:
    """Whether the client's certificate has an alternative name (DNS, IP, e-mail, URI) that is exactly in `allowed`."""
    certificate = transport.get_extra_info("peercert") or {}
    return any(name in allowed for _, name in certificate.get("subjectAltName", ()))


def _no_passphrase() -> str:
    raise ValueError("the key is encrypted; decrypt it, for nobody is there to type its passphrase")


def _at(tls: TlsServerConfig, key: str, message: str) -> ConfigError:
    line, column = tls.places.get(key, (0, 0))
    return ConfigError(message, path=tls.config_path, line=line, column=column)


def _words(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "no PEM").replace("_", " ").lower()
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error)
