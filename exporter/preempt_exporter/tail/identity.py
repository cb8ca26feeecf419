"""Has this content been read already? A `Trail` remembers what was read; `compare` holds a file against it.

A device and inode number say which file it is, as long as it lives: inodes are reused, copies get new ones, devices
are renumbered at boot. So content decides: the head of the file as far as it was read, the bytes just before the
offset, and, for a copy that is shorter than what was read, samples in between. Below 256 KiB the samples cover every
full KiB; in larger files they thin out, so that a trail never grows past a few KiB.
"""

import enum
import hashlib
from collections.abc import Callable

from msgspec import Struct

HEAD_BYTES = 1024
ANCHOR_BYTES = 1024
SAMPLE_BYTES = 1024
MAX_SAMPLES = 256
DIGEST_BYTES = 8

ReadAt = Callable[[int, int], bytes]
"""`read_at(position, n)`: up to `n` bytes of plain text from `position`; fewer only at the end of the file."""


class Relation(enum.Enum):
    """How a file's content stands to what a trail remembers."""

    DIFFERENT = "different"
    PREFIX = "prefix"
    """Everything the file holds so far was read: it adds nothing yet."""
    CONTINUES = "continues"
    """The file holds everything that was read, and more after it."""


class Trail(Struct, kw_only=True):
    """What was read of one content, from its first byte to `offset`. Replaced as a whole, never shared."""

    offset: int = 0
    """Bytes consumed: handed out as lines, or dropped with an over-long line."""
    head: bytes = b""
    """The first bytes, up to `HEAD_BYTES`; it grows with the file."""
    anchor: bytes = b""
    """The bytes just before `offset`, up to `ANCHOR_BYTES`."""
    spacing: int = SAMPLE_BYTES
    samples: bytes = b""
    """Digests of the `SAMPLE_BYTES` before each multiple of `spacing`, one after the other."""

    def advanced(self, window: bytes, start: int, offset: int) -> "Trail":
        """The trail once everything before `offset` is consumed; `window` holds the bytes from `start` on.

        `window` must reach from `self.offset - len(self.anchor)` to `offset`.
        """
        head = self.head
        if len(head) < HEAD_BYTES and len(head) == self.offset:
            head += window[self.offset - start : min(offset, HEAD_BYTES) - start]
        digests = [self.samples]
        spacing = self.spacing
        count = len(self.samples) // DIGEST_BYTES
        mark = (count + 1) * spacing
        while mark <= offset:
            digests.append(_digest(window[mark - SAMPLE_BYTES - start : mark - start]))
            count += 1
            if count == MAX_SAMPLES:
                digests = [_every_second(b"".join(digests))]
                count //= 2
                spacing *= 2
            mark = (count + 1) * spacing
        anchor_start = max(offset - ANCHOR_BYTES, 0)
        anchor = window[anchor_start - start : offset - start]
        return Trail(offset=offset, head=head, anchor=anchor, spacing=spacing, samples=b"".join(digests))

    def cut_to(self, size: int, read_at: ReadAt) -> "Trail":
        """The trail of a file that holds only the first `size` bytes of this content (`Relation.PREFIX`)."""
        start = max(size - ANCHOR_BYTES, 0)
        return Trail(
            offset=size,
            head=self.head[:size],
            anchor=read_at(start, size - start),
            spacing=self.spacing,
            samples=self.samples[: size // self.spacing * DIGEST_BYTES],
        )


def compare(read_at: ReadAt, size: int, trail: Trail) -> Relation:
    """Hold the first `size` bytes that `read_at` gives against what `trail` remembers, from the front.

    A shorter file whose last part-KiB alone differs can pass for a prefix when it and the trail both span more than
    2 KiB and agree in every KiB before: the callers therefore wait and never take a prefix for granted at once.
    """
    head = trail.head[:size]
    if read_at(0, len(head)) != head:
        return Relation.DIFFERENT
    anchor_start = trail.offset - len(trail.anchor)
    for index in range(min(size, trail.offset) // trail.spacing):
        mark = (index + 1) * trail.spacing
        digest = trail.samples[index * DIGEST_BYTES : (index + 1) * DIGEST_BYTES]
        if _digest(read_at(mark - SAMPLE_BYTES, SAMPLE_BYTES)) != digest:
            return Relation.DIFFERENT
    if size > anchor_start:
        anchor = trail.anchor[: size - anchor_start]
        if read_at(anchor_start, len(anchor)) != anchor:
            return Relation.DIFFERENT
    return Relation.CONTINUES if size > trail.offset else Relation.PREFIX


def bytes_kept_from(read_at: ReadAt, size: int, trail: Trail, search_bytes: int) -> int:
    """How many of the file's first bytes are the last ones that `trail` read: a file whose old lines were cut off.

    0 unless the last line read stands whole in the anchor, and every byte of the anchor that the file begins with, or
    holds once and no more, agrees, and so does each head and sample in reach. Beyond `ANCHOR_BYTES` the part-KiB that
    the file begins with is in no sample's reach: such an answer is likely, not certain. At most the first
    `search_bytes` are searched.
    """
    anchor = trail.anchor
    if not anchor.endswith(b"\n"):
        return 0
    text = read_at(0, min(size, search_bytes))
    found = text.find(anchor)
    if found >= 0 and len(anchor) == ANCHOR_BYTES and anchor.count(b"\n") > 1 and text.find(anchor, found + 1) < 0:
        kept = found + len(anchor)
        return kept if _samples_agree(text, kept, trail) else 0
    start = 0
    while (start := anchor.find(b"\n", start) + 1) and start < len(anchor):
        if text.startswith(anchor[start:]):
            return len(anchor) - start
    return 0


def _samples_agree(text: bytes, kept: int, trail: Trail) -> bool:
    """Whether `text[:kept]` may be the `kept` bytes before the trail's offset, by every sample that lies within."""
    shift = trail.offset - kept
    if shift < 0 or not text.startswith(trail.head[shift:]):
        return False
    for index in range(len(trail.samples) // DIGEST_BYTES):
        begin = (index + 1) * trail.spacing - SAMPLE_BYTES - shift
        if (
            begin >= 0
            and _digest(text[begin : begin + SAMPLE_BYTES])
            != trail.samples[index * DIGEST_BYTES : (index + 1) * DIGEST_BYTES]
        ):
            return False
    return True


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()


def _every_second(digests: bytes) -> bytes:
    """Keep the samples at even multiples: those of twice the spacing."""
    step = 2 * DIGEST_BYTES
    return b"".join(digests[i + DIGEST_BYTES : i + step] for i in range(0, len(digests) - DIGEST_BYTES, step))
