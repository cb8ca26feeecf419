"""Which outcome a request has: the contract's order, over both stores."""

import pytest

from preempt_exporter.spend.run_changes import CloseRun, OpenRun, SwitchRun
from preempt_exporter.spend.service import SpendService
from tests.spend.spend_play import LEASE_MS, TOKENS, Play


def test_the_first_grant_is_epoch_0_and_each_later_one_is_the_highest_plus_one(play: Play) -> None:
    """Epochs are the driver's numbers, counted on from whatever was reserved last."""
    assert play.ask("grant").epoch == 0
    play.do("release", 0)
    assert play.do("reserve", 7) == "RESERVED"
    play.do("release", 7)
    assert play.ask("grant").epoch == 8


def test_a_reservation_that_was_committed_says_so_before_anything_else(play: Play) -> None:
    """ALREADY_COMMITTED comes before ALREADY_RESERVED and STALE_EPOCH."""
    play.do("grant")
    play.do("commit", 0)
    play.do("compensate", 0)
    play.do("grant")
    assert play.do("reserve", 0) == "ALREADY_COMMITTED"


@pytest.mark.parametrize("end", ["live", "cancelled", "expired", "superseded"])
def test_an_epoch_reserved_now_or_ever_is_never_reserved_again(play: Play, end: str) -> None:
    """ALREADY_RESERVED comes before STALE_EPOCH, whatever became of the reservation."""
    play.do("grant")
    if end == "cancelled":
        play.do("release", 0)
    if end == "expired":
        play.clock.advance(LEASE_MS)
    if end == "superseded":
        play.do("reserve", 1)
    assert play.do("reserve", 0) == "ALREADY_RESERVED"


def test_a_reservation_below_the_highest_epoch_is_stale_even_when_an_artifact_is_accepted(play: Play) -> None:
    """STALE_EPOCH comes before SHARD_ACCEPTED, which comes before RUN_STOPPED and OVER_BUDGET."""
    play.open(budget_tokens=TOKENS)
    play.do("reserve", 5)
    play.do("commit", 5)
    play.service.change_run(CloseRun(run="r"))
    assert play.do("reserve", 4) == "STALE_EPOCH"
    assert play.do("reserve", 6) == "SHARD_ACCEPTED"
    assert play.do("grant") == "SHARD_ACCEPTED"


def test_a_grant_waits_for_a_live_lease_but_a_higher_reservation_supersedes_it(play: Play) -> None:
    """Only the driver that numbers epochs itself may overtake a live lease; its tokens return once."""
    play.open(budget_tokens=TOKENS)
    play.do("grant")
    assert play.do("grant") == "ALREADY_RESERVED"
    assert play.do("reserve", 1) == "RESERVED"
    assert play.row().reserved_tokens == TOKENS
    assert play.events()[-2:] == ["release", "reserve"]


@pytest.mark.parametrize("op", ["grant", "reserve"])
def test_a_run_that_is_not_open_refuses_before_it_looks_at_the_budget(play: Play, op: str) -> None:
    """RUN_STOPPED just before OVER_BUDGET: never opened, closed, stopped; and open again after a resume."""
    epoch = {"epoch": 0} if op == "reserve" else {}
    assert play.do(op, run="unknown", **epoch) == "RUN_STOPPED"
    play.open(budget_tokens=0)
    play.service.change_run(SwitchRun(run="r", switch="stop"))
    assert play.do(op, **epoch) == "RUN_STOPPED"
    play.service.change_run(SwitchRun(run="r", switch="resume"))
    assert play.do(op, **epoch) == "OVER_BUDGET"
    play.service.change_run(CloseRun(run="r"))
    assert play.do(op, **epoch) == "RUN_STOPPED"
    play.service.change_run(OpenRun(run="r"))
    assert play.do(op, **epoch) == "OVER_BUDGET"


def test_a_run_that_the_switch_file_stops_is_refused(play: Play) -> None:
    """The switch file is asked before every grant, by the run's name; what was granted may still be committed."""
    stopped: set[str] = set()
    play.service = SpendService(play.store, play.sink, run_is_stopped=stopped.__contains__)
    play.do("grant", shard="1")
    stopped.add("r")
    assert play.do("grant", shard="2") == "RUN_STOPPED"
    assert play.do("reserve", 0, shard="2") == "RUN_STOPPED"
    assert play.do("commit", 0, shard="1") == "COMMITTED"
    stopped.clear()
    assert play.do("grant", shard="2") == "GRANTED"


def test_a_live_lease_is_named_before_a_stopped_run(play: Play) -> None:
    """ALREADY_RESERVED comes before RUN_STOPPED."""
    play.do("grant")
    play.service.change_run(SwitchRun(run="r", switch="stop"))
    assert play.do("grant") == "ALREADY_RESERVED"
    assert play.do("commit", 0) == "COMMITTED", "a stopped run still takes what was granted"


def test_the_budget_fits_to_the_token(play: Play) -> None:
    """Exactly the budget is granted, one token more is not."""
    play.open(budget_tokens=2 * TOKENS)
    play.do("grant", shard="1")
    assert play.do("grant", shard="2", tokens=TOKENS + 1) == "OVER_BUDGET"
    assert play.do("grant", shard="2") == "GRANTED"
    assert play.do("grant", shard="3", tokens=1) == "OVER_BUDGET"
    assert play.do("grant", shard="3", tokens=0) == "GRANTED"


def test_a_superseding_reservation_is_counted_without_the_one_it_replaces(play: Play) -> None:
    """A full budget does not keep a shard from its own next epoch, but only by what that shard held."""
    play.open(budget_tokens=TOKENS)
    play.do("grant")
    assert play.do("reserve", 1, tokens=TOKENS + 1) == "OVER_BUDGET"
    assert play.do("commit", 0) == "COMMITTED", "a refused reservation supersedes nothing"


