"""Threads for blocking work, in which equal questions that wait together are answered by one piece of work."""

import asyncio
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor


class SharedWork:
    """A pool of `threads` named `name`, first come first served.

    A question that arrives while an equal one still waits for a thread shares its answer; one that arrives when the
    work has begun waits for the next, so that nobody is told of a state older than the question. Two hundred clients
    that scrape at the same moment therefore cost two renderings.
    """

    def __init__(self, name: str, *, threads: int) -> None:
        """No thread starts before the first question."""
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._lock = threading.Lock()
        self._waiting: dict[Hashable, asyncio.Future[bytes]] = {}

    async def answer(self, question: Hashable, work: Callable[[], bytes]) -> bytes:
        """The result of `work`, which equal questions must all pass alike; its exceptions are raised here.

        A caller that is cancelled leaves the work to the others who wait for it.
        """
        with self._lock:
            future = self._waiting.get(question)
            if future is None:
                loop = asyncio.get_running_loop()
                future = loop.run_in_executor(self._pool, self._begin, question, work)
                self._waiting[question] = future
        return await asyncio.shield(future)

    def close(self) -> None:
        """Take nothing new and do not wait for what runs."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _begin(self, question: Hashable, work: Callable[[], bytes]) -> bytes:
        with self._lock:
            self._waiting.pop(question, None)
        return work()
