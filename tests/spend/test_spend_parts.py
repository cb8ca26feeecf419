"""Parts of a shard: the remaining cases are graded again, each case is billed once."""

import pytest

from preempt_exporter.errors import UsageError
from preempt_exporter.spend.parts import Cases, cover_the_shard, read_shard_name
from tests.spend.spend_play import LEASE_MS, Play


def test_a_preemption_at_78_percent_regrades_the_remaining_22(play: Play) -> None:
    """39 of 50 cases are kept from the checkpoint, 11 are granted again; 50 cases are billed."""
    play.open(budget_tokens=1850, cases_per_shard=50)
    play.do("grant", tokens=1850)
    play.do("checkpoint", 0, index=39, tokens=39 * 37)
    play.clock.advance(LEASE_MS)
    play.do("grant", shard="3/0-38", tokens=39 * 37)
    first = play.ask("commit", 0, shard="3/0-38", tokens=39 * 37)
    assert (first.outcome, first.shard_accepted) == ("COMMITTED", False)
    assert not play.service.shard_accepted("r", "3")
    play.do("grant", shard="3/39-49", tokens=11 * 37)
    assert play.do("commit", 0, tokens=1850) == "LEASE_EXPIRED"
    last = play.ask("commit", 0, shard="3/39-49", tokens=11 * 37)
    assert (last.outcome, last.shard_accepted) == ("COMMITTED", True)
    assert play.service.shard_accepted("r", "3")
    assert play.service.run_summary("r").accepted_shards == ("3",)
    assert play.row().committed_tokens == 1850


@pytest.mark.parametrize("other", ["3", "3/30-49", "3/0-30", "3/49-60", "3/35-36", "3/0-60"])
def test_a_part_that_overlaps_a_live_or_accepted_one_is_refused(play: Play, other: str) -> None:
    """ALREADY_RESERVED while it is live, SHARD_ACCEPTED once it is accepted."""
    play.do("grant", shard="3/30-49")
    assert play.do("grant", shard=other) == "ALREADY_RESERVED"
    if other != "3/30-49":
        assert play.do("reserve", 9, shard=other) == "ALREADY_RESERVED"
    play.do("commit", 0, shard="3/30-49")
    assert play.do("grant", shard=other) == "SHARD_ACCEPTED"
    assert play.do("reserve", 9, shard=other) == "SHARD_ACCEPTED"


@pytest.mark.parametrize("other", ["3/0-29", "3/50-50", "33/30-49", "4", "3/x"])
def test_what_shares_no_case_does_not_wait(play: Play, other: str) -> None:
    """Neighbouring parts and other shards are free."""
    play.do("grant", shard="3/30-49")
    assert play.do("grant", shard=other) == "GRANTED"


def test_a_part_of_a_live_or_accepted_whole_is_refused(play: Play) -> None:
    """The whole holds every case."""
    play.do("grant")
    assert play.do("grant", shard="3/1-2") == "ALREADY_RESERVED"
    play.do("commit", 0)
    assert play.do("grant", shard="3/1-2") == "SHARD_ACCEPTED"


def test_an_expired_overlapping_part_gives_way(play: Play) -> None:
    """What is over blocks nothing, reclaimed in the same breath."""
    play.do("grant", shard="3/30-49")
    play.clock.advance(LEASE_MS)
    assert play.do("grant") == "GRANTED"


def test_a_compensated_part_opens_its_shard_again(play: Play) -> None:
    """The cover has a hole, and only its cases can be granted."""
    play.open(cases_per_shard=2)
    for part in ("3/0-0", "3/1-1"):
        play.do("grant", shard=part)
        play.do("commit", 0, shard=part)
    assert play.service.shard_accepted("r", "3")
    play.do("compensate", 0, shard="3/1-1")
    assert not play.service.shard_accepted("r", "3")
    assert play.service.shard_accepted("r", "3/0-0")
    assert play.do("grant") == "SHARD_ACCEPTED"
    assert play.do("grant", shard="3/1-1") == "GRANTED"


def test_parts_make_no_shard_whose_size_nobody_gave(play: Play) -> None:
    """Without `cases_per_shard` nobody knows when a shard is covered."""
    play.do("grant", shard="3/0-49")
    play.do("commit", 0, shard="3/0-49")
    assert not play.service.shard_accepted("r", "3")


@pytest.mark.parametrize(
    ("parts", "covered"),
    [
        ([(0, 9)], True),
        ([(5, 9), (0, 4)], True),
        ([(0, 3), (5, 9)], False),
        ([(1, 9)], False),
        ([(0, 8)], False),
        ([(0, 99)], False),
        ([(0, 4), (4, 9)], False),
        ([], False),
    ],
)
def test_covering_means_each_case_once(parts: list[tuple[int, int]], covered: bool) -> None:
    """In any order, without a hole, from 0 to the last."""
    assert cover_the_shard([Cases(*part) for part in parts], 10) is covered


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        ("3", "3", True),
        ("3", "4", False),
        ("3/0-9", "3", True),
        ("3/0-9", "4/0-9", False),
        ("3/0-9", "3/9-12", True),
        ("3/0-9", "3/10-12", False),
        ("a/b/0-9", "b/0-9", False),
        ("a/b/0-9", "a/b", True),
    ],
)
def test_names_overlap_where_they_share_a_case(one: str, other: str, overlap: bool) -> None:
    """Either way round; a slash that is no part's belongs to the shard's own name."""
    assert read_shard_name(one).overlaps(read_shard_name(other)) is overlap
    assert read_shard_name(other).overlaps(read_shard_name(one)) is overlap


@pytest.mark.parametrize("shard", ["3/49-30", "3/0-9/2-3", "3/1-99999999999999999"])
def test_a_name_under_which_cases_would_be_billed_twice_is_refused(play: Play, shard: str) -> None:
    """Cases in reverse or a part of a part are mistakes, said by name."""
    with pytest.raises(UsageError, match="3/"):
        play.do("grant", shard=shard)
