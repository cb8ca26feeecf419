import socket

import pytest

from preempt_exporter.errors import UsageError
from preempt_exporter.http_server import listen


@pytest.mark.parametrize(
    ("address", "parsed"),
    [
        (":9877", ("", 9877)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:9877", ("::1", 9877)),
        ("localhost:80", ("localhost", 80)),
    ],
)
def test_an_address_is_host_and_port(address: str, parsed: tuple[str, int]) -> None:
    """The exporters' way of writing listen addresses is understood."""
    assert listen.parse(address) == parsed


@pytest.mark.parametrize("address", ["", "9877", "localhost", ":", ":http", ":65536", ":-1", "::1:9877", "h:٣"])
def test_what_is_no_address_is_refused_in_one_line(address: str) -> None:
    """A malformed address is a usage error that shows how to write one."""
    with pytest.raises(UsageError, match=r"--web\.listen-address .* like '"):
        listen.parse(address)


def test_a_port_in_use_is_one_clear_line_and_leaves_nothing_open() -> None:
    """The second of two addresses is taken: the error names it, and the first is free again."""
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_server(("127.0.0.1", 0)) as probe:
        port, free_port = taken.getsockname()[1], probe.getsockname()[1]
        probe.close()
        with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{port}: address already in use; .*port"):
            listen.bind((f"127.0.0.1:{free_port}", f"127.0.0.1:{port}"))
        with socket.create_server(("127.0.0.1", free_port)):
            pass


def test_a_port_in_use_on_loopback_is_noticed_by_every_interface_too() -> None:
    """`:PORT` does not slip beside a server that has the port on 127.0.0.1."""
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(UsageError, match="already in use"):
        listen.bind((f":{taken.getsockname()[1]}",))


def test_no_host_means_every_interface_of_both_families() -> None:
    """`:0` is reached over IPv4 and, where the machine has it, over IPv6."""
    [listening] = listen.bind((":0",))
    with listening:
        port = listening.getsockname()[1]
        for host in ("127.0.0.1", "::1") if socket.has_dualstack_ipv6() else ("127.0.0.1",):
            socket.create_connection((host, port), timeout=5).close()


def test_an_unknown_host_is_a_usage_error() -> None:
    """A name that does not resolve is told as such."""
    with pytest.raises(UsageError, match="unknown host"):
        listen.bind(("no-such-host.invalid:0",))


def test_answers_are_not_held_back_to_fill_packets() -> None:
    """An accepted client's socket says that it is TCP, without which asyncio leaves 40 ms of delay in every answer."""
    [listening] = listen.bind(("127.0.0.1:0",))
    with listening:
        listening.setblocking(True)
        with socket.create_connection(listening.getsockname(), timeout=5):
            accepted, _ = listening.accept()
            with accepted:
                assert accepted.proto == socket.IPPROTO_TCP
