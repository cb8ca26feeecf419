"""What always holds: budget, bills, artifacts; each claim is a fault that was seen elsewhere."""

from preempt_exporter.ledger.records import Commit, Refuse, Release
from tests.spend.spend_play import ARTIFACT, INPUT, LEASE_MS, TOKENS, Play


def test_a_worker_presumed_dead_cannot_commit_before_its_replacement(play: Play) -> None:
    """Fencing is on the highest epoch granted: a zombie that commits first is refused, though nothing is committed."""
    play.do("reserve", 0)
    play.do("reserve", 1)
    assert play.do("commit", 0) == "STALE_EPOCH"
    assert play.do("commit", 1) == "COMMITTED"
    assert [artifact.epoch for artifact in play.service.run_summary("r").accepted] == [1]


def test_a_stalled_worker_that_wakes_up_after_its_replacement_committed_is_fenced(play: Play) -> None:
    """The six steps: granted, checkpoint, lease over, granted again and committed, the first comes back."""
    play.do("grant", tokens=1850, host="a")
    play.do("checkpoint", 0, index=30, tokens=1110)
    play.clock.advance(LEASE_MS)
    assert play.do("grant", tokens=1850, host="b") == "GRANTED"
    assert play.ask("resume", 1).index == 30
    assert play.do("commit", 1, tokens=1850) == "COMMITTED"
    late = play.ask("commit", 0, tokens=1850, host="a")
    assert late.outcome == "STALE_EPOCH"
    assert play.row().committed_tokens == 1850
    assert "asked by a" in str(late) and "on b" in str(late), "a refusal names the host"
    assert [line.host for line in play.sink.lines if isinstance(line, Refuse)] == ["a"]


def test_a_refusal_without_a_host_names_the_one_that_was_granted_the_epoch(play: Play) -> None:
    """Whoever comes back without saying who it is can still be found."""
    play.do("reserve", 0, host="a")
    play.do("reserve", 1, host="b")
    assert play.ask("commit", 0).host == "a"


def test_a_replayed_commit_is_not_billed_again(play: Play) -> None:
    """Delivery is at least once: the second says ALREADY_COMMITTED and changes no total."""
    play.do("grant")
    assert [play.do("commit", 0) for _ in range(3)] == ["COMMITTED", "ALREADY_COMMITTED", "ALREADY_COMMITTED"]
    assert play.row().committed_tokens == TOKENS
    assert sum(isinstance(line, Commit) for line in play.sink.lines) == 1


def test_a_shard_that_the_batch_starts_twice_has_one_winner(play: Play) -> None:
    """The same dispatch delivered twice grants one epoch."""
    assert [play.do("grant") for _ in range(2)] == ["GRANTED", "ALREADY_RESERVED"]
    assert [play.do("reserve", 1) for _ in range(2)] == ["RESERVED", "ALREADY_RESERVED"]


def test_an_accepted_shard_is_never_paid_for_again(play: Play) -> None:
    """Recovery that dispatches everything anew is refused for what is done."""
    play.do("grant")
    play.do("commit", 0)
    assert play.do("grant") == "SHARD_ACCEPTED"
    assert play.row().reserved_tokens == 0


def test_the_reservation_of_a_dead_attempt_returns_to_the_budget_exactly_once(play: Play) -> None:
    """Reclaimed by a grant, by a reclaim and by its own late release: one return."""
    play.open(budget_tokens=TOKENS)
    play.do("grant")
    play.clock.advance(LEASE_MS)
    assert play.service.reclaim_expired("r") == 1
    assert play.service.reclaim_expired() == 0
    assert play.do("release", 0) == "LEASE_EXPIRED"
    assert play.do("grant") == "GRANTED"
    assert play.row().reserved_tokens == TOKENS
    assert sum(isinstance(line, Release) for line in play.sink.lines) == 1


def test_reclaiming_covers_every_run_or_the_one_that_is_named(play: Play) -> None:
    """`reclaim_expired` counts what it returned, run by run."""
    play.do("grant", shard="1")
    play.do("grant", shard="2", lease_ms=LEASE_MS * 2)
    play.clock.advance(LEASE_MS)
    assert play.service.reclaim_expired("another") == 0
    summary = play.service.run_summary("r")
    assert (summary.leases_open, summary.leases_overdue) == (2, 1)
    assert play.service.reclaim_expired() == 1


