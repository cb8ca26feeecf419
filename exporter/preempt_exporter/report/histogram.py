"""How many attempts waited, or ran, how long: counts between bounds that fit seconds as well as days."""

from bisect import bisect_left
from collections.abc import Iterable

BOUNDS_S = (1, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 86400)
"""Upper bounds in seconds, those of the exporter's histograms; the last bar is beyond the largest."""


def bars(values_s: Iterable[float]) -> list[int]:
    """Counts per bound, a value on a bound below it, and one bar for what is beyond the largest."""
    counts = [0] * (len(BOUNDS_S) + 1)
    for value in values_s:
        counts[bisect_left(BOUNDS_S, value)] += 1
    return counts


def bound_words(index: int) -> str:
    """The bar's range in words, such as `5 min` for up to five minutes."""
    if index == len(BOUNDS_S):
        return f"> {_short(BOUNDS_S[-1])}"
    return _short(BOUNDS_S[index])


def _short(seconds: int) -> str:
    if seconds < 60:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 3600 else f"{seconds // 3600} h"
