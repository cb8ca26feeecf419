"""Paths into lines, written and read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preempt_exporter.ledger.line_paths import LinePaths, parse_path, written

KEYS = st.text(st.characters(exclude_characters='"\\', exclude_categories=("Cs", "Cc")), min_size=1, max_size=5)


@given(st.lists(KEYS, min_size=1, max_size=4).map(tuple))
def test_a_path_reads_as_it_is_written(path: tuple[str, ...]) -> None:
    """Whatever the keys, dots in them included, the written form means the same path."""
    assert parse_path(written(path)) == path


@pytest.mark.parametrize(
    "text", ["", ".", "a.", ".a", "a..b", 'a"b"', '"a', '""', "a[0]", "a\\b", "a\nb", '"a"b', ".".join("a" * 129)]
)
def test_what_is_no_path_is_refused(text: str) -> None:
    """Empty keys, stray quotes, brackets and backslashes are not silently something else."""
    with pytest.raises(ValueError, match="not a path"):
        parse_path(text)


def test_a_place_may_be_a_value_and_lead_to_others() -> None:
    """`a` and `a.b` are both found; keys with dots, spaces and other scripts too; arrays are not looked into."""
    paths = [("a",), ("a", "b"), ("a", "b", "c"), ("x.y", "ключ"), ("a", "z")]
    found = LinePaths(paths)
    texts = found.texts('{"a": {"b" : {"c":1.50}, "z":[{"b":2}]},"x.y":{"\\u043aлюч":"v"}}'.encode())
    assert [texts[found.slot(path)] for path in paths] == [
        b'{"b" : {"c":1.50}, "z":[{"b":2}]}',
        b'{"c":1.50}',
        b"1.50",
        b'"v"',
        b'[{"b":2}]',
    ]
    assert LinePaths([("a", "b")]).texts(b'{"a":[{"b":1}]}') == [b""]