def test_without_a_budget_there_is_no_ceiling(play: Play) -> None:
    """A run that names no budget grants what is asked."""
    assert play.do("grant", tokens=10**12) == "GRANTED"


def test_a_lowered_budget_takes_nothing_back(play: Play) -> None:
    """What was granted commits; only new reservations are refused."""
    play.open(budget_tokens=2 * TOKENS)
    play.do("grant", shard="1")
    play.open(budget_tokens=TOKENS // 2)
    assert play.do("grant", shard="2", tokens=0) == "OVER_BUDGET"
    assert play.do("commit", 0, shard="1") == "COMMITTED"


@pytest.mark.parametrize("op", ["renew", "checkpoint", "resume", "release", "commit"])
class TestWhatOnlyTheHolderMayDo:
    """The checks that renew, checkpoint, resume, release and commit share, in their order."""

    def test_a_stale_epoch_is_stale_before_it_is_expired(self, play: Play, op: str) -> None:
        """STALE_EPOCH comes before LEASE_EXPIRED."""
        play.do("grant")
        play.clock.advance(LEASE_MS)
        assert play.do("grant") == "GRANTED"
        assert play.do(op, 0) == "STALE_EPOCH"

    @pytest.mark.parametrize("reclaimed", [False, True])
    def test_an_expired_lease_is_over_reclaimed_or_not(self, play: Play, op: str, reclaimed: bool) -> None:
        """The lease ends at its last millisecond, whoever noticed."""
        play.do("grant")
        play.clock.advance(LEASE_MS)
        if reclaimed:
            assert play.service.reclaim_expired() == 1
        assert play.do(op, 0) == "LEASE_EXPIRED"

    def test_a_lease_is_live_to_its_last_millisecond(self, play: Play, op: str) -> None:
        """now < lease_expires_ms."""
        play.do("grant")
        play.clock.advance(LEASE_MS - 1)
        assert not play.ask(op, 0).refused

    def test_an_epoch_that_was_never_granted_has_nothing_to_spend(self, play: Play, op: str) -> None:
        """UNRESERVED_SPEND: of an unknown shard, and of an epoch above the highest."""
        assert play.do(op, 0) == "UNRESERVED_SPEND"
        play.do("grant")
        assert play.do(op, 1) == "UNRESERVED_SPEND"

    def test_a_cancelled_epoch_stays_cancelled_when_its_time_passes(self, play: Play, op: str) -> None:
        """A lease ends once, by what came first."""
        play.do("grant")
        play.do("release", 0)
        assert play.do(op, 0) == "UNRESERVED_SPEND"
        play.clock.advance(LEASE_MS)
        assert play.do(op, 0) == "UNRESERVED_SPEND"

    def test_a_committed_epoch_stays_committed_when_its_time_passes(self, play: Play, op: str) -> None:
        """A replayed commit says ALREADY_COMMITTED, anything else has nothing to spend."""
        play.do("grant")
        play.do("commit", 0)
        play.clock.advance(LEASE_MS)
        assert play.do(op, 0) == ("ALREADY_COMMITTED" if op == "commit" else "UNRESERVED_SPEND")


@pytest.mark.parametrize("op", ["checkpoint", "resume"])
def test_another_input_digest_than_the_grants_is_refused_last(play: Play, op: str) -> None:
    """DIGEST_MISMATCH comes after the lease's own checks."""
    play.do("grant")
    assert play.do(op, 0, input_digest="sha256:changed") == "DIGEST_MISMATCH"
    play.clock.advance(LEASE_MS)
    assert play.do(op, 0, input_digest="sha256:changed") == "LEASE_EXPIRED"


def test_a_commit_of_other_tokens_than_reserved_is_refused_before_its_artifact_is_looked_at(play: Play) -> None:
    """UNRESERVED_SPEND comes before ARTIFACT_MISSING; `at_most` takes less, never more."""
    play.do("grant")
    assert play.do("commit", 0, tokens=TOKENS - 1, artifact_digest=None) == "UNRESERVED_SPEND"
    assert play.do("commit", 0, tokens=TOKENS + 1, settle="at_most") == "UNRESERVED_SPEND"
    assert play.do("commit", 0, artifact_digest=None) == "ARTIFACT_MISSING"
    assert play.do("commit", 0, artifact_digest="") == "ARTIFACT_MISSING"
    assert play.do("commit", 0, tokens=TOKENS - 1, settle="at_most") == "COMMITTED"
    assert (play.row().committed_tokens, play.row().reserved_tokens) == (TOKENS - 1, 0)


def test_only_the_accepted_epoch_and_digest_can_be_compensated(play: Play) -> None:
    """UNRESERVED_SPEND for another digest, another epoch, and a second time."""
    play.do("grant")
    assert play.do("compensate", 0) == "UNRESERVED_SPEND"
    play.do("commit", 0)
    assert play.do("compensate", 0, artifact_digest="sha256:other") == "UNRESERVED_SPEND"
    assert play.do("compensate", 1) == "UNRESERVED_SPEND"
    assert play.do("compensate", 0) == "COMPENSATED"
    assert play.do("compensate", 0) == "UNRESERVED_SPEND"


def test_a_refused_request_still_returns_what_has_expired(play: Play) -> None:
    """Any grant or reserve reclaims first, whatever it is answered."""
    play.do("grant", shard="1")
    play.clock.advance(LEASE_MS)
    play.service.change_run(SwitchRun(run="r", switch="stop"))
    assert play.do("grant", shard="2") == "RUN_STOPPED"
    assert play.row().reserved_tokens == 0
    assert play.events()[-2:] == ["release", "refuse"]
