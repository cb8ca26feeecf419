"""A real server on a loopback port, serving an exposition that tests can read, slow down and break."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Queue
from urllib.parse import urlsplit

import msgspec

from preempt_exporter.web.serve import serve
from preempt_exporter.web.settings import WebSettings

DEADLINE_S = 20.0
TEXT = b"# HELP queue_age_ms Age.\n# TYPE queue_age_ms gauge\n" + b'queue_age_ms{task_id="t"} 5\n' * 200
OPENMETRICS = TEXT + b"# EOF\n"


def task(number: int, **changes: object) -> dict[str, object]:
    """An object of `status --json`."""
    return {
        "task_id": f"task-{number}",
        "run": "night",
        "lane": "free",
        "action": "hold",
        "next_action": "none",
        "reason": None,
        "state": "running",
        "queue_age_ms": 60_000,
        "deadline_slack_ms": number * 1000 - 5000,
        "restart_cost_ms": 3000,
        "fits_one_more_preemption": True,
        "restart_tokens": 40,
        "preempts": 1,
        "checkpoint_tokens": 100,
        "task_budget": 1000,
        "deadline_ms": 120_000,
    } | changes


class FakeExposition:
    """Answers at once, unless a test replaces one of its attributes."""

    def __init__(self) -> None:
        self.is_ready = True
        self.renders = 0
        self.before_render: Callable[[], None] = lambda: None
        self.before_tasks: Callable[[], None] = lambda: None
        self.task_list: list[dict[str, object]] = [task(number) for number in range(10)]
        self.lane_list: list[dict[str, object]] = []
        self.run_list: list[dict[str, object]] = []
        self.health_object: dict[str, object] = {"version": "0.1.0", "ready": True, "files": []}

    def render(self, *, openmetrics: bool) -> bytes:
        self.renders += 1
        self.before_render()
        return OPENMETRICS if openmetrics else TEXT

    def ready(self) -> bool:
        return self.is_ready

    def tasks(self) -> bytes:
        self.before_tasks()
        return msgspec.json.encode(self.task_list)

    def lanes(self) -> bytes:
        return msgspec.json.encode(self.lane_list)

    def runs(self) -> bytes:
        return msgspec.json.encode(self.run_list)

    def health(self) -> bytes:
        return msgspec.json.encode(self.health_object)


class RunningServer:
    """What a test needs to talk to it."""

    def __init__(self, urls: list[str], stop: threading.Event, thread: threading.Thread) -> None:
        self.urls = urls
        self.url = urls[0]
        self.port = urlsplit(self.url).port or 0
        self.stop = stop
        self.thread = thread


@contextmanager
def running(exposition: FakeExposition, settings: WebSettings | None = None) -> Iterator[RunningServer]:
    """Serve in a thread; stopped and joined on the way out."""
    settings = settings or WebSettings(listen_addresses=("127.0.0.1:0",))
    listening: Queue[list[str] | BaseException] = Queue()
    stop = threading.Event()

    def work() -> None:
        try:
            serve(exposition, settings, stop=stop, on_listening=listening.put)
        except BaseException as error:
            listening.put(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        urls = listening.get(timeout=DEADLINE_S)
        if isinstance(urls, BaseException):
            raise urls
        yield RunningServer(urls, stop, thread)
    finally:
        stop.set()
        thread.join(DEADLINE_S)
        assert not thread.is_alive(), "the server did not stop"
