"""Coverage-guided fuzzing of the decoder: `python -m tests.ledger.fuzz_decode -max_total_time=600`.

Claim: whatever the bytes, `decode_chunk` returns, and gives exactly what the exact reader gives line by line; and
what it reads, our writer writes and the decoder reads back.

Needs `pip install -e '.[soak]'`. Flags are libFuzzer's; a failing input is left as `crash-*` in the working folder.
"""

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["preempt_exporter.ledger"]):
    from preempt_exporter.ledger import decode
    from preempt_exporter.ledger.bad_line import LINE_ERROR_REASONS, BadLine
    from preempt_exporter.ledger.exact import BLANK_BYTES, read_exactly
    from preempt_exporter.ledger.writer import encode_line

import msgspec

from tests.ledger.ledger_lines import ATTEMPT, FIELD_NAMES, typed
from tests.ledger.test_bad_lines import BAD_LINES

decode.PATIENCE_LINES = 2


def read_one_chunk(data: bytes) -> None:
    """Raise where the claim does not hold. The first byte of the input chooses how the rest is read."""
    if not data:
        return
    decode.PIECE_BYTES = (16, 100, 1000, 1 << 17)[data[0] % 4]
    at_file_start = bool(data[0] & 4)
    chunk = data[1:] * (1 + data[0] // 8 % 4)
    decoded = decode.decode_chunk(chunk, at_file_start=at_file_start)
    start = len(decode.BOM) if at_file_start and chunk.startswith(decode.BOM) else 0
    records, bad = [], []
    offset = start
    for index, line in enumerate(chunk[start:].split(b"\n")):
        if line.strip(BLANK_BYTES):
            verdict = read_exactly(line)
            if isinstance(verdict, BadLine):
                assert verdict.reason in LINE_ERROR_REASONS
                bad.append(msgspec.structs.replace(verdict, offset=offset, line=index))
            else:
                records.append(verdict)
        offset += len(line) + 1
    assert [typed(record) for record in decoded.records] == [typed(record) for record in records]
    assert decoded.bad == bad
    assert decoded.lines == len(records) + len(bad)
    for record in records:
        assert decode.decode_line(encode_line(record)) == record


SHORT_LINES = [
    b'{"event":"mode","mode":"normal"}',
    b'{"event":"run_stop","run":"r"}',
    b'{"event":"run_close","run":7,"by":""}',
    b'{"event":"lane_resume","lane":"\xc3\xa9"}',
]
WORDS = [
    *SHORT_LINES,
    *(b'"%s":' % name.encode() for name in ["event", *FIELD_NAMES]),
    *(
        b"\n",
        b"\n\n",
        b"\r\n",
        b"}{",
        b"}\n{",
        b",\n",
        b"{}",
        b"[]",
        b"\0",
        b"\xef\xbb\xbf",
        b"\xff",
        b"\\",
        b"\\ud800",
    ),
    *(b"\\u0065", b"null", b"true", b"NaN", b"1.0", b"1e400", b"-1", b"9007199254740993", b'""'),
]


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


def main() -> None:
    """Fuzz from the lines that the tests know, with the ledger's own words as a dictionary."""
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder, "corpus")
        corpus.mkdir()
        for number, line in enumerate([ATTEMPT, *(line for _, line in BAD_LINES if len(line) < 5000)]):
            (corpus / str(number)).write_bytes(b"\x0f" + line + b"\n" + ATTEMPT + b"\n")
        for number, line in enumerate(SHORT_LINES):
            (corpus / f"short-{number}").write_bytes(b"\x03" + line + b"\n")
        words = Path(folder, "words")
        words.write_text("".join(f'"{_escaped(word)}"\n' for word in WORDS), encoding="ascii")
        atheris.Setup([sys.argv[0], f"-dict={words}", "-max_len=4096", *sys.argv[1:], str(corpus)], read_one_chunk)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
