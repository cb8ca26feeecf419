"""Durations as Prometheus writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preempt_exporter.durations import parse_duration_ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0", 0),
        ("0s", 0),
        ("500ms", 500),
        ("30s", 30_000),
        ("5m", 300_000),
        ("1h30m", 5_400_000),
        ("1d", 86_400_000),
        ("2w", 1_209_600_000),
        ("1y", 31_536_000_000),
        ("87600h", 315_360_000_000),
        ("1y2w3d4h5m6s7ms", 31_536_000_000 + 1_209_600_000 + 273_906_007),
    ],
)
def test_what_prometheus_takes(text: str, ms: int) -> None:
    """Every unit, alone and together, from the largest to the smallest."""
    assert parse_duration_ms(text) == ms


@pytest.mark.parametrize(
    "text", ["", "5", "-5m", "5 m", " 5m", "5m\n", "1.5h", "m", "5m5h", "5m5m", "5M", "5µs", "٥m", "1e3s", "inf", "nan"]
)
def test_what_is_no_duration(text: str) -> None:
    """Anything else is refused with its own text and an example."""
    with pytest.raises(ValueError, match="is not a duration such as"):
        parse_duration_ms(text)


@given(st.text(max_size=100))
def test_any_text_is_a_number_or_refused(text: str) -> None:
    """Whatever is given, the answer is whole milliseconds of 0 or more, or a `ValueError`."""
    try:
        ms = parse_duration_ms(text)
    except ValueError:
        return
    assert ms >= 0
