"""What all tests share: repeatable hypothesis runs without wall-clock deadlines, goldens, and a real PostgreSQL."""

import os

import pytest
from hypothesis import settings

pytest_plugins = ["tests.postgres_server"]

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("soak", deadline=None, max_examples=10_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """The one flag that rewrites every golden file."""
    parser.addoption("--update-goldens", action="store_true", help="write what goldens hold instead of comparing it")
