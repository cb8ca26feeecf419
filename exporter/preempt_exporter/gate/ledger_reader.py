"""Reads a ledger's lines onwards from a place that outlives rotation, truncation and restarts.

The gate's own small reader: it is asked for what is new and follows nothing by itself. A place is a file (device and
inode), an offset behind a whole line, and the last bytes before it; where the file is gone the bytes find its content
again in a rotated form.
"""

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from preempt_exporter.gate.ledger_forms import Form, forms_of, live_form
from preempt_exporter.gate.life import FormKey
from preempt_exporter.ledger.decode import decode_chunk
from preempt_exporter.ledger.records import MAX_LINE_BYTES, Record

REMEMBERED_BYTES = 256


class Place(Struct, frozen=True):
    """Everything before it was read."""

    device: int
    inode: int
    offset: int
    before: bytes
    """The last bytes before `offset`, at most `REMEMBERED_BYTES`."""


class LedgerReader:
    """One ledger's lines in order, each once."""

    def __init__(self, ledger: Path, place: Place | None = None) -> None:
        """Read on from `place`; None: from the first line of the oldest form."""
        self._ledger = ledger
        self.place = place
        self.lost_its_place = False
        """Whether the place was found in no form, so that everything there is was read again."""
        self.rotated: FormKey | None = None
        """The rotated form that the lines just handed out stand in; None: the live one."""

    def read_new(self) -> Iterator[list[Record]]:
        """Lines after the place, in order; moves the place with every piece.

        A last line without newline waits while it is in the live path, and counts as finished in a rotated form. Bad
        lines are passed by. Raises `UnreadableInput`; the place then stands behind what was handed out.
        """
        live = live_form(self._ledger)
        if self.place is not None and live is not None and _holds(live, self.place):
            if live.size > self.place.offset:
                yield from self._read_form(live, self.place.offset)
            return
        forms = forms_of(self._ledger)
        first, offset = 0, 0
        if self.place is not None and forms:
            found = _find(self.place, forms)
            if found is None:
                self.lost_its_place = True
            else:
                first, offset = found, self.place.offset
        for form in forms[first:]:
            yield from self._read_form(form, offset)
            offset = 0

    def _read_form(self, form: Form, offset: int) -> Iterator[list[Record]]:
        before = self.place.before if self.place is not None and offset else b""
        self.rotated = None if form.live else (form.device, form.inode)
        for lines in _whole_lines(form, offset):
            records = decode_chunk(lines.data, at_file_start=offset == 0).records
            offset += lines.length
            before = (before + lines.data)[-REMEMBERED_BYTES:]
            self.place = Place(form.device, form.inode, offset, before)
            yield records


class _Lines(Struct, frozen=True):
    data: bytes
    length: int
    """How many bytes of the file they stand for: more than `data` where a line was too long to be kept."""


def _whole_lines(form: Form, offset: int) -> Iterator[_Lines]:
    rest, dropped = b"", 0
    for piece in form.pieces(offset):
        data = rest + piece
        end = data.rfind(b"\n") + 1
        rest = data[end:]
        if end:
            yield _Lines(data[:end], dropped + end)
            dropped = 0
        if len(rest) > 2 * MAX_LINE_BYTES:
            # Whatever follows, this line is too long to be one; its beginning is enough to tell.
            dropped += len(rest) - MAX_LINE_BYTES - 1
            rest = rest[: MAX_LINE_BYTES + 1]
    if rest and not form.live:
        yield _Lines(rest, dropped + len(rest))


def _holds(form: Form, place: Place) -> bool:
    """Whether the place is in this very file."""
    return (form.device, form.inode) == (place.device, place.inode) and _has_content_of(form, place)


def _has_content_of(form: Form, place: Place) -> bool:
    if not form.compressed and form.size < place.offset:
        return False
    return form.content_before(place.offset, len(place.before)) == place.before


def _find(place: Place, forms: list[Form]) -> int | None:
    """Which form holds the place: the same file if its content agrees, else any whose content does."""
    newest_first = list(reversed(range(len(forms))))
    same = next((index for index in newest_first if _holds(forms[index], place)), None)
    if same is not None:
        return same
    return next((index for index in newest_first if _has_content_of(forms[index], place)), None)
