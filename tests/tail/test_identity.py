"""Trails: what was read is known again, and nothing else is taken for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preempt_exporter.tail.identity import MAX_SAMPLES, Relation, Trail, bytes_kept_from, compare
from preempt_exporter.tail.lines import ContentChanged, next_piece


class Text:
    """A source in memory."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def read_at(self, position: int, n: int) -> bytes:
        return self.data[position : position + n]

    def close(self) -> None:
        raise AssertionError("nobody closes what he did not open")


def numbered(size: int) -> bytes:
    """Text in which no two KiB are alike."""
    return b"".join(f"{number:015}\n".encode() for number in range(size // 16 + 1))[:size]


def walked(data: bytes, steps: list[int]) -> Trail:
    """The trail of reading all of `data` in steps of these sizes, over and over."""
    trail = Trail()
    turn = 0
    while trail.offset < len(data):
        step = min(max(steps[turn % len(steps)], 1), len(data) - trail.offset)
        start = trail.offset - len(trail.anchor)
        trail = trail.advanced(data[start : trail.offset + step], start, trail.offset + step)
        turn += 1
    return trail


@given(size=st.integers(0, 700_000), steps=st.lists(st.integers(100, 400_000), min_size=1, max_size=5))
def test_a_trail_does_not_depend_on_the_steps(size: int, steps: list[int]) -> None:
    """Reading in many steps or in one leaves the same trail, of bounded size."""
    data = numbered(size)
    trail = walked(data, steps)
    assert trail == (Trail().advanced(data, 0, size) if size else Trail())
    assert len(trail.samples) < 8 * MAX_SAMPLES
    assert compare(Text(data).read_at, size, trail) is Relation.PREFIX
    assert compare(Text(data + b"x").read_at, size + 1, trail) is Relation.CONTINUES


@given(
    size=st.integers(1, 200_000), cut=st.floats(0, 1), at=st.floats(0, 1, exclude_max=True), more=st.integers(0, 3000)
)
def test_a_changed_byte_is_noticed(size: int, cut: float, at: float, more: int) -> None:
    """Below 256 KiB a byte that differs is seen wherever it stands, but in the last part-KiB of a shorter copy."""
    data = numbered(size)
    trail = walked(data, [30_000])
    copy = bytearray(numbered(int(size * cut) or 1) if cut < 1 else data + b"y" * more)
    position = int(min(len(copy), size) * at)
    copy[position] ^= 1
    in_the_gap = len(copy) < size and position >= len(copy) // 1024 * 1024 and position < size - 1024
    relation = compare(Text(bytes(copy)).read_at, len(copy), trail)
    if not (in_the_gap and position >= 1024):
        assert relation is Relation.DIFFERENT


def test_the_trail_of_a_copy() -> None:
    """A copy that holds only the first part has the trail of having been read that far."""
    data = numbered(50_000)
    cut = walked(data, [9_000]).cut_to(20_000, Text(data).read_at)
    assert cut == walked(data[:20_000], [20_000])


@pytest.mark.parametrize("kept", [16, 160, 1024, 4096, 99_984])
def test_lines_that_were_kept_are_known_again(kept: int) -> None:
    """A file that begins with the last lines read is told from one that only looks like it."""
    data = numbered(100_000)
    trail = walked(data, [64_000])
    begin = data[len(data) - kept :]
    assert bytes_kept_from(Text(begin + b"new\n").read_at, kept + 4, trail, 1 << 20) == kept
    other = bytearray(begin)
    other[kept // 2] ^= 1
    assert bytes_kept_from(Text(bytes(other)).read_at, kept, trail, 1 << 20) == 0


def test_lines_that_repeat_prove_nothing() -> None:
    """Where the last KiB stands in the file more than once, nothing is taken for read."""
    data = numbered(4_096) + b"same\n" * 1_000
    trail = walked(data, [64_000])
    other = b"b\n" + b"same\n" * 1_000
    assert bytes_kept_from(Text(other).read_at, len(other), trail, 1 << 20) == 0


def test_a_step_through_changed_content_is_refused() -> None:
    """What stands before the offset is looked at in the same read as what comes after it."""
    data = numbered(5_000)
    trail = walked(data, [5_000])
    assert next_piece(Text(data + b"a\n"), trail, skipping=False).piece is not None
    with pytest.raises(ContentChanged):
        next_piece(Text(data[:-2] + b"x\na\n"), trail, skipping=False)
    with pytest.raises(ContentChanged):
        next_piece(Text(data[:-1]), trail, skipping=False)
