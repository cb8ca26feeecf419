"""`check LEDGER...`: lints ledgers, one line per bad line."""

import json
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Protocol, TextIO

from msgspec import Struct

from preempt_exporter.cli.decoding import MappedLedgers
from preempt_exporter.clock import SystemClock
from preempt_exporter.config import add_setting_arguments, resolve
from preempt_exporter.errors import UnreadableInput
from preempt_exporter.ledger.bad_line import LINE_ERROR_REASONS
from preempt_exporter.ledger.chunk import Chunk
from preempt_exporter.ledger.chunk_decoder import ChunkDecoder, decode_natively
from preempt_exporter.ledger.decode import Decoded
from preempt_exporter.ledger.records import MAX_LINE_BYTES
from preempt_exporter.printable import printable

STANDARD_INPUT = "-"
READ_BYTES = 1 << 19


def add_arguments(parser: ArgumentParser) -> None:
    """Declare flags and arguments."""
    parser.description = (
        "Lint ledgers: each line that the exporter would skip, as file:line: reason: detail. Exit status 0 when every "
        "line is good, 1 when one is bad, 2 when an input cannot be read."
    )
    parser.epilog = f"reasons: {', '.join(LINE_ERROR_REASONS)}"
    parser.add_argument(
        "--json",
        dest="as_json",
        action="store_true",
        help="one JSON object instead of lines; with --explain one for each line",
    )
    parser.add_argument(
        "--explain",
        action="store_true",
        help="say of every line what it was read as, and what each field was made from by a field mapping",
    )
    add_setting_arguments(parser, ())
    parser.add_argument(
        "ledgers",
        metavar="LEDGER",
        nargs="+",
        help="a file (plain, .gz or .zst), a glob or a folder, with their rotated forms; - is standard input",
    )


def run(args: Namespace) -> int:
    """Read everything and say what is bad; 1 if anything is."""
    from preempt_exporter.cli.progress import watched

    named = [ledger for ledger in args.ledgers if ledger != STANDARD_INPUT]
    chunks = chain(
        named_chunks(named) if named else (),
        standard_input_chunks() if STANDARD_INPUT in args.ledgers else (),
    )
    # Only a configuration file can change what is read; a strange environment is no matter here.
    mapped = MappedLedgers(resolve(args).mappings if getattr(args, "config.file") else ())
    findings = Findings(mapped.decode if mapped.rules else decode_natively)
    if args.explain:
        from preempt_exporter.cli.explain import explain

        explain(chunks, mapped, findings, sys.stdout, as_json=args.as_json)
    else:
        report = report_json if args.as_json else report_lines
        report(findings.among(watched(chunks, clock=SystemClock())), findings, sys.stdout)
    if not args.as_json:
        if args.explain and mapped.rules:
            for ledger in mapped.read_natively():
                print(f"{printable(ledger)}: read natively, as no entry's files mean it", file=sys.stderr)
        print(findings.summary(), file=sys.stderr)
    return 1 if findings.reasons else 0


class Finding(Struct, frozen=True):
    """A bad line and where it is."""

    file: str
    line: int
    """From 1."""
    offset: int
    """Byte offset of the line in its file (as plain text where that is compressed)."""
    reason: str
    detail: str


class _ReadSoFar(Struct, frozen=True):
    ledger: str
    end: int
    newlines: int


