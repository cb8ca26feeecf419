"""What several tests of the ledger need."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ledger.small_disk import SmallDisk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    disk = SmallDisk(tmp_path / "disk")
    yield disk
    disk.remove()
