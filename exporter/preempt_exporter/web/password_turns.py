"""Who is checked next by bcrypt: client addresses in turn, so that a flood of guesses delays nobody but its sender."""

import asyncio
import ipaddress
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

MAX_WAITING = 64
"""Checks that wait for one address; beyond that its oldest one is answered without a look, with no."""


class _Check(NamedTuple):
    check: Callable[[], bool]
    verdict: "asyncio.Future[bool]"


class PasswordTurns:
    """One thread for bcrypt. Belongs to one event loop."""

    def __init__(self) -> None:
        """Nothing starts before the first question."""
        self._pool = ThreadPoolExecutor(1, "password")
        self._waiting: OrderedDict[str, OrderedDict[Hashable, _Check]] = OrderedDict()
        self._going_round: asyncio.Task[None] | None = None

    async def answer(self, client: str | None, question: Hashable, check: Callable[[], bool]) -> bool:
        """The result of `check` when it is the turn of the client's address; equal questions that wait share it."""
        queue = self._waiting.setdefault(_neighbourhood(client), OrderedDict())
        waiting = queue.get(question)
        if waiting is None:
            waiting = queue[question] = _Check(check, asyncio.get_running_loop().create_future())
            if len(queue) > MAX_WAITING:
                _, oldest = queue.popitem(last=False)
                oldest.verdict.set_result(False)
            if self._going_round is None:
                self._going_round = asyncio.create_task(self._go_round())
        return await asyncio.shield(waiting.verdict)

    def close(self) -> None:
        """Take nothing new and do not wait for what runs."""
        if self._going_round is not None:
            self._going_round.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _go_round(self) -> None:
        try:
            while self._waiting:
                address, queue = self._waiting.popitem(last=False)
                _, next_up = queue.popitem(last=False)
                if queue:
                    self._waiting[address] = queue
                loop = asyncio.get_running_loop()
                next_up.verdict.set_result(await loop.run_in_executor(self._pool, next_up.check))
        finally:
            self._going_round = None


def _neighbourhood(client: str | None) -> str:
    """An IPv4 address, or the /64 of an IPv6 one, which is what one sender has to choose from."""
    try:
        address = ipaddress.ip_address((client or "").partition("%")[0])
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv4Address) or address.ipv4_mapped:
        return str(getattr(address, "ipv4_mapped", None) or address)
    return str(ipaddress.ip_network((address, 64), strict=False))
