"""The worker's handle: it stops an honest worker in time, and tells a fenced one to stand down."""

from collections.abc import Callable

import pytest

from preempt_exporter.clock import FixedClock
from preempt_exporter.errors import StoreUnavailable
from preempt_exporter.spend.requests import Request
from preempt_exporter.spend.rows import Outcome
from preempt_exporter.spend.worker import WorkerLease
from tests.spend.spend_play import INPUT, TOKENS, Play

LEASE_MS = 60_000
MARGIN_MS = 2_000


class SkewedClock:
    """A worker's own clock: its wall clock is off, its monotonic one started somewhere else and runs true."""

    def __init__(self, store_clock: FixedClock, off_ms: int) -> None:
        self._store_clock = store_clock
        self._off_ms = off_ms

    def now_ms(self) -> int:
        return self._store_clock.now_ms() + self._off_ms

    def monotonic_s(self) -> float:
        return (self._store_clock.now_ms() - 1_000_000) / 1000


Take = Callable[[int], WorkerLease]


@pytest.fixture
def take(play: Play) -> Take:
    """Grants shard 3 to a worker whose wall clock is off by so many milliseconds."""

    def it(off_ms: int) -> WorkerLease:
        clock = SkewedClock(play.clock, off_ms)
        asked_at_s = clock.monotonic_s()
        granted = play.ask("grant", host="worker-1", lease_ms=LEASE_MS)
        return WorkerLease(
            play.service,
            granted,
            lease_ms=LEASE_MS,
            input_digest=INPUT,
            asked_at_s=asked_at_s,
            clock=clock,
            margin_ms=MARGIN_MS,
        )

    return it


@pytest.mark.parametrize("off_ms", [-120_000, -90_000, 0, 90_000, 120_000])
def test_a_worker_whose_wall_clock_is_off_stops_at_the_same_moment(play: Play, take: Take, off_ms: int) -> None:
    """`may_write` goes by the monotonic clock: true to the margin before the lease's end, false from there on."""
    lease = take(off_ms)
    play.clock.advance(LEASE_MS - MARGIN_MS - 1)
    assert lease.may_write()
    play.clock.advance(1)
    assert not lease.may_write()
    assert lease.commit(TOKENS, "sha256:x").outcome == "COMMITTED", "the store gives the whole lease"


@pytest.mark.parametrize("off_ms", [-120_000, -90_000, 90_000, 120_000])
def test_a_worker_whose_wall_clock_is_off_changes_no_outcome(play: Play, take: Take, off_ms: int) -> None:
    """The store alone says when a lease is over."""
    lease = take(off_ms)
    play.clock.advance(LEASE_MS - 1)
    assert lease.renew(LEASE_MS).outcome == "RENEWED"
    play.clock.advance(LEASE_MS)
    assert lease.commit(TOKENS, "sha256:x").outcome == "LEASE_EXPIRED"


def test_a_renewal_moves_the_moment_from_when_it_was_asked(play: Play, take: Take) -> None:
    """A lease that is renewed lives on; one that is not ends."""
    lease = take(0)
    play.clock.advance(50_000)
    lease.renew(LEASE_MS)
    play.clock.advance(50_000)
    assert lease.may_write()
    play.clock.advance(10_000)
    assert not lease.may_write()


def test_a_grant_that_took_long_to_arrive_does_not_lengthen_the_lease(play: Play) -> None:
    """The handle counts from before it asked, so that it never outlives the store's lease."""
    asked_at_s = play.clock.monotonic_s()
    granted = play.ask("grant", lease_ms=LEASE_MS)
    play.clock.advance(LEASE_MS)
    lease = WorkerLease(
        play.service, granted, lease_ms=LEASE_MS, input_digest=INPUT, asked_at_s=asked_at_s, clock=play.clock
    )
    assert not lease.may_write()


def test_a_short_lease_keeps_most_of_its_time(play: Play) -> None:
    """The margin is at most a tenth."""
    granted = play.ask("grant", lease_ms=100)
    lease = WorkerLease(
        play.service,
        granted,
        lease_ms=100,
        input_digest=INPUT,
        asked_at_s=play.clock.monotonic_s(),
        clock=play.clock,
    )
    play.clock.advance(89)
    assert lease.may_write()
    play.clock.advance(2)
    assert not lease.may_write()


def test_a_fenced_worker_is_told_to_stand_down(play: Play, take: Take) -> None:
    """After STALE_EPOCH nothing it does is worth doing, and the refusal says who has the shard."""
    lease = take(0)
    play.do("reserve", 1, host="worker-2")
    assert lease.may_write(), "nobody told it yet"
    lease.checkpoint(10, 20)
    assert not lease.may_write()
    assert lease.stand_down is not None
    assert (lease.stand_down.outcome, lease.stand_down.holder_host) == ("STALE_EPOCH", "worker-2")


def test_a_changed_fixture_does_not_end_the_lease(play: Play, take: Take) -> None:
    """DIGEST_MISMATCH is about the input, not about who holds the shard."""
    lease = take(0)
    refused = play.ask("checkpoint", 0, input_digest="sha256:changed")
    assert refused.outcome == "DIGEST_MISMATCH"
    assert lease.resume().outcome == "RESUME"
    assert lease.may_write()


def test_leaving_without_a_commit_gives_the_reservation_back(play: Play, take: Take) -> None:
    """A cancelled request keeps no reservation."""
    with pytest.raises(KeyboardInterrupt), take(0):
        raise KeyboardInterrupt
    assert play.row().reserved_tokens == 0
    assert play.do("grant") == "GRANTED"


def test_leaving_after_a_commit_asks_for_nothing_more(play: Play, take: Take) -> None:
    """What is committed is not released."""
    with take(0) as lease:
        lease.commit(TOKENS, "sha256:x")
    assert play.events()[-1] == "commit"
    assert not lease.may_write()


def test_leaving_when_the_store_is_gone_hides_no_error(play: Play) -> None:
    """The worker's own exception comes out; the lease's end returns the tokens."""

    class Gone:
        def apply(self, request: Request) -> Outcome:
            raise StoreUnavailable("gone")

    lease = WorkerLease(
        Gone(),
        play.ask("grant"),
        lease_ms=LEASE_MS,
        input_digest=INPUT,
        asked_at_s=play.clock.monotonic_s(),
        clock=play.clock,
    )
    with pytest.raises(ZeroDivisionError), lease:
        raise ZeroDivisionError
    assert not lease.may_write()


def test_a_refused_grant_makes_no_handle(play: Play) -> None:
    """Nothing can be written without an epoch."""
    play.do("grant")
    with pytest.raises(ValueError, match="ALREADY_RESERVED"):
        WorkerLease(
            play.service,
            play.ask("grant"),
            lease_ms=LEASE_MS,
            input_digest=INPUT,
            asked_at_s=0,
            clock=play.clock,
        )


def test_an_answer_that_was_lost_can_be_asked_for_again(play: Play, take: Take) -> None:
    """A commit repeated after a lost answer is ALREADY_COMMITTED, and billed once."""
    lease = take(0)
    assert [lease.commit(TOKENS, "sha256:x").outcome for _ in range(2)] == ["COMMITTED", "ALREADY_COMMITTED"]
    assert play.row().committed_tokens == TOKENS