class Findings:
    """Counts what was read while it is being read."""

    def __init__(self, decode: ChunkDecoder = decode_natively) -> None:
        """Nothing was read yet."""
        self._decode = decode
        self.lines = 0
        """All lines but blank ones."""
        self.ignored = 0
        """Lines that a field mapping says nothing about."""
        self.reasons: Counter[str] = Counter()
        self._read: dict[str, _ReadSoFar] = {}

    def among(self, chunks: Iterable[Chunk]) -> Iterator[Finding]:
        """The bad lines of the chunks; of each file its chunks in order."""
        for chunk in chunks:
            lines_before = self.begin(chunk)
            decoded = self._decode(chunk)
            self.count(decoded)
            for bad in decoded.bad:
                yield Finding(
                    chunk.path, lines_before + bad.line + 1, chunk.offset + bad.offset, bad.reason, bad.detail
                )

    def begin(self, chunk: Chunk) -> int:
        """Note that the chunk is read now; how many lines of its file come before it."""
        lines_before = self._lines_before(chunk)
        self._read[chunk.path] = _ReadSoFar(
            chunk.ledger, chunk.offset + len(chunk.data), lines_before + chunk.data.count(b"\n")
        )
        return lines_before

    def count(self, decoded: Decoded) -> None:
        """Add what some lines held."""
        self.lines += decoded.lines
        self.ignored += decoded.ignored
        self.reasons.update(bad.reason for bad in decoded.bad)

    @property
    def files(self) -> int:
        """How many files had something to read."""
        return len(self._read)

    def _lines_before(self, chunk: Chunk) -> int:
        """How many lines of its file come before the chunk.

        What a rotated form holds already is not read again in the form that goes on from there, so the latter may
        begin with a chunk further down; its lines above are those of the former.
        """
        if chunk.path in self._read:
            return self._read[chunk.path].newlines
        before = (read for read in self._read.values() if (read.ledger, read.end) == (chunk.ledger, chunk.offset))
        return next((read.newlines for read in before), 0) if chunk.offset else 0

    def summary(self) -> str:
        """What was read, in one line."""
        reasons = ", ".join(f"{reason} {count}" for reason, count in self.reasons.most_common())
        return f"{_plural(self.lines, 'line')} in {_plural(self.files, 'file')}: {self.reasons.total()} bad" + (
            (f" ({reasons})" if reasons else "") + (f", {self.ignored} ignored" if self.ignored else "")
        )


def report_lines(found: Iterable[Finding], _findings: Findings, out: TextIO) -> None:
    """Write `file:line: reason: detail` as lines are found."""
    for bad in found:
        print(f"{printable(bad.file)}:{bad.line}: {bad.reason}: {bad.detail}", file=out, flush=True)


def report_json(found: Iterable[Finding], findings: Findings, out: TextIO) -> None:
    """Write one object; its list is written as lines are found, so that any number of them needs no memory."""
    out.write('{"bad_lines": [')
    separator = "\n"
    for bad in found:
        fields = {name: getattr(bad, name) for name in Finding.__struct_fields__}
        out.write(f"{separator}  {json.dumps(fields)}")
        separator = ",\n"
    totals = {
        "files": findings.files,
        "lines": findings.lines,
        "bad": findings.reasons.total(),
        "ignored": findings.ignored,
        "reasons": dict(findings.reasons.most_common()),
    }
    out.write(f"],\n {json.dumps(totals)[1:]}\n")


def named_chunks(ledgers: Sequence[str]) -> Iterator[Chunk]:
    """What the named ledgers hold; `UnreadableInput` where one is not there."""
    from preempt_exporter.tail.batch import read_batch

    return read_batch(ledgers)


def standard_input_chunks() -> Iterator[Chunk]:
    """Standard input's whole lines as they come; `UnreadableInput` where it is closed or no file of bytes."""
    try:
        with open(0, "rb", closefd=False) as stream:
            yield from stream_chunks(stream, STANDARD_INPUT)
    except OSError as error:
        raise UnreadableInput("standard input", error) from error


class ByteStream(Protocol):
    """What is read as it comes: a pipe, a terminal."""

    def read1(self, size: int, /) -> bytes:
        """Up to `size` bytes as soon as there are any; none at the end."""
        ...


def stream_chunks(stream: ByteStream, name: str) -> Iterator[Chunk]:
    """A stream's whole lines as they come, under the promises of `Chunk`: memory stays flat however long a line is."""
    offset = 0
    pending = b""
    skipping = False
    while block := stream.read1(READ_BYTES):
        if skipping:
            end = block.find(b"\n") + 1
            offset += end or len(block)
            if not end:
                continue
            block = block[end:]
            skipping = False
        pending += block
        whole = pending.rfind(b"\n") + 1
        if whole:
            yield Chunk(ledger=name, path=name, offset=offset, data=pending[:whole])
            offset += whole
            pending = pending[whole:]
        if len(pending) > MAX_LINE_BYTES:
            nuls = len(pending) - len(pending.lstrip(b"\0"))
            pending = pending[nuls:]
            offset += nuls
        if len(pending) > MAX_LINE_BYTES:
            yield Chunk(ledger=name, path=name, offset=offset, data=pending[: MAX_LINE_BYTES + 1] + b"\n")
            offset += len(pending)
            pending = b""
            skipping = True
    if pending:
        yield Chunk(ledger=name, path=name, offset=offset, data=pending)


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
