"""Lines to be cruel with: hypothesis strategies for ledger lines, valid ones and ones that look like it."""

from collections.abc import Iterator

from hypothesis import strategies as st
from msgspec import Struct

from preempt_exporter.ledger.bad_line import BadLine
from preempt_exporter.ledger.exact import BLANK_BYTES, read_exactly
from preempt_exporter.ledger.records import EVENT_NAMES, EVENT_TYPES, Attempt, Record

DRAIN = b'{"event":"drain","task_id":"t-1","ts_ms":5,"action":"fail_task_not_replay"}'
ATTEMPT = (
    b'{"job_id":"b-1","lane":"free","attempt":1,"enqueue_s":0,"start_s":8.5,"end_s":9,"outcome":"ok",'
    b'"tokens_in":null,"tokens_out":20,"interventions":0}'
)

FIELD_NAMES = sorted({name for kind in (Attempt, *EVENT_TYPES) for name in kind.__struct_fields__})


def event(**fields: str) -> bytes:
    """A drain line with some fields given as JSON text; an empty text leaves the field out."""
    texts = {"event": '"drain"', "task_id": '"t-1"', "ts_ms": "5", "action": '"fail"'} | fields
    return ("{" + ",".join(f'"{name}":{text}' for name, text in texts.items() if text) + "}").encode()


def line_by_line(data: bytes) -> Iterator[tuple[int, int, Record | BadLine]]:
    """What the exact reader says of each line that is not blank: index, offset, verdict."""
    offset = 0
    for index, line in enumerate(data.split(b"\n")):
        if line.strip(BLANK_BYTES):
            yield index, offset, read_exactly(line)
        offset += len(line) + 1


def typed(record: Struct) -> tuple[type, list[tuple[type, object]]]:
    """A record with the types of its values, so that 1, 1.0 and true differ."""
    values = [getattr(record, name) for name in record.__struct_fields__]
    return type(record), [(type(value), value) for value in values]


VALUE_TEXTS = st.sampled_from(
    [
        *(
            '"a"',
            '""',
            '"free"',
            '"é"',
            '"\\u00e9"',
            '"\\ud83d\\ude00"',
            '"\\ud800"',
            '"}\\n{"',
            '"}{"',
            '"\\\\"',
            '"0042"',
        ),
        *("0", "1", "7", "-1", "-0", "1.0", "1e3", "1.5", "-0.0", "1e400", "01", "1.", "null", "true", "false", "NaN"),
        *("9007199254740992", "9007199254740993", "-9007199254740993", "9007199254740993.0", "9" * 30, "1e18"),
        *("[]", "{}", '{"event":"drain"}', "[1,[2]]", '{"job_id":"x"}', "[" * 140 + "]" * 140, "[" * 127 + "]" * 127),
        '["x",5]',
        *('"' + "x" * size + '"' for size in (64, 65, 256, 257)),
        *('"' + "é" * size + '"' for size in (32, 33, 64, 128, 129)),
        *('"' + "\\u00e9" * size + '"' for size in (33, 129)),
        *('"normal"', '"ok"', '"preempted"', '"slack_zero"', '"\\/"', '"\t"', ""),
        *('"2026-11-29 15:03:14,123"', '"9999-12-31T23:59:60-23:59"', '"1970-01-01T00:00:00"'),
        *(f'"{name}"' for name in EVENT_NAMES),
    ]
).map(str.encode) | st.sampled_from([b'"\xff"', b'"\xed\xa0\x80"', b'"a\x00"', b"\xff"])

KEYS = st.sampled_from(
    ["event", *FIELD_NAMES, "gpu_util_lie", "\\u0065vent", "job\\u005fid", "événement", 'x\\"event\\"', "\\ud800"]
).map(str.encode) | st.just(b"\xff")

REAL_TEXTS = {
    int: b"12",
    str: b'"x"',
    float: b"1.5",
    bool: b"true",
}


RARELY = st.integers(0, 9).map(lambda drawn: drawn == 9)


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """A line of some kind with every required field, some fields made strange, and strange bytes around it."""
    kind = draw(st.sampled_from([*EVENT_TYPES, Attempt]))
    fields: list[tuple[bytes, bytes]] = []
    if kind is not Attempt:
        fields.append((b"event", b'"%s"' % str(kind.__struct_config__.tag).encode()))
    strange = draw(st.sets(st.integers(0, 20), max_size=2))
    for place, (name, annotation) in enumerate(_field_types(kind)):
        text = REAL_TEXTS[annotation] if name != "mode" else b'"normal"'
        fields.append((name.encode(), draw(VALUE_TEXTS) if place in strange else text))
    fields = [(name, text) for name, text in fields if text]
    fields += draw(st.just([]) | st.lists(st.tuples(KEYS, VALUE_TEXTS), max_size=1))
    if draw(st.booleans()):
        fields = draw(st.permutations(fields))
    glue = draw(RARELY.flatmap(lambda rarely: st.sampled_from([b", ", b",\n", b" ,\t"]) if rarely else st.just(b",")))
    line = b"{" + glue.join(b'"%s":%s' % field for field in fields) + b"}"
    if draw(RARELY):
        line = draw(st.sampled_from([b"\0", b"\0\0 ", b" ", b"\xef\xbb\xbf", b"["])) + line
    if draw(RARELY):
        line += draw(st.sampled_from([b"\r", b" ", b"\0", b"}", b"]", line]))
    if draw(RARELY):
        cut = draw(st.integers(0, len(line)))
        line = line[:cut] + draw(st.sampled_from([b"", b"\n", b"}\n{", b"\\", b'"'])) + line[cut:]
    return line


def _field_types(kind: type[Record]) -> Iterator[tuple[str, type]]:
    for name in kind.__struct_fields__:
        annotation = next(str(base.__annotations__[name]) for base in kind.__mro__ if name in base.__annotations__)
        found = next((kind for kind, words in _TYPE_WORDS.items() if any(word in annotation for word in words)), None)
        assert found is not None, annotation
        yield name, found


_TYPE_WORDS = {float: ("float",), bool: ("bool",), int: ("int",), str: ("str", "Literal")}

CHUNKS = st.lists(
    lines() | st.sampled_from([DRAIN, ATTEMPT, b"", b" \r", b"\0\0"]) | st.binary(max_size=30), max_size=12
).map(b"\n".join)
