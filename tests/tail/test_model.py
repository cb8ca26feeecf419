"""A model of what must be read exactly once, against the real tail on a real file system."""

import gzip
import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.tail.conftest import QUIET_MS, Reader

SETTLED_MS = 4 * QUIET_MS


class WritesAndRotations(RuleBasedStateMachine):
    """One ledger, one writer that holds back half lines, and everything an operator may do to the files.

    The reader is never slower than what may be destroyed: before bytes are destroyed for good (a truncation without a
    copy, a deletion) it has read them. Whatever else happens, each line is read once and in the order of writing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="model-"))
        self.live = self.folder / "l.jsonl"
        self.reader = Reader(self.live)
        self.expected: list[bytes] = []
        self.half = b""
        self.number = 0
        self.packed = 0

    def teardown(self) -> None:
        try:
            self.settle()
        finally:
            self.reader.tail.close()
            shutil.rmtree(self.folder)

    def settle(self) -> None:
        self.end_half_line()
        self.reader.wait(SETTLED_MS)
        assert self.reader.lines == self.expected
        stats = self.reader.tail.stats
        assert (stats.lag_bytes, stats.pending_bytes, stats.lag_seconds) == (0, 0, 0)

    def line(self, size: int) -> bytes:
        self.number += 1
        return f"{self.number} ".encode() + b"x" * size + b"\n"

    def append(self, data: bytes) -> None:
        with self.live.open("ab") as file:
            file.write(data)

    def end_half_line(self) -> None:
        if self.half:
            self.append(b"end\n")
            self.expected.append(self.half + b"end\n")
            self.half = b""

    @initialize(count=st.integers(0, 30), size=st.sampled_from([1, 60, 700]))
    def begin(self, count: int, size: int) -> None:
        self.write(count, size)

    @rule(count=st.integers(1, 40), size=st.sampled_from([1, 60, 700, 5000]))
    def write(self, count: int, size: int) -> None:
        self.end_half_line()
        lines = [self.line(size) for _ in range(count)]
        self.append(b"".join(lines))
        self.expected += lines

    @rule(size=st.sampled_from([1, 300, 70_000]))
    def write_half(self, size: int) -> None:
        self.end_half_line()
        self.half = self.line(size)[:-1]
        self.append(self.half)

    @rule()
    def poll(self) -> None:
        self.reader.poll()

    @rule(budget=st.integers(1, 5_000))
    def poll_a_little(self, budget: int) -> None:
        self.reader.poll(budget)

    @rule(ms=st.sampled_from([500, 2_000, SETTLED_MS]))
    def wait(self, ms: int) -> None:
        self.reader.wait(ms)

    @rule()
    def restart(self) -> None:
        self.reader.restart()

    def read_all(self) -> None:
        """The reader has seen every whole line; a copy or a rename is not even needed to save them."""
        for _ in range(200):
            self.reader.poll()
            if not self.reader.tail.has_more():
                return
        raise AssertionError("the reader does not come to an end")

    def shift(self) -> None:
        if (self.folder / "l.jsonl.9").exists():
            self.read_all()  # The ninth makes room: nobody can read it afterwards.
        for number in range(8, 0, -1):
            rotated = self.folder / f"l.jsonl.{number}"
            if rotated.exists():
                rotated.rename(self.folder / f"l.jsonl.{number + 1}")

    @rule()
    def rotate_by_rename(self) -> None:
        self.end_half_line()
        if self.live.exists():
            self.shift()
            self.live.rename(self.folder / "l.jsonl.1")

    @rule(pause=st.booleans(), growth=st.integers(0, 3))
    def rotate_by_copy(self, pause: bool, growth: int) -> None:
        self.end_half_line()
        if not self.live.exists():
            return
        self.shift()
        copy = self.folder / "l.jsonl.1"
        content = self.live.read_bytes()
        with copy.open("wb", buffering=0) as file:
            middle = len(content) // 2
            file.write(content[:middle])
            if pause:
                self.reader.poll()
            file.write(content[middle:])
        if pause:
            self.reader.poll()
        os.truncate(self.live, 0)
        self.write(growth, 60) if growth else None

    @rule()
    def truncate_what_was_read(self) -> None:
        self.end_half_line()
        if self.live.exists():
            self.read_all()
            os.truncate(self.live, 0)

    @rule()
    def delete_what_was_read(self) -> None:
        self.end_half_line()
        self.read_all()
        self.live.unlink(missing_ok=True)

    @rule()
    def delete_while_held_open(self) -> None:
        """The reader has the file open: what it has not read yet survives the deletion."""
        self.end_half_line()
        if self.live.exists():
            self.reader.poll(1)
            self.live.unlink()
            self.reader.wait(SETTLED_MS)

    @rule(kept=st.booleans(), more=st.integers(0, 5))
    def replace(self, kept: bool, more: int) -> None:
        """Written anew beside and put in its place: with the old content or without."""
        self.end_half_line()
        if not self.live.exists():
            return
        self.read_all()
        lines = [self.line(60) for _ in range(more)]
        fresh = self.folder / "fresh"
        fresh.write_bytes((self.live.read_bytes() if kept else b"") + b"".join(lines))
        fresh.replace(self.live)
        self.expected += lines

    @rule()
    def delete_the_oldest(self) -> None:
        rotated = sorted(self.folder.glob("l.jsonl.[0-9]"), key=lambda path: int(path.suffix[1:]))
        if rotated:
            self.read_all()
            rotated[-1].unlink()

    @rule(late=st.integers(0, 3), seen=st.booleans(), down=st.booleans())
    def rotate_and_compress(self, late: int, seen: bool, down: bool) -> None:
        """Renamed, given its last lines by a writer that still holds it, and packed, with the reader up or down."""
        self.end_half_line()
        if not self.live.exists() or not self.live.stat().st_size:
            return
        self.read_all()
        held = self.folder / "held"
        self.live.rename(held)
        lines = [self.line(60) for _ in range(late)]
        with held.open("ab") as file:
            file.write(b"".join(lines))
        self.expected += lines
        if seen:
            self.reader.poll()

        def pack() -> None:
            packed = self.folder / "packing"
            packed.write_bytes(gzip.compress(held.read_bytes()))
            packed.rename(self.folder / f"l.jsonl.{1000 - self.packed}.gz")
            self.packed += 1
            held.unlink()

        if down:
            self.reader.restart(pack)
            self.reader.poll()
        else:
            pack()

    @rule()
    def settles(self) -> None:
        self.settle()

    @invariant()
    def nothing_is_read_that_was_not_written_nor_twice(self) -> None:
        read = self.reader.lines
        assert read == self.expected[: len(read)]


WritesAndRotations.TestCase.settings = settings(
    max_examples=int(os.environ.get("MODEL_EXAMPLES", "150")),
    stateful_step_count=35,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
    report_multiple_bugs=False,
    database=None,
)
TestWritesAndRotations = WritesAndRotations.TestCase
