"""Whose password is checked next."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from preempt_exporter.web.password_turns import MAX_WAITING, PasswordTurns

SCRAPER = "203.0.113.9"
STRANGER = "198.51.100.7"
DEADLINE_S = 20.0

Guess = Callable[[str, str], "asyncio.Task[bool]"]


def checked(story: Callable[[Guess, threading.Event], Awaitable[None]]) -> list[str]:
    """The passwords in the order in which they were checked; `right` fits. The first waits for the event."""
    order: list[str] = []

    async def told() -> None:
        turns, go_on = PasswordTurns(), threading.Event()

        def guess(client: str, password: str) -> asyncio.Task[bool]:
            def check() -> bool:
                go_on.wait(DEADLINE_S)
                order.append(password)
                return password == "right"

            return asyncio.create_task(turns.answer(client, password, check))

        try:
            await asyncio.wait_for(story(guess, go_on), DEADLINE_S)
        finally:
            turns.close()

    asyncio.run(told())
    return order


def test_a_flood_of_guesses_delays_its_own_address_only() -> None:
    """A scraper's password is checked next but one, however many guesses of somebody else came before."""

    async def story(guess: Guess, go_on: threading.Event) -> None:
        guesses = [guess(STRANGER, f"guess {number}") for number in range(MAX_WAITING)]
        await asyncio.sleep(0.05)
        right = guess(SCRAPER, "right")
        await asyncio.sleep(0)
        go_on.set()
        assert await right
        assert not any(await asyncio.gather(*guesses))

    assert checked(story).index("right") <= 2


def test_what_waits_for_one_address_is_bounded() -> None:
    """Beyond the bound the oldest guess is refused without a look, so that a flood costs no memory."""

    async def story(guess: Guess, go_on: threading.Event) -> None:
        guesses = [guess(STRANGER, f"guess {number}") for number in range(MAX_WAITING + 50)]
        await asyncio.sleep(0.05)
        assert sum(each.done() for each in guesses) >= 49
        go_on.set()
        assert not any(await asyncio.gather(*guesses))

    assert len(checked(story)) <= MAX_WAITING + 1


def test_equal_questions_that_wait_together_are_one_check() -> None:
    """Two hundred scrapes with the same password after a restart pay for it once or twice."""

    async def story(guess: Guess, go_on: threading.Event) -> None:
        scrapes = [guess(SCRAPER, "right") for _ in range(200)]
        await asyncio.sleep(0)
        go_on.set()
        assert all(await asyncio.gather(*scrapes))

    assert len(checked(story)) <= 2


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:198.51.100.7", "198.51.100.7", True),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("198.51.100.7", "198.51.100.8", False),
    ],
)
def test_one_senders_addresses_take_turns_as_one(one: str, other: str, same: bool) -> None:
    """A /64 is one sender's; an IPv4 address is itself in either spelling."""

    async def story(guess: Guess, go_on: threading.Event) -> None:
        guesses = [guess(one, f"guess {number}") for number in range(5)]
        await asyncio.sleep(0.05)
        guesses.append(guess(other, "last"))
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(*guesses)

    assert (checked(story)[-1] == "last") is same
