"""What all tests share: hypothesis without wall-clock deadlines, and the same examples in every run but a soak."""

import os

from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("soak", deadline=None, max_examples=10_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
