"""A folder of artifacts and saved checkpoint states: each file is written once, whole, and never again.

Files are named by run, shard and epoch, so that two epochs of a shard never write the same file; a digest is
`sha256:` and the hexadecimal hash of the content.
"""

import hashlib
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from preempt_exporter.errors import StoreUnavailable
from preempt_exporter.spend.rows import CheckpointRow

_LONGEST_PLAIN_NAME = 150
_HASHED = "sha256:"


class StoredFile(Struct, frozen=True):
    """What the folder holds under a name; `created` is False when it was there before and was left alone."""

    digest: str
    created: bool


class ArtifactFolder:
    """Artifacts under one root folder, which several hosts may share."""

    def __init__(self, root: Path) -> None:
        """`root` is made when the first file is written."""
        self._root = root

    def put(self, run: str, shard: str, epoch: int, content: bytes) -> StoredFile:
        """Store an epoch's artifact. Raises `StoreUnavailable` when the folder cannot be written."""
        return self._put(self._artifact(run, shard, epoch), content)

    def holds(self, run: str, shard: str, epoch: int, digest: str) -> bool:
        """Whether the epoch's artifact is there and has this digest; of a foreign kind of digest only the first."""
        found = _digest_of(self._artifact(run, shard, epoch))
        return found is not None and (found == digest or not digest.startswith(_HASHED))

    def put_checkpoint(self, run: str, shard: str, epoch: int, index: int, content: bytes) -> str:
        """Store the state saved at case `index`; its digest, for `CheckpointRequest.payload_digest`."""
        digest = _digest(content)
        return self._put(self._checkpoint(run, shard, epoch, index, digest), content).digest

    def checkpoint_content(self, run: str, shard: str, row: CheckpointRow) -> bytes | None:
        """The saved state of a checkpoint; None where it is missing or torn."""
        if row.payload_digest is None:
            return None
        try:
            content = self._checkpoint(run, shard, row.epoch, row.index, row.payload_digest).read_bytes()
        except OSError:
            return None
        return content if _digest(content) == row.payload_digest else None

    def torn(self, run: str, shard: str, newest_first: Iterable[CheckpointRow]) -> frozenset[int]:
        """Sequence numbers of checkpoints newer than the newest whole one; one without a saved state is whole."""
        torn: set[int] = set()
        for row in newest_first:
            if row.payload_digest is None or self.checkpoint_content(run, shard, row) is not None:
                break
            torn.add(row.sequence)
        return frozenset(torn)

    def _artifact(self, run: str, shard: str, epoch: int) -> Path:
        return self._root / _file_name("run", run) / f"{_file_name('shard', shard)}@{epoch}"

    def _checkpoint(self, run: str, shard: str, epoch: int, index: int, digest: str) -> Path:
        name = f"{_file_name('shard', shard)}@{epoch}.{index}.{digest.removeprefix(_HASHED)[:16]}"
        return self._root / _file_name("run", run) / "checkpoints" / name

    def _put(self, path: Path, content: bytes) -> StoredFile:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with _written(path.parent, content) as written:
                # A link is made whole or not at all, and never over what is there.
                os.link(written, path)
            _sync_folder(path.parent)
        except FileExistsError:
            return StoredFile(_digest_of(path) or "", created=False)
        except OSError as error:
            raise StoreUnavailable(
                f"artifact folder {self._root}: {error.strerror}; nothing may be committed"
            ) from error
        return StoredFile(_digest(content), created=True)


@contextmanager
def _written(folder: Path, content: bytes) -> Iterator[Path]:
    """A file of the folder with this content, on disk, under a name of its own until the block ends.

    The umask says who may read it, unlike with `tempfile`: a store or a reducer under another account has to.
    """
    path = folder / f".writing-{secrets.token_hex(8)}"
    with path.open("xb") as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            yield path
        finally:
            path.unlink()


def _file_name(kind: str, name: str) -> str:
    quoted = quote(name, safe="")
    if len(quoted) > _LONGEST_PLAIN_NAME:
        quoted = f"{quoted[:64]}~{hashlib.sha256(name.encode()).hexdigest()}"
    return f"{kind}-{quoted}"


def _digest(content: bytes) -> str:
    return _HASHED + hashlib.sha256(content).hexdigest()


def _digest_of(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return _HASHED + hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
