"""Plain text of a Zstandard file that is whole; the library's own reader takes one that ends early for whole too."""

import io
from typing import IO, cast

import zstandard

_HEADER_BYTES_MAX = 18
_BLOCK_HEADER_BYTES = 3
_CHECKSUM_BYTES = 4
_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE_MAGIC = b"\x2a\x4d\x18"
"""What follows the first byte (0x50 to 0x5f) of a frame without content."""


class ZstandardFrames(io.RawIOBase):
    """Reads forwards, frame after frame. `EOFError` where the last frame ends early, as `gzip` says it."""

    def __init__(self, packed: IO[bytes]) -> None:
        """`packed` can seek and begins with a frame; it is closed with this."""
        self._packed = packed
        reader = zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True)
        self._plain = cast(IO[bytes], reader)

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes; none at the end of the last frame alone."""
        plain = self._plain.read(size)
        if not plain and size and not ends_with_its_frame(self._packed):
            raise EOFError("Zstandard frame ended before its last block")
        return plain

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Forwards only; stays at the end where the text is shorter."""
        return self._plain.seek(offset, whence)

    def close(self) -> None:
        """Close the packed file too."""
        self._plain.close()
        self._packed.close()
        super().close()


def begins_with_a_frame(first_bytes: bytes) -> bool:
    """Whether a file that begins so is a Zstandard file; `pzstd` begins with a frame without content."""
    return first_bytes.startswith(_MAGIC) or _is_skippable(first_bytes)


def ends_with_its_frame(packed: IO[bytes]) -> bool:
    """Whether the file is whole frames and nothing else, by their headers (RFC 8878, 3.1). Leaves it at its end."""
    end = packed.seek(0, io.SEEK_END)
    frame_at = 0
    while frame_at < end:
        packed.seek(frame_at)
        head = packed.read(_HEADER_BYTES_MAX)
        length = _skippable_bytes(head) or _frame_bytes(packed, frame_at, head)
        if length is None:
            break
        frame_at += length
    packed.seek(end)
    return frame_at == end


def _is_skippable(head: bytes) -> bool:
    return head[1:4] == _SKIPPABLE_MAGIC and head[0] & 0xF0 == 0x50


def _skippable_bytes(head: bytes) -> int | None:
    if len(head) < 8 or not _is_skippable(head):
        return None
    return 8 + int.from_bytes(head[4:8], "little")


def _frame_bytes(packed: IO[bytes], frame_at: int, head: bytes) -> int | None:
    """None where a header is missing or is none."""
    try:
        block_at = frame_at + zstandard.frame_header_size(head)
        has_checksum = zstandard.get_frame_parameters(head).has_checksum
    except zstandard.ZstdError:
        return None
    while True:
        packed.seek(block_at)
        header = packed.read(_BLOCK_HEADER_BYTES)
        if len(header) < _BLOCK_HEADER_BYTES:
            return None
        is_last, kind, size = header[0] & 1, header[0] >> 1 & 3, int.from_bytes(header, "little") >> 3
        # A block of one byte repeated stores that byte; its size is how often.
        block_at += _BLOCK_HEADER_BYTES + (1 if kind == 1 else size)
        if is_last:
            return block_at + (_CHECKSUM_BYTES if has_checksum else 0) - frame_at
