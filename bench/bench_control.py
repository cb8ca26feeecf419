"""What a request to the control service costs, against the same server in the same kind of process with a constant."""

import asyncio
import contextlib
import http.client
import json
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from starlette.responses import Response

from measure import Result
from preempt_exporter.clock import SystemClock
from preempt_exporter.control.doors import Doors, Keys
from preempt_exporter.control.serve import ControlSettings, serve_control
from preempt_exporter.gate.settings import GateSettings
from preempt_exporter.http_server import listen
from preempt_exporter.http_server.listener import Listener
from preempt_exporter.http_server.patience import Patience
from preempt_exporter.http_server.serving import serve_until, uvicorn_config

CLIENTS = 8
REQUESTS_PER_CLIENT = 150
TOKEN = "token-of-the-bench"
KEYS = Keys(token=TOKEN, webhook_token="another-token")
CONSTANT = b'{"outcome":"recorded"}'


def heartbeat_against_constant(folder: Path) -> Result:
    """Heartbeats: a decision and a synced ledger line each."""
    return _against_constant(folder, "control: heartbeats", _heartbeat)


def keyed_heartbeat_against_constant(folder: Path) -> Result:
    """The same under idempotency keys: noted, written, answered, kept."""
    return _against_constant(folder, "control: heartbeats with an Idempotency-Key", _keyed_heartbeat)


Ask = Callable[[http.client.HTTPConnection, int], None]


def _against_constant(folder: Path, what: str, ask: Ask) -> Result:
    with _server("constant", folder) as url:
        constant_per_s, constant_p99_ms = _load(url, ask)
    with _server("control", folder) as url:
        connection = _connect(url)
        for client in range(CLIENTS):
            _post(connection, f"/v1/tasks/t{client}/admit", {})
        connection.close()
        per_s, p99_ms = _load(url, ask)
    note = (
        f"{per_s:,.0f} requests/s, p99 {p99_ms:.1f} ms; constant {constant_per_s:,.0f}/s, p99 {constant_p99_ms:.1f} ms;"
        f" {CLIENTS} clients, each change synced"
    )
    return Result(f"{what}, share of a constant's requests/s", per_s / constant_per_s, "reported", note)


def _load(url: str, ask: Ask) -> tuple[float, float]:
    """Requests per second of all clients together, and p99 of a request in milliseconds."""
    latencies_s: list[float] = []

    def client(number: int) -> None:
        connection = _connect(url)
        own: list[float] = []
        for _ in range(REQUESTS_PER_CLIENT):
            begun_s = time.perf_counter()
            ask(connection, number)
            own.append(time.perf_counter() - begun_s)
        connection.close()
        latencies_s.extend(own)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    begun_s = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed_s = time.perf_counter() - begun_s
    latencies_s.sort()
    return len(latencies_s) / elapsed_s, 1000 * latencies_s[int(0.99 * (len(latencies_s) - 1))]


def _heartbeat(connection: http.client.HTTPConnection, client: int) -> None:
    _post(connection, f"/v1/tasks/t{client}/heartbeat", {})


def _keyed_heartbeat(connection: http.client.HTTPConnection, client: int) -> None:
    _post(connection, f"/v1/tasks/t{client}/heartbeat", {"Idempotency-Key": uuid.uuid4().hex})


def _post(connection: http.client.HTTPConnection, path: str, headers: dict[str, str]) -> None:
    connection.request("POST", path, b'{"output_tokens":7}', {"Authorization": f"Bearer {TOKEN}", **headers})
    response = connection.getresponse()
    answer = json.loads(response.read())
    assert response.status == 200 and answer["outcome"] in ("recorded", "admitted"), answer


def _connect(url: str) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)


@contextlib.contextmanager
def _server(kind: str, folder: Path) -> Iterator[str]:
    ledger = folder / f"control-{uuid.uuid4().hex}.jsonl"
    process = subprocess.Popen([sys.executable, __file__, kind, str(ledger)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def _tell(urls: list[str]) -> None:
    print(urls[0], flush=True)


async def _serve_constant() -> None:
    """The same listener, protocol and doors; reads the body and answers."""

    async def constant(scope, receive, send):  # type: ignore[no-untyped-def]
        while (await receive()).get("more_body"):
            pass
        await Response(CONSTANT, media_type="application/json")(scope, receive, send)

    sockets = listen.bind(("127.0.0.1:0",))
    listener = Listener(
        uvicorn_config(Doors(constant, KEYS), idle_s=20),
        sockets,
        tls=lambda: None,
        refuses=lambda transport: False,
        patience=Patience(),
        clock=SystemClock(),
    )
    urls = [listen.url(listening, tls=False) for listening in sockets]
    await serve_until(threading.Event(), listener, on_listening=lambda: _tell(urls))


if __name__ == "__main__":
    if sys.argv[1] == "constant":
        asyncio.run(_serve_constant())
    else:
        settings = ControlSettings(
            ledger=Path(sys.argv[2]), keys=KEYS, gate=GateSettings(), listen_addresses=("127.0.0.1:0",)
        )
        serve_control(settings, SystemClock(), stop=threading.Event(), on_listening=_tell)
