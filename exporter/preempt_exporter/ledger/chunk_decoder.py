"""How a reader of ledgers turns a chunk into records: natively, or by whatever stands in for that."""

from collections.abc import Callable

from preempt_exporter.ledger.chunk import Chunk
from preempt_exporter.ledger.decode import Decoded, decode_chunk

ChunkDecoder = Callable[[Chunk], Decoded]
"""Decodes the whole lines of a chunk; never raises, whatever the bytes."""


def decode_natively(chunk: Chunk) -> Decoded:
    """The chunk's lines as lines of our own ledger."""
    return decode_chunk(chunk.data, at_file_start=chunk.offset == 0)
