import asyncio
import threading

import pytest

from preempt_exporter.web.shared_work import SharedWork
from tests.web.running_server import DEADLINE_S


class CountedWork:
    """Work that waits for a gate and says how often it was begun before it."""

    def __init__(self) -> None:
        self.begun = 0
        self.has_begun = threading.Event()
        self.gate = threading.Event()

    def __call__(self) -> bytes:
        self.begun += 1
        count = self.begun
        self.has_begun.set()
        self.gate.wait(DEADLINE_S)
        return str(count).encode()


def test_questions_that_wait_together_are_answered_together_and_never_with_older_news() -> None:
    """Two hundred questions during one piece of work cost one more; each is begun after its question was asked."""

    async def scenario() -> None:
        pool, work = SharedWork("test", threads=1), CountedWork()
        first = asyncio.create_task(pool.answer("metrics", work))
        assert await asyncio.to_thread(work.has_begun.wait, DEADLINE_S)
        others = [asyncio.create_task(pool.answer("metrics", work)) for _ in range(200)]
        await asyncio.sleep(0)
        work.gate.set()
        assert await first == b"1"
        assert await asyncio.gather(*others) == [b"2"] * 200
        assert work.begun == 2
        pool.close()

    asyncio.run(scenario())


def test_different_questions_get_their_own_answers() -> None:
    """Only equal questions share."""

    async def scenario() -> list[bytes]:
        pool = SharedWork("test", threads=1)
        answers = await asyncio.gather(*(pool.answer(n, lambda n=n: str(n).encode()) for n in range(5)))
        pool.close()
        return answers

    assert asyncio.run(scenario()) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_client_that_hangs_up_does_not_take_the_answer_from_the_others() -> None:
    """Cancelling the one who asked first leaves the work to those who joined."""

    async def scenario() -> None:
        pool, work = SharedWork("test", threads=1), CountedWork()
        blocking = asyncio.create_task(pool.answer("first", work))
        assert await asyncio.to_thread(work.has_begun.wait, DEADLINE_S)
        one, other = (asyncio.create_task(pool.answer("second", lambda: b"done")) for _ in range(2))
        await asyncio.sleep(0)
        one.cancel()
        work.gate.set()
        await blocking
        assert await other == b"done"
        with pytest.raises(asyncio.CancelledError):
            await one
        pool.close()

    asyncio.run(scenario())


def test_an_exception_reaches_everyone_who_asked_and_nobody_after() -> None:
    """Failed work is not remembered."""

    async def scenario() -> None:
        pool = SharedWork("test", threads=1)
        with pytest.raises(ZeroDivisionError):
            await pool.answer("q", lambda: b"x" * (1 // 0))
        assert await pool.answer("q", lambda: b"fine") == b"fine"
        pool.close()

    asyncio.run(scenario())
