"""Real ledgers that nobody on the project wrote; they lie beside the repository and are read from there."""

import os
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "shared" / "samples"

NAMES = (
    "admission-happy.jsonl",
    "admission-preempt-budget.jsonl",
    "admission-preempt.jsonl",
    "admission-survive.jsonl",
    "attempts-two.jsonl",
)
"""Every ledger in `FOLDER`; a test holds this list against the folder."""


def folder() -> Path:
    """The folder, or a skip that says why; where CI is set its absence is a failure."""
    if not FOLDER.is_dir():
        absent = f"no samples at {FOLDER}: they are no part of the repository"
        if os.environ.get("CI"):
            pytest.fail(f"{absent}, and CI must have them")
        pytest.skip(absent)
    return FOLDER
