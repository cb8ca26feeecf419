"""Cut bytes into pieces of whole lines. Live and batch reading share it, so that both hand out the same bytes."""

from msgspec import Struct

from preempt_exporter.ledger.records import MAX_LINE_BYTES
from preempt_exporter.tail.identity import Trail
from preempt_exporter.tail.source import Source

READ_BYTES = 1 << 17
"""Large enough that a read costs little beside the decoding of its lines, small enough to stay in the cache."""
_OVERLONG_BYTES = MAX_LINE_BYTES + 2


class ContentChanged(Exception):
    """The bytes before the offset are not those that were read: the file was truncated or rewritten."""


class Piece(Struct, frozen=True, gc=False):
    """One step through a file."""

    data: bytes
    """Whole lines to hand out; empty where bytes are only dropped (the rest of an over-long line, a hole of NULs)."""
    offset: int
    """Where `data` begins."""
    trail: Trail
    """The trail after this step."""
    skipping: bool
    """Whether the step ends inside an over-long line."""


class Cut(Struct, frozen=True, gc=False):
    """Where a file stands after the last step."""

    piece: Piece | None
    """None: no whole line beyond the offset."""
    seen: int
    """The file was looked at up to here; bytes between the offset and here are a line without its end."""


def next_piece(source: Source, trail: Trail, *, skipping: bool) -> Cut:
    """The next whole lines after `trail.offset`. `ContentChanged` if what stands before it is not what was read.

    A line past `MAX_LINE_BYTES` is cut to one byte more and its rest dropped; NULs in front of a line are passed on,
    unless they alone are longer than a line may be (the hole that a writer leaves who does not append).
    """
    begin = len(trail.anchor)
    window = _read(source, trail, READ_BYTES)
    start = trail.offset - begin
    if skipping:
        if len(window) == begin:
            return Cut(None, trail.offset)
        end = window.find(b"\n", begin) + 1
        return _dropped(trail, window, start + (end or len(window)), skipping=not end)
    end = window.rfind(b"\n", begin) + 1
    if not end and len(window) >= begin + READ_BYTES:
        window = _read(source, trail, _OVERLONG_BYTES)
        end = window.rfind(b"\n", begin) + 1
        if not end and len(window) >= begin + _OVERLONG_BYTES:
            body = window[begin:]
            nuls = len(body) - len(body.lstrip(b"\0"))
            if nuls:
                return _dropped(trail, window, trail.offset + nuls, skipping=False)
            cut = trail.offset + MAX_LINE_BYTES + 1
            piece = Piece(
                data=body[: MAX_LINE_BYTES + 1] + b"\n",
                offset=trail.offset,
                trail=trail.advanced(window, start, cut),
                skipping=True,
            )
            return Cut(piece, cut)
    seen = start + len(window)
    if not end:
        return Cut(None, seen)
    after = trail.advanced(window, start, start + end)
    return Cut(Piece(data=window[begin:end], offset=trail.offset, trail=after, skipping=False), seen)


def last_piece(source: Source, trail: Trail, *, skipping: bool) -> Piece | None:
    """What is left after `next_piece` gave nothing more, once the file is finished: a last line without its end."""
    window = _read(source, trail, _OVERLONG_BYTES)
    body = window[len(trail.anchor) :]
    if not body:
        return None
    after = trail.advanced(window, trail.offset - len(trail.anchor), trail.offset + len(body))
    return Piece(data=b"" if skipping else body, offset=trail.offset, trail=after, skipping=False)


def _dropped(trail: Trail, window: bytes, offset: int, *, skipping: bool) -> Cut:
    after = trail.advanced(window, trail.offset - len(trail.anchor), offset)
    return Cut(Piece(data=b"", offset=trail.offset, trail=after, skipping=skipping), offset)


def _read(source: Source, trail: Trail, n: int) -> bytes:
    """The anchor and up to `n` bytes after it, in one read, so that both are of one moment."""
    window = source.read_at(trail.offset - len(trail.anchor), len(trail.anchor) + n)
    if not window.startswith(trail.anchor):
        raise ContentChanged
    return window
