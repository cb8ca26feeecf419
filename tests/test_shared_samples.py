"""The samples are never silently missing."""

from pathlib import Path

import pytest

from tests import shared_samples


def test_absent_samples_are_a_skip_that_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine without the folder a case is skipped with its reason."""
    monkeypatch.setattr(shared_samples, "FOLDER", tmp_path / "none")
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no samples at"):
        shared_samples.folder()


def test_absent_samples_fail_in_ci(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where CI is set the same case fails."""
    monkeypatch.setattr(shared_samples, "FOLDER", tmp_path / "none")
    monkeypatch.setenv("CI", "1")
    with pytest.raises(pytest.fail.Exception, match="CI must have them"):
        shared_samples.folder()
