"""Sums over lines, within what a snapshot and a JSON answer can hold."""

MAX_TOTAL = 2**63 - 1
"""Where a sum stops. One line may say 2^53, so two thousand lines pass what 64 bits hold; no work burns that much."""


def total(so_far: int, more: int) -> int:
    """`so_far` and `more`, both 0 and above, at most `MAX_TOTAL`."""
    return min(so_far + more, MAX_TOTAL)
