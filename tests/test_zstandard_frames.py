"""Zstandard files that are whole, and the same cut short."""

import io
import random

import pytest
import zstandard

from preempt_exporter.zstandard_frames import ZstandardFrames

TEXT = b'{"event":"mode","mode":"normal"}\n' * 5000
NOISE = random.Random(1).randbytes(300_000)
SKIPPABLE = b"\x5a\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"xyz"


def without_a_size(text: bytes) -> bytes:
    """As a pipe is compressed: the frame's header cannot say how long its text is."""
    stream = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    return stream.compress(text) + stream.flush()


FILES: dict[str, list[tuple[bytes, bytes]]] = {
    "compressed": [(zstandard.compress(TEXT), TEXT)],
    "from a pipe": [(without_a_size(TEXT), TEXT)],
    "one byte repeated": [(zstandard.compress(b"a" * 1_000_000), b"a" * 1_000_000)],
    "not compressible": [(zstandard.compress(NOISE), NOISE)],
    "empty": [(zstandard.compress(b""), b"")],
    "several": [(zstandard.compress(TEXT), TEXT), (SKIPPABLE, b""), (without_a_size(b"tail\n"), b"tail\n")],
}
"""Frames and their text."""


def plain_text(packed: bytes) -> bytes:
    """All of it, read in pieces."""
    frames = ZstandardFrames(io.BytesIO(packed))
    return b"".join(iter(lambda: frames.read(1 << 16), b""))


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_ends_early_is_told_from_a_whole_one(name: str) -> None:
    """Wherever it is cut, but between two frames."""
    frames = FILES[name]
    packed = b"".join(frame for frame, _ in frames)
    assert plain_text(packed) == b"".join(text for _, text in frames)
    whole = {sum(len(frame) for frame, _ in frames[:n]) for n in range(len(frames) + 1)}
    near_ends = {end + by for end in whole for by in range(-8, 24)}
    for cut in sorted({*near_ends, *range(1, len(packed), 997)} & set(range(1, len(packed)))):
        if cut in whole:
            plain_text(packed[:cut])
        else:
            with pytest.raises(EOFError):
                plain_text(packed[:cut])
