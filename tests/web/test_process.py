"""The server as a process: signals, and few file descriptors."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import httpx
import pytest

from tests.web.running_server import DEADLINE_S, TEXT


@contextmanager
def process(descriptors: int = 1024) -> Iterator[tuple[subprocess.Popen[str], str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.web.serve_in_main_thread", str(descriptors)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as serving:
        try:
            assert serving.stdout is not None
            yield serving, serving.stdout.readline().strip()
        finally:
            serving.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_cleanly_even_with_clients_connected(number: signal.Signals) -> None:
    """Exit 0, nothing on standard error, an idle and a half-open client notwithstanding."""
    with process() as (serving, url), httpx.Client(base_url=url) as idle:
        assert idle.get("/metrics").status_code == 200
        with socket.create_connection(("127.0.0.1", urlsplit(url).port or 0)) as half_open:
            half_open.sendall(b"GET /metr")
            serving.send_signal(number)
            out, err = serving.communicate(timeout=DEADLINE_S)
    assert (serving.returncode, out, err) == (0, "stopped\n", "")


def test_few_descriptors_are_no_reason_to_fail_a_scrape() -> None:
    """With 48 descriptors and 200 half-open clients, every scrape is answered."""
    with process(descriptors=48) as (_, url), ExitStack() as crowd:
        for number in range(200):
            client = crowd.enter_context(socket.create_connection(("127.0.0.1", urlsplit(url).port or 0)))
            client.sendall(b"GET /metr")
            if number % 10 == 9:
                assert httpx.get(url + "/metrics", timeout=5).content == TEXT
