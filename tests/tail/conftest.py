"""A ledger folder, a clock moved by hand, and a reader that keeps what it was given."""

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from preempt_exporter.clock import FixedClock
from preempt_exporter.ledger.chunk import Chunk
from preempt_exporter.tail.follow import Tail
from preempt_exporter.tail.positions import Notice, Positions

QUIET_MS = 5_000


class TickingClock(FixedClock):
    """Moves by a microsecond at every look besides, as a real clock does: no two things happen at the same moment."""

    def __init__(self, now_ms: int) -> None:
        super().__init__(now_ms)
        self._ticks_s = 0.0

    def monotonic_s(self) -> float:
        self._ticks_s += 1e-6
        return super().monotonic_s() + self._ticks_s


class Reader:
    """Drives a `Tail` the way the pipeline does, over restarts too."""

    def __init__(self, *patterns: object, **options: object) -> None:
        self.patterns = [str(pattern) for pattern in patterns]
        self.options = options
        self.clock = TickingClock(1_700_000_000_000)
        self.chunks: list[Chunk] = []
        self.notices: list[Notice] = []
        self.tail = self._make(None)

    def _make(self, positions: Positions | None) -> Tail:
        return Tail(self.patterns, clock=self.clock, positions=positions, **self.options)  # type: ignore[arg-type]

    def poll(self, max_bytes: int = 1 << 30) -> list[bytes]:
        """One scan, one drained read; the lines that came of it."""
        self.tail.scan()
        chunks = list(self.tail.read(max_bytes))
        self.chunks += chunks
        self.notices += self.tail.take_notices()
        return [line for chunk in chunks for line in chunk.data.splitlines(keepends=True)]

    def wait(self, ms: int) -> list[bytes]:
        """Polls while `ms` pass."""
        lines = []
        for _ in range(max(ms // 500, 1)):
            self.clock.advance(500)
            lines += self.poll()
        return lines

    def stop(self) -> bytes:
        """What a snapshot would hold."""
        kept = msgspec.msgpack.encode(self.tail.positions())
        self.tail.close()
        return kept

    def start(self, kept: bytes) -> None:
        """A new process with that snapshot."""
        self.tail = self._make(msgspec.msgpack.decode(kept, type=Positions))

    def restart(self, while_down: Callable[[], object] = lambda: None) -> None:
        """Stop, let something happen, start again."""
        kept = self.stop()
        while_down()
        self.start(kept)

    @property
    def lines(self) -> list[bytes]:
        """Everything read so far, over restarts."""
        return [line for chunk in self.chunks for line in chunk.data.splitlines(keepends=True)]

    def said(self, words: str) -> bool:
        """Whether a notice holds these words."""
        return any(words in notice.message for notice in self.notices)


def compress(plain: Path, packed_name: str, *, late: bytes = b"") -> None:
    """As `gzip` does it: the file goes once its form is whole. `late`: what only the form has at its end."""
    plain.with_name(packed_name).write_bytes(gzip.compress(plain.read_bytes() + late))
    plain.unlink()


def open_descriptors() -> set[str]:
    """What this process holds open, as far as it can be named."""
    held = set()
    for link in Path("/proc/self/fd").iterdir():
        try:
            held.add(str(link.readlink()))
        except OSError:
            continue
    return held


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "l.jsonl"


@pytest.fixture
def follow() -> Iterator[Callable[..., Reader]]:
    """Makes readers and closes them in the end."""
    made: list[Reader] = []

    def make(*patterns: object, **options: object) -> Reader:
        made.append(Reader(*patterns, **options))
        return made[-1]

    yield make
    for reader in made:
        reader.tail.close()


class Lines:
    """Lines that are never the same twice."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def make(self, count: int = 1, size: int = 60) -> bytes:
        """The next `count` lines as one text."""
        lines = []
        for _ in range(count):
            number = len(self.written)
            body = f'{{"event":"heartbeat","task_id":"t","ts_ms":{number}'.encode()
            lines.append(body + b" " * max(size - len(body) - 2, 0) + b"}\n")
            self.written.append(lines[-1])
        return b"".join(lines)

    def append(self, path: Path, count: int = 1, size: int = 60) -> None:
        """Append the next lines to a file."""
        with path.open("ab") as file:
            file.write(self.make(count, size))


@pytest.fixture
def lines() -> Lines:
    return Lines()
