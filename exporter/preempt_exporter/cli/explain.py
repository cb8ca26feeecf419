"""`check --explain`: what each line was read as, and what a field mapping made its fields from."""

from collections.abc import Iterable, Iterator
from typing import TextIO

from msgspec import Struct, json

from preempt_exporter.cli.check import Findings
from preempt_exporter.cli.decoding import MappedLedgers
from preempt_exporter.ledger.chunk import Chunk
from preempt_exporter.ledger.decode import BOM, BadLine, Decoded, decode_line
from preempt_exporter.ledger.exact import BLANK_BYTES
from preempt_exporter.ledger.mapping import ATTEMPT, Explanation, MappedField
from preempt_exporter.printable import printable

LONGEST_VALUE = 120
"""Characters of a value that are shown on a terminal."""


class ExplainedLine(Struct, frozen=True):
    """One line of input and what became of it."""

    file: str
    line: int
    """From 1."""
    read_as: str
    """Our kind of line, `bad` or `ignored`."""
    mapping: str | None
    """The rule that took it, as `file:line`; null where none did or the ledger is ours."""
    reason: str | None
    detail: str | None
    fields: list[MappedField]


def explain(chunks: Iterable[Chunk], mapped: MappedLedgers, findings: Findings, out: TextIO, *, as_json: bool) -> None:
    """Write every line's explanation, counting in `findings`; with `as_json` one object a line."""
    write = _write_object if as_json else _write_text
    for explained in _explained(chunks, mapped, findings):
        write(explained, out)


def _explained(chunks: Iterable[Chunk], mapped: MappedLedgers, findings: Findings) -> Iterator[ExplainedLine]:
    for chunk in chunks:
        mapping = mapped.mapping_of(chunk.ledger)
        before = findings.begin(chunk)
        data = chunk.data.removeprefix(BOM) if chunk.offset == 0 else chunk.data
        for number, line in enumerate(data.split(b"\n"), before + 1):
            if line.strip(BLANK_BYTES):
                found = mapping.explain(line) if mapping is not None else _native(line)
                findings.count(_decoded(found))
                yield _line(chunk.path, number, found)


def _native(line: bytes) -> Explanation:
    verdict = decode_line(line)
    return Explanation(None, None if isinstance(verdict, BadLine) else _kind(verdict), [], verdict)


def _kind(record: Struct) -> str:
    return str(record.__struct_config__.tag or ATTEMPT)


def _decoded(found: Explanation) -> Decoded:
    bad = [found.verdict] if isinstance(found.verdict, BadLine) else []
    return Decoded([], bad, 1, int(found.verdict is None))


def _line(path: str, number: int, found: Explanation) -> ExplainedLine:
    bad = found.verdict if isinstance(found.verdict, BadLine) else None
    read_as = "ignored" if found.verdict is None else "bad" if bad is not None else str(found.kind)
    return ExplainedLine(
        file=path.encode(errors="backslashreplace").decode(),  # JSON is UTF-8, a path need not be
        line=number,
        read_as=read_as,
        mapping=found.place,
        reason=bad.reason if bad else None,
        detail=bad.detail if bad else found.why_ignored or None,
        fields=found.fields,
    )


def _write_object(explained: ExplainedLine, out: TextIO) -> None:
    out.write(json.encode(explained).decode() + "\n")


def _write_text(explained: ExplainedLine, out: TextIO) -> None:
    head = f"{printable(explained.file)}:{explained.line}: {explained.read_as}"
    head += "".join(f": {words}" for words in (explained.reason, explained.detail) if words)
    if explained.mapping is not None:
        head += f", by {explained.mapping}"
    print(head, file=out)
    width = max((len(field.name) for field in explained.fields), default=0)
    for field in explained.fields:
        origin = f"from {_shown(field.found)}" if field.found else "a constant"
        print(f"    {field.name:<{width}} = {_shown(field.text)}   {origin}", file=out)


def _shown(text: str) -> str:
    return printable(text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + "…")
