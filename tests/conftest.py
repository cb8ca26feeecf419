"""What all tests share: repeatable hypothesis runs without wall-clock deadlines, and a real PostgreSQL."""

import os

from hypothesis import settings

pytest_plugins = ["tests.postgres_server"]

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("soak", deadline=None, max_examples=10_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
