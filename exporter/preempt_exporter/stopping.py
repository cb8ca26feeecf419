"""Stopping cleanly: SIGINT and SIGTERM set an event instead of ending the process in the middle of something."""

import _thread
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stopping_at_signals(stop: threading.Event) -> Iterator[None]:
    """While inside, the first SIGINT or SIGTERM sets `stop`. For the main thread only."""

    def set_stop(_number: int, _frame: FrameType | None) -> None:
        # The main thread may be inside `stop.wait` and hold the event's lock, which is not reentrant.
        _thread.start_new_thread(stop.set, ())

    before = {number: signal.signal(number, set_stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
