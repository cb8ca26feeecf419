"""The memory of ids against a list of them, with generations small enough to turn often."""

from itertools import count

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preempt_exporter.state import recent_ids
from preempt_exporter.state.recent_ids import RecentIds

REMEMBERED = 12
PACKED = 5
BLOCKS = 6


@pytest.fixture(autouse=True, scope="module")
def small_generations():
    """Twelve ids are remembered."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recent_ids, "REMEMBERED_IDS", REMEMBERED)
        patch.setattr(recent_ids, "PACKED_IDS", PACKED)
        patch.setattr(recent_ids, "MAX_BLOCKS", BLOCKS)
        yield


class NaiveIds:
    """All ids ever remembered, in a list."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    def are_new(self, batch: list[str]) -> list[bool]:
        """For each of the batch whether it is none of the last ones."""
        answers = []
        for line_id in batch:
            answers.append(line_id not in self.ids[-REMEMBERED:])
            if answers[-1]:
                self.ids.append(line_id)
        return answers


def answers_of(ids: RecentIds, batch: list[str]) -> list[bool]:
    """What the memory says of a batch, asked as a ledger's memory asks it."""
    return [True] * len(batch) if ids.add_all_if_new(batch) else [ids.add_if_new(line_id) for line_id in batch]


one_writers = st.builds("w{}-{}".format, st.integers(0, 2), st.integers(0, 40))
unordered = st.text("0123456789abc", min_size=1, max_size=6)


@given(st.lists(st.lists(st.one_of(one_writers, unordered), min_size=1, max_size=8), max_size=20))
def test_ids_in_any_order_are_repeats_exactly_within_the_last_ones(batches: list[list[str]]) -> None:
    """Also across turns of the generations and a way through a snapshot after each batch."""
    ids, naive = RecentIds(), NaiveIds()
    for batch in batches:
        assert answers_of(ids, batch) == naive.are_new(batch)
        ids = msgspec.msgpack.decode(msgspec.msgpack.encode(ids), type=RecentIds)


goes_on = st.tuples(st.sampled_from("abc"), st.integers(1, 4), st.just(0))
sends_again = st.tuples(st.just("again"), st.integers(1, 3), st.integers(1, 40))
batches_of_lines = st.lists(st.one_of(goes_on, goes_on, goes_on, sends_again), min_size=1, max_size=4)


@given(st.lists(batches_of_lines, max_size=15), st.sets(st.integers(0, 14)))
@settings(max_examples=1_500)
def test_ids_of_writers_that_count_are_repeats_exactly_within_the_last_ones(batches, restarts: set[int]) -> None:
    """Three writers with a block each; lines come again from near and far, the state is loaded anew now and then."""
    ids, naive = RecentIds(), NaiveIds()
    numbers = {writer: count(1) for writer in "abc"}
    for step, lines in enumerate(batches):
        batch = []
        for who, size, back in lines:
            if who == "again":
                batch += (naive.ids + batch)[-back:][:size]
            else:
                batch += [f"{who}-{next(numbers[who]):06}" for _ in range(size)]
        assert answers_of(ids, batch) == naive.are_new(batch)
        if step in restarts:
            ids = msgspec.msgpack.decode(msgspec.msgpack.encode(ids), type=RecentIds)


def test_a_writer_that_counts_is_known_by_its_largest_ids_alone() -> None:
    """Otherwise a ledger's memory would empty the processor's cache with every line."""
    ids = RecentIds()
    for number in range(0, 100, 4):
        assert ids.add_all_if_new([f"h1-{number + step:06}" for step in range(4)])
        assert ids.looked_up == "blocks"
    assert not ids.add_all_if_new(["h1-000099"])
    assert ids.looked_up == "ids"
    for number in range(100, 200, 4):
        assert ids.add_all_if_new([f"h1-{number + step:06}" for step in range(4)])
    assert ids.looked_up == "blocks"


def test_ids_that_are_all_their_own_block_are_known_by_their_hashes() -> None:
    """Random ids: blocks would only take more memory. The ids themselves are needed once one comes again."""
    ids, naive = RecentIds(), NaiveIds()
    numbers = count()
    for _ in range(3 * REMEMBERED // BLOCKS):
        batch = [f"{next(numbers) * 7919}-{next(numbers):04}" for _ in range(BLOCKS + 1)]
        assert answers_of(ids, batch) == naive.are_new(batch)
        assert ids.looked_up == "hashes"
    again = naive.ids[-2:]
    assert answers_of(ids, again) == naive.are_new(again) == [False, False]
    assert ids.looked_up == "ids"


@given(st.lists(st.lists(unordered, min_size=1, max_size=8), max_size=20))
def test_ids_that_share_a_hash_are_told_apart(batches: list[list[str]]) -> None:
    """Of five hashes, every one is soon known."""
    ids, naive = RecentIds(), NaiveIds()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recent_ids, "hash", lambda line_id: ord(line_id[-1]) % 5, raising=False)
        for batch in batches:
            assert answers_of(ids, batch) == naive.are_new(batch)


def test_an_id_that_came_late_is_known_after_a_restart_and_a_turn() -> None:
    """Its block's largest id is of the generation before, which the turn forgets."""
    ids, naive = RecentIds(), NaiveIds()
    late = ["a-000001"]
    first = late + [f"b-{number:06}" for number in range(REMEMBERED - 2)] + ["a-000009"]
    for batch in (first, ["b-000100", "b-000101"], late):
        assert answers_of(ids, batch) == naive.are_new(batch)
    ids = msgspec.msgpack.decode(msgspec.msgpack.encode(ids), type=RecentIds)
    assert ids.looked_up == "blocks"
    for batch in ([f"c-{number:06}" for number in range(REMEMBERED - 3)], ["c-000100"], late):
        assert answers_of(ids, batch) == naive.are_new(batch)
    assert naive.ids[-1] != late[0]


def test_a_state_that_holds_ids_in_the_form_of_before_is_taken_over_without_them() -> None:
    """They were two lists of strings. To refuse the state for them would read every ledger anew."""
    before = msgspec.msgpack.encode({"older": ["a-1"], "newer": ["a-2"]})
    ids = msgspec.msgpack.decode(before, type=RecentIds)
    assert answers_of(ids, ["a-2", "a-3"]) == [True, True]
