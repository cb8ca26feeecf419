"""The one small record between reading bytes and decoding lines."""

from msgspec import Struct


class Chunk(Struct, frozen=True, gc=False):
    """Whole lines from one place in one file.

    Every line in `data` ends in `\\n`, but for the last line of a finished file (rotated and quiet, deleted, or read
    by a batch command), which may lack it. A line longer than `MAX_LINE_BYTES` arrives cut to one byte more than that
    and with its newline, so that memory stays flat and the decoder still sees it as too long. Lines never span chunks.
    """

    ledger: str
    """Which ledger the file belongs to: the absolute path of the ledger's live (unrotated) name."""
    path: str
    """The file the bytes came from, as it was named when opened."""
    offset: int
    """Position in the file of the first byte of `data`, before decompression none: offsets are of plain text."""
    data: bytes
