"""Where a replacement goes on: checkpoints with the digest of their input, torn ones, changed fixtures."""

from pathlib import Path

import pytest

from preempt_exporter.spend.artifacts import ArtifactFolder
from preempt_exporter.spend.service import SpendService
from tests.spend.spend_play import LEASE_MS, ListSink, Play


@pytest.fixture
def folder(tmp_path: Path) -> ArtifactFolder:
    return ArtifactFolder(tmp_path / "artifacts")


@pytest.fixture
def saving(play: Play, folder: ArtifactFolder) -> Play:
    """The same play with an artifact store configured."""
    play.service = SpendService(play.store, play.sink, artifacts=folder)
    return play


def save(play: Play, folder: ArtifactFolder, epoch: int, index: int, content: bytes) -> str:
    digest = folder.put_checkpoint("r", "3", epoch, index, content)
    play.do("checkpoint", epoch, index=index, tokens=index, payload_digest=digest)
    return digest


def tear(tmp_path: Path, index: int) -> None:
    (path,) = (tmp_path / "artifacts").glob(f"run-r/checkpoints/shard-3@*.{index}.*")
    path.write_bytes(path.read_bytes()[:-1])


def test_without_a_checkpoint_a_replacement_starts_at_0(play: Play) -> None:
    """RESUME at 0."""
    play.do("grant")
    assert (play.ask("resume", 0).outcome, play.ask("resume", 0).index) == ("RESUME", 0)


def test_a_replacement_goes_on_at_the_newest_checkpoint_of_whichever_epoch(play: Play) -> None:
    """The newest, not the furthest: an epoch that started over has the last word."""
    play.do("grant")
    play.do("checkpoint", 0, index=30)
    play.clock.advance(LEASE_MS)
    play.do("grant")
    assert play.ask("resume", 1).index == 30
    play.do("checkpoint", 1, index=10)
    assert play.ask("resume", 1).index == 10


def test_a_changed_input_starts_over_and_discards_what_the_old_input_left(play: Play) -> None:
    """RESTART once; the checkpoints of the old input are gone, also when the old input comes back."""
    play.do("grant")
    play.do("checkpoint", 0, index=20)
    play.do("checkpoint", 0, index=30)
    play.do("reserve", 1, input_digest="sha256:changed")
    assert play.do("resume", 1, input_digest="sha256:changed") == "RESTART"
    assert play.ask("resume", 1, input_digest="sha256:changed").index == 0
    play.do("reserve", 2)
    assert (play.ask("resume", 2).outcome, play.ask("resume", 2).index) == ("RESUME", 0)


def test_the_line_of_a_restart_says_that_it_starts_at_0(play: Play) -> None:
    """The exporter sees a `resume` with index 0."""
    play.do("grant")
    play.do("checkpoint", 0, index=20)
    play.do("reserve", 1, input_digest="sha256:changed")
    play.do("resume", 1, input_digest="sha256:changed")
    assert getattr(play.sink.lines[-1], "index", None) == 0


def test_a_torn_checkpoint_falls_back_to_the_one_before(saving: Play, folder: ArtifactFolder, tmp_path: Path) -> None:
    """A saved state that lost its last byte is never taken for whole."""
    saving.do("grant")
    for index in (10, 20, 30):
        save(saving, folder, 0, index, b"state %d" % index)
    assert saving.ask("resume", 0).index == 30
    tear(tmp_path, 30)
    assert saving.ask("resume", 0).index == 20
    tear(tmp_path, 20)
    tear(tmp_path, 10)
    assert saving.ask("resume", 0).index == 0


def test_a_checkpoint_after_a_fallback_is_the_newest_again(
    saving: Play, folder: ArtifactFolder, tmp_path: Path
) -> None:
    """One back, then forward."""
    saving.do("grant")
    save(saving, folder, 0, 10, b"ten")
    save(saving, folder, 0, 20, b"twenty")
    tear(tmp_path, 20)
    save(saving, folder, 0, 15, b"fifteen")
    assert saving.ask("resume", 0).index == 15


def test_resuming_keeps_the_totals_of_the_shard(play: Play) -> None:
    """Burnt tokens add up over every lost epoch; a resume resets nothing."""
    for epoch in range(3):
        play.do("reserve", epoch)
        play.do("resume", epoch)
        play.do("checkpoint", epoch, index=epoch, tokens=10)
    play.do("release", 2)
    assert play.row().burned_tokens == 30


def test_only_the_newest_checkpoints_are_kept(play: Play) -> None:
    """A shard that checkpoints for days does not grow the store."""
    play.do("grant")
    for index in range(40):
        play.do("checkpoint", 0, index=index)
    kept = [row.index for row in play.store.checkpoints("r", "3")]
    assert kept == [39, 38, 37, 36, 35, 34, 33, 32]


def test_a_commit_needs_its_artifact_in_the_configured_store(saving: Play, folder: ArtifactFolder) -> None:
    """ARTIFACT_MISSING until this epoch's artifact of this digest is there; another epoch's does not count."""
    saving.do("reserve", 0)
    other = folder.put("r", "3", 0, b"result").digest
    saving.do("reserve", 1)
    assert saving.do("commit", 1, artifact_digest=other) == "ARTIFACT_MISSING"
    own = folder.put("r", "3", 1, b"other result").digest
    assert saving.do("commit", 1, artifact_digest=other) == "ARTIFACT_MISSING"
    assert saving.do("commit", 1, artifact_digest=own) == "COMMITTED"


def test_who_may_read_an_artifact_is_the_umasks_to_say(folder: ArtifactFolder, tmp_path: Path) -> None:
    """As of any file: a reducer, or a store that checks commits, under another account can read it."""
    folder.put("r", "3", 0, b"result")
    (tmp_path / "any").touch()
    assert (tmp_path / "artifacts/run-r/shard-3@0").stat().st_mode == (tmp_path / "any").stat().st_mode
    assert [path.name for path in (tmp_path / "artifacts/run-r").iterdir()] == ["shard-3@0"]


def test_an_artifact_is_written_once(folder: ArtifactFolder) -> None:
    """Create-exclusive: a duplicate of the same content is fine, other content does not replace what is there."""
    first = folder.put("r", "3", 0, b"one")
    assert first.created
    again = folder.put("r", "3", 0, b"two")
    assert (again.created, again.digest) == (False, first.digest)
    assert folder.holds("r", "3", 0, first.digest)


@pytest.mark.parametrize("name", ["..", "../../escape", "a/b", "é" * 120, "x" * 256])
def test_no_name_of_a_run_or_shard_leaves_the_folder(folder: ArtifactFolder, tmp_path: Path, name: str) -> None:
    """Names are data: slashes, dots and length do not become paths."""
    stored = folder.put(name, name, 0, b"content")
    assert folder.holds(name, name, 0, stored.digest)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) == 1 and written[0].is_relative_to(tmp_path / "artifacts")


def test_a_long_name_is_not_taken_for_another(folder: ArtifactFolder) -> None:
    """Shortened names stay apart."""
    folder.put("r", "x" * 255 + "1", 0, b"one")
    assert folder.put("r", "x" * 255 + "2", 0, b"two").created


def test_a_sink_is_told_of_checkpoints(play: Play) -> None:
    """Every outcome is one line."""
    assert isinstance(play.sink, ListSink)
    play.do("grant")
    play.do("checkpoint", 0)
    play.do("resume", 0)
    assert play.events() == ["run_open", "reserve", "shard_checkpoint", "resume"]
