"""Paths into lines, written and read."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preempt_exporter.ledger.line_paths import FieldPath, LinePaths, parse_path, written

KEYS = st.text(st.characters(exclude_characters='"\\', exclude_categories=("Cs", "Cc")), min_size=1, max_size=5)
INDEXES = st.integers(-4, 4)
NESTED = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.sampled_from("ab"), below),
)


def paths(keys: st.SearchStrategy[str]) -> st.SearchStrategy[FieldPath]:
    return st.tuples(keys, st.lists(keys | INDEXES, max_size=4)).map(lambda drawn: (drawn[0], *drawn[1]))


@given(paths(KEYS))
def test_a_path_reads_as_it_is_written(path: FieldPath) -> None:
    """Whatever the keys, dots and brackets in them included, the written form means the same path."""
    assert parse_path(written(path)) == path


@given(st.text('ab.[]"-01\\ ', max_size=12))
def test_whatever_is_a_path_can_be_written(text: str) -> None:
    """Any text is a path that can be written again, or refused with a sentence."""
    try:
        path = parse_path(text)
    except ValueError as refused:
        assert "not a path" in str(refused)
    else:
        assert parse_path(written(path)) == path


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a[0]", ("a", 0)),
        ("a[-1][12].b", ("a", -1, 12, "b")),
        ('"a[0]"[0]."[1]"', ("a[0]", 0, "[1]")),
        ("a.0.-1", ("a", "0", "-1")),
        ("a" + "[0]" * 127, ("a", *[0] * 127)),
    ],
)
def test_indexes_are_numbers_and_brackets_in_quotes_are_keys(text: str, path: FieldPath) -> None:
    """An index is no key that looks like one, and each path has one form."""
    assert parse_path(text) == path
    assert written(path) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "a.", ".a", "a..b", 'a"b"', '"a', '""', "a\\b", "a\nb", '"a"b', ".".join("a" * 129)),
        *("[0]", "a.[0]", "a[0]b", 'a[0]"b"', "a[0].", "a[", "a[0", "a]", "a[]", "a[b]", "a[*]", "a[1.5]", "a[0:1]"),
        *("a[-0]", "a[01]", "a[+1]", "a[ 1]", "a[٣]", "a[1_0]", "a[" + "9" * 5000 + "]", "a" + "[0]" * 128),
    ],
)
def test_what_is_no_path_is_refused(text: str) -> None:
    """Empty keys, stray quotes, brackets and backslashes are not silently something else."""
    with pytest.raises(ValueError, match="not a path"):
        parse_path(text)


def test_a_place_may_be_a_value_and_lead_to_others() -> None:
    """`a` and `a.b` are both found; keys with dots, spaces and other scripts too; no key leads into an array."""
    looked_for = [("a",), ("a", "b"), ("a", "b", "c"), ("x.y", "ключ"), ("a", "z")]
    found = LinePaths(looked_for)
    texts = found.texts('{"a": {"b" : {"c":1.50}, "z":[{"b":2}]},"x.y":{"\\u043aлюч":"v"}}'.encode())
    assert [texts[found.slot(path)] for path in looked_for] == [
        b'{"b" : {"c":1.50}, "z":[{"b":2}]}',
        b'{"c":1.50}',
        b"1.50",
        b'"v"',
        b'[{"b":2}]',
    ]
    assert LinePaths([("a", "b")]).texts(b'{"a":[{"b":1}]}') == [b""]


@given(
    line=st.fixed_dictionaries({"a": st.lists(NESTED, max_size=4)}, optional={"b": NESTED}),
    looked_for=st.lists(paths(st.sampled_from("ab")), min_size=1, max_size=9),
)
def test_paths_lead_where_python_would_go(line: dict[str, Any], looked_for: list[FieldPath]) -> None:
    """A key of an object, an index within reach of an array, from either end; all else is not there."""
    found = LinePaths(looked_for)
    texts = found.texts(json.dumps(line).encode())
    assert [texts[found.slot(path)] for path in looked_for] == [_walked(line, path) for path in looked_for]


def _walked(value: Any, path: FieldPath) -> bytes:
    for step in path:
        if not isinstance(value, dict if isinstance(step, str) else list):
            return b""
        try:
            value = value[step]
        except LookupError:
            return b""
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("index", "expected"), [(0, b"7"), (1, b"8"), (2, b""), (-1, b"8"), (-2, b"7"), (-3, b""), (-999_999_999, b"")]
)
def test_an_index_counts_from_either_end_as_far_as_the_array_reaches(index: int, expected: bytes) -> None:
    """Out of reach there is nothing, and of an array without elements there is neither first nor last."""
    element = LinePaths([("a", index)])
    assert element.texts(b'{"a":[7,8]}') == [expected]
    assert element.texts(b'{"a":[ ]}') == [b""]


def test_an_array_may_be_cruel() -> None:
    """One of half a million elements, one as deep as lines may be, broken UTF-8 beside, and a key that comes twice."""
    many = LinePaths([("a", 0), ("a", -1), ("a", 499_999), ("a", 500_000)])
    assert many.texts(b'{"a":[' + b"1," * 499_999 + b"2]}") == [b"1", b"2", b"2", b""]
    deep = LinePaths([("a", *[0] * 127)])
    assert deep.texts(b'{"a":' + b"[" * 127 + b"7" + b"]" * 127 + b"}") == [b"7"]
    assert LinePaths([("a", 1)]).texts(b'{"a": [ "\xff" , 5 , 6 ] }') == [b"5"]
    twice = LinePaths([("a", 0), ("a", "b")])
    assert twice.texts(b'{"a":[1],"a":{"b":2}}') == [b"", b"2"]
    assert twice.texts(b'{"a":{"b":2},"a":[1]}') == [b"1", b""]
