"""Listen addresses: how they are written, bound, and told to a person."""

import contextlib
import errno
import os
import socket
from pathlib import Path

from preempt_exporter.errors import UsageError

BACKLOG = 1024


def bind(addresses: tuple[str, ...]) -> list[socket.socket]:
    """Listening sockets for `HOST:PORT` addresses, or `UsageError` with none left open.

    No host means every interface, IPv6 and IPv4; port 0 lets the system choose; IPv6 hosts stand in brackets. A name
    that has several addresses is bound at one of them, IPv4 first, as Prometheus' own exporters do.
    """
    bound: list[socket.socket] = []
    try:
        for address in addresses:
            bound.append(_bind_one(address))
    except UsageError:
        for listening in bound:
            listening.close()
        raise
    return bound


def bind_unix(path: str) -> socket.socket:
    """A listening Unix socket of mode 0600 at `path`. Raises `UsageError`.

    A socket that a killed process left there is replaced; one that somebody listens on, or any other file, is not.
    """
    place = Path(path)
    if place.is_socket() and not _answers(path):
        with contextlib.suppress(FileNotFoundError):
            place.unlink()
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listening.bind(path)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        why = (error.strerror or str(error)).lower()
        raise UsageError(f"cannot listen on {path}: {why}; does it run already? choose another path") from error
    finally:
        os.umask(before)
    listening.setblocking(False)
    return listening


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except OSError:
            return False
        return True


def parse(address: str) -> tuple[str, int]:
    """`HOST:PORT` as (host, port); the host is empty for every interface."""
    host, colon, port_text = address.strip().rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not (port_text.isascii() and port_text.isdigit()) or int(port_text) > 65535:
        raise UsageError(f"--web.listen-address {address!r}: say HOST:PORT with a port from 0 to 65535, like ':9877'")
    if ":" in host and not bracketed:
        raise UsageError(f"--web.listen-address {address!r}: put an IPv6 host in brackets, like '[::1]:9877'")
    return (host[1:-1] if bracketed else host), int(port_text)


def url(listening: socket.socket, *, tls: bool) -> str:
    """Where a person finds it: a bound "every interface" is told as `localhost`, a Unix socket as `unix://PATH`."""
    if listening.family == socket.AF_UNIX:
        return f"unix://{listening.getsockname()}"
    host, port = listening.getsockname()[:2]
    if host in ("::", "0.0.0.0"):
        host = "localhost"
    elif ":" in host:
        host = f"[{host}]"
    return f"{'https' if tls else 'http'}://{host}:{port}"


def _bind_one(address: str) -> socket.socket:
    host, port = parse(address)
    if not host and socket.has_dualstack_ipv6():
        try:
            return _listen(address, socket.AF_INET6, ("::", port), both_families=True)
        except UsageError as error:
            # A kernel without IPv6 says so only now; every other refusal stands.
            if not isinstance(error.__cause__, OSError) or error.__cause__.errno != errno.EADDRNOTAVAIL:
                raise
    try:
        found = socket.getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise UsageError(f"--web.listen-address {address!r}: unknown host: {error.strerror or error}") from error
    family, _, _, _, place = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    return _listen(address, family, place, both_families=False)


def _listen(address: str, family: int, place: tuple[object, ...], *, both_families: bool) -> socket.socket:
    # asyncio turns Nagle's delay off only for sockets that say they are TCP, and accepted ones inherit it from this.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if both_families else 1)
        listening.bind(place)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        hint = {
            errno.EADDRINUSE: "does it run already? stop it, or choose another port",
            errno.EACCES: "ports below 1024 need a privilege; choose a higher one",
            errno.EADDRNOTAVAIL: "this machine has no such address",
        }.get(error.errno or 0, "choose another address")
        why = (error.strerror or str(error)).lower()
        raise UsageError(f"cannot listen on {address}: {why}; {hint}") from error
    listening.setblocking(False)
    return listening
