"""The interleavings that are shipped, as files of `drill fence --event-order` that also say what must come out.

    six_steps                  granted, checkpoint at 30, lease over, granted again and committed; the first comes back
    zombie_commits_first       presumed dead, it commits before its replacement does
    preemption_at_78_percent   39 of 50 cases are kept, the other 11 are granted as a part
    duplicate_delivery         every message arrives twice
    resurrected_worker         it tries everything, before and after its replacement was granted
    fixture_change             the input changed between two epochs, and within one
    skew_90_s                  whatever the workers' clocks say, the store's alone counts

A line's `expect`, `expect_index` and `expect_count` are what its `outcome`, `index` and `count` have to be.
"""

from pathlib import Path

FOLDER = Path(__file__).parent / "interleavings"


def shipped_interleavings() -> list[Path]:
    """Their files, by name."""
    return sorted(FOLDER.glob("*.jsonl"))