def test_a_commit_after_the_lease_is_refused_although_the_result_exists(play: Play) -> None:
    """A task longer than its lease: not renewed, refused; renewed in time, it lives."""
    play.do("grant")
    play.clock.advance(LEASE_MS - 1)
    assert play.do("renew", 0) == "RENEWED"
    play.clock.advance(LEASE_MS - 1)
    assert play.do("checkpoint", 0) == "CHECKPOINTED"
    play.clock.advance(1)
    assert play.do("commit", 0) == "LEASE_EXPIRED"
    assert play.do("renew", 0) == "LEASE_EXPIRED"


def test_burnt_tokens_are_recorded_and_charged_only_when_the_run_says_so(play: Play) -> None:
    """With `charge_burned`, committed + reserved + burned stays within the budget."""
    play.open(budget_tokens=2 * TOKENS)
    play.do("grant")
    play.do("checkpoint", 0, tokens=TOKENS - 1)
    play.do("release", 0)
    assert play.row().burned_tokens == TOKENS - 1
    release = play.sink.lines[-1]
    assert isinstance(release, Release) and release.burned_tokens == TOKENS - 1
    play.open(charge_burned=True)
    assert play.do("grant", tokens=TOKENS + 2) == "OVER_BUDGET"
    assert play.do("grant", tokens=TOKENS + 1) == "GRANTED"


def test_a_superseded_epoch_is_charged_for_what_it_burnt(play: Play) -> None:
    """With `charge_burned` the replacement has to fit beside what the lost epoch used."""
    play.open(budget_tokens=TOKENS + 20, charge_burned=True)
    play.do("reserve", 0)
    play.do("checkpoint", 0, tokens=21)
    assert play.do("reserve", 1) == "OVER_BUDGET"
    play.do("checkpoint", 0, tokens=20)
    assert play.do("reserve", 1) == "RESERVED"


def test_a_worker_that_claims_more_than_it_was_given_cannot_overdraw_the_budget(play: Play) -> None:
    """The claim is recorded; the budget is charged no more than was set aside."""
    play.open(budget_tokens=TOKENS, charge_burned=True)
    play.do("grant", tokens=40)
    play.do("checkpoint", 0, tokens=TOKENS * 50)
    play.do("release", 0)
    assert play.row().burned_tokens == TOKENS * 50
    assert play.row().charged_burned_tokens == 40
    assert play.do("grant", tokens=60) == "GRANTED"


def test_a_lost_epoch_without_a_checkpoint_burns_nothing_known(play: Play) -> None:
    """`burned_tokens` is left out, not 0: nobody knows what it used."""
    play.do("grant")
    play.do("release", 0)
    release = play.sink.lines[-1]
    assert isinstance(release, Release) and release.burned_tokens is None


def test_a_compensated_shard_has_one_accepted_artifact_again_and_both_bills(play: Play) -> None:
    """Its tokens stay committed, the shard is granted again, the run's accepted set is right again."""
    play.do("grant")
    play.do("commit", 0)
    version = play.row().version
    assert play.do("compensate", 0) == "COMPENSATED"
    assert play.service.run_summary("r").accepted == ()
    assert not play.service.shard_accepted("r", "3")
    assert play.do("grant") == "GRANTED"
    play.do("commit", 1, artifact_digest="sha256:right")
    assert [artifact.artifact_digest for artifact in play.service.run_summary("r").accepted] == ["sha256:right"]
    assert play.row().committed_tokens == 2 * TOKENS
    assert play.row().version == version + 2
    assert play.do("commit", 0, artifact_digest=ARTIFACT) == "ALREADY_COMMITTED"


def test_the_version_moves_with_the_accepted_set_only(play: Play) -> None:
    """A reducer that reads the same version twice reduced over one accepted set."""
    before = play.row().version
    play.do("grant")
    play.do("checkpoint", 0)
    play.do("commit", 0, tokens=TOKENS + 1)
    assert play.row().version == before
    play.do("commit", 0)
    assert play.row().version == before + 1


def test_totals_agree_with_the_lines(play: Play) -> None:
    """Reserved, committed and burned in the run's row are what its ledger lines sum up to."""
    play.do("grant", shard="1")
    play.do("grant", shard="2", tokens=50)
    play.do("checkpoint", 0, shard="2", tokens=7)
    play.do("commit", 0, shard="1", tokens=60, settle="at_most")
    play.do("release", 0, shard="2")
    play.do("grant", shard="2", tokens=9, input_digest=INPUT)
    row = play.row()
    committed = sum(line.tokens for line in play.sink.lines if isinstance(line, Commit))
    burned = sum(line.burned_tokens or 0 for line in play.sink.lines if isinstance(line, Release))
    assert (row.committed_tokens, row.burned_tokens, row.reserved_tokens) == (committed, burned, 9) == (60, 7, 9)
