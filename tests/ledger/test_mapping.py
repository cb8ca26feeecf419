"""Other people's lines through an operator's mapping."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preempt_exporter.ledger.decode import BadLine, Decoded, decode_chunk, decode_line
from preempt_exporter.ledger.mapping import Mapping
from preempt_exporter.ledger.records import MAX_LINE_BYTES, Attempt, Complete, Drain, Heartbeat, Preempt
from preempt_exporter.settings import MappingRule
from tests.ledger.ledger_lines import ATTEMPT, CHUNKS, DRAIN, lines, typed
from tests.ledger.mappings import IDENTITY, mapping_of, rules

SAME = Mapping([IDENTITY])

BY_MESSAGE = """
event: {field: log.msg, values: {done: complete, beat: heartbeat, chatter: ignore}}
fields:
  ts_ms: {field: t, unit: s}
  task_id: log.task
  output_tokens: log.tokens
  restart_tokens: {constant: 0}
"""


@given(data=CHUNKS, at_file_start=st.booleans())
def test_our_own_lines_mapped_onto_themselves_are_what_they_were(data: bytes, at_file_start: bool) -> None:
    """Whatever the bytes, the mapping that names every field after itself gives what the native decoder gives."""
    native = decode_chunk(data, at_file_start=at_file_start)
    mapped = SAME.decode(data, at_file_start=at_file_start)
    assert [typed(record) for record in mapped.records] == [typed(record) for record in native.records]
    assert [(bad.reason, bad.offset, bad.line) for bad in mapped.bad] == [
        (bad.reason, bad.offset, bad.line) for bad in native.bad
    ]
    assert mapped.lines == native.lines
    assert mapped.ignored == 0


@given(rule=rules(), data=st.lists(lines() | st.binary(max_size=40), max_size=6).map(b"\n".join))
def test_no_bytes_and_no_mapping_make_the_decoder_raise(rule: MappingRule, data: bytes) -> None:
    """Any rule on any bytes gives records, bad lines and ignored ones that add up, and never an exception."""
    decoded = Mapping([rule, IDENTITY]).decode(data, at_file_start=True)
    assert decoded.lines == len(decoded.records) + len(decoded.bad) + decoded.ignored


@given(rule=rules(), data=st.lists(lines(), max_size=6).map(b"\n".join))
def test_a_mapped_record_survives_being_written_and_read_natively(rule: MappingRule, data: bytes) -> None:
    """No mapping makes a record that a native line could not hold."""
    from preempt_exporter.ledger.writer import encode_line

    for record in Mapping([rule]).decode(data).records:
        assert decode_line(encode_line(record)) == record


@given(rule=rules(), line=lines())
def test_an_explanation_ends_in_the_decoders_verdict(rule: MappingRule, line: bytes) -> None:
    """`explain` shows what `decode` did with the line."""
    line = line.replace(b"\n", b" ") + b"}"
    mapping = Mapping([rule])
    decoded = mapping.decode(line)
    explained = mapping.explain(line)
    assert [explained.verdict] == (decoded.records or [_unplaced(bad) for bad in decoded.bad] or [None])


def _unplaced(bad: BadLine) -> BadLine:
    return BadLine(reason=bad.reason, detail=bad.detail)


def test_an_event_is_told_by_a_nested_field(tmp_path: Path) -> None:
    """A value of a nested field means an event of ours, and the other fields come from where the mapping says."""
    mapping = mapping_of(tmp_path, BY_MESSAGE)
    line = b'{"t":12.5,"log":{"msg":"done","task":"t-1","tokens":9},"gpu_util_lie":99}\n'
    beat = b'{"t":13,"log":{"msg":"beat","task":7}}'
    assert mapping.decode(line + beat).records == [
        Complete(task_id="t-1", ts_ms=12_500, output_tokens=9, restart_tokens=0),
        Heartbeat(task_id="7", ts_ms=13_000),
    ]


def test_lines_that_no_rule_speaks_of_are_ignored_and_counted(tmp_path: Path) -> None:
    """By default they are neither records nor bad, but lines all the same; blank lines are not."""
    data = b'{"log":{"msg":"other"}}\n\n \r\n{"log":"flat"}\n{}\n{"log":{"msg":"chatter"}}'
    assert mapping_of(tmp_path, BY_MESSAGE).decode(data) == Decoded([], [], 4, 4)


def test_lines_that_no_rule_speaks_of_are_bad_where_that_is_asked_for(tmp_path: Path) -> None:
    """`other: bad` makes them `unknown_kind`, told by what stands where the rule looks; `ignore` still ignores."""
    mapping = mapping_of(tmp_path, BY_MESSAGE + "other: bad")
    decoded = mapping.decode(b'{"log":{"msg":"other"}}\n{"log":{"msg":"chatter"}}\n{"log":[]}')
    assert decoded.bad == [
        BadLine(reason="unknown_kind", detail="no rule speaks of the line: log.msg is 'other'"),
        BadLine(reason="unknown_kind", detail="no rule speaks of the line: log.msg is not there", offset=50, line=2),
    ]
    assert (decoded.lines, decoded.ignored) == (3, 1)


def test_a_word_that_no_value_names_is_not_taken_for_ours(tmp_path: Path) -> None:
    """Their `complete` is no `complete` of ours unless the mapping says so."""
    assert mapping_of(tmp_path, BY_MESSAGE).decode(b'{"t":1,"log":{"msg":"complete","task":"t"}}').ignored == 1


def test_what_is_no_json_is_bad_whatever_the_mapping_ignores(tmp_path: Path) -> None:
    """A line that is unreadable as a whole has the native reader's reason and place."""
    data = b'\xef\xbb\xbf{"t":1}\nnonsense\n[1]\n' + b"[" * 200 + b"\n" + b'{"a":"' + b"x" * MAX_LINE_BYTES + b'"}'
    decoded = mapping_of(tmp_path, BY_MESSAGE).decode(data, at_file_start=True)
    assert [bad.reason for bad in decoded.bad] == ["not_json", "not_an_object", "too_deep", "too_long"]
    assert [bad.offset for bad in decoded.bad] == [11, 20, 24, 225]
    assert decoded.ignored == 1


def test_a_bad_field_says_where_it_was_looked_for(tmp_path: Path) -> None:
    """The detail names our field and theirs."""
    mapping = mapping_of(tmp_path, BY_MESSAGE)
    bad = mapping.decode(b'{"t":"noon","log":{"msg":"beat","task":"t"}}\n{"t":5,"log":{"msg":"beat"}}').bad
    assert [(line.reason, line.detail) for line in bad] == [
        ("wrong_type", "ts_ms: expected a number (from t)"),
        ("missing_field", "task_id (from log.task)"),
    ]


def test_the_first_rule_that_knows_a_line_takes_it() -> None:
    """A rule whose conditions fail, or that does not know the event, leaves the line to the next."""
    drained = MappingRule(
        place="test",
        files=("*",),
        when=((("level",), frozenset({"error", "7"})),),
        event=IDENTITY.event,
        fields=IDENTITY.fields | {"task_id": IDENTITY.fields["action"]},
    )
    mapping = Mapping([drained, IDENTITY])
    by_level = [b'{"level":%s,' % level + DRAIN[1:] for level in (b'"error"', b"7", b"7.0", b'"info"', b"[7]", b"null")]
    names = [record.task_id for record in mapping.decode(b"\n".join(by_level)).records if isinstance(record, Drain)]
    assert names == ["fail_task_not_replay"] * 3 + ["t-1"] * 3
    assert isinstance(mapping.decode(ATTEMPT).records[0], Attempt)


def test_the_last_of_equal_keys_counts(tmp_path: Path) -> None:
    """Of a key that stands twice, nested or not, the last one counts, as in native lines."""
    line = b'{"t":1,"log":{"msg":"beat","task":"x"},"log":{"task":"a","msg":"beat","task":"b"},"t":2}'
    (record,) = mapping_of(tmp_path, BY_MESSAGE).decode(line).records
    assert record == Heartbeat(task_id="b", ts_ms=2000)


def test_a_field_that_the_kind_does_not_read_is_not_looked_at(tmp_path: Path) -> None:
    """A bad value matters only on lines whose kind has that field."""
    mapping = mapping_of(
        tmp_path,
        "event: {field: e, values: {lost: preempt, beat: heartbeat}}\n"
        "fields: {ts_ms: t, task_id: id, wasted_tokens: w, restart_tokens: w, preempts: n}",
    )
    decoded = mapping.decode(b'{"e":"beat","t":1,"id":"a","w":-1}\n{"e":"lost","t":1,"id":"a","w":-1,"n":1}')
    assert decoded.records == [Heartbeat(task_id="a", ts_ms=1)]
    assert [bad.reason for bad in decoded.bad] == ["out_of_range"]
    lost = mapping.decode(b'{"e":"lost","t":1,"id":"a","w":3,"n":1}')
    assert lost.records == [Preempt(task_id="a", ts_ms=1, wasted_tokens=3, restart_tokens=3, preempts=1)]


BY_INDEX = """
event: {field: "kinds[-1].name", values: {beat: heartbeat}}
when: {"levels[0]": [info, 3]}
fields:
  ts_ms: {field: "times[1]", unit: s}
  task_id: ids[0][-1]
"""


def test_elements_of_arrays_say_what_a_line_is(tmp_path: Path) -> None:
    """Event, condition and fields may each stand in an array."""
    line = b'{"kinds":[{"name":"end"},{"name":"beat"}],"levels":[3.0],"times":[1,2.5],"ids":[["x","a"],["b"]]}'
    assert mapping_of(tmp_path, BY_INDEX).decode(line).records == [Heartbeat(task_id="a", ts_ms=2500)]


def test_what_is_no_array_or_out_of_reach_is_not_there(tmp_path: Path) -> None:
    """An object with the index for a key is no array; what is found is judged as ever."""
    mapping = mapping_of(tmp_path, BY_INDEX + "other: bad")
    start = b'{"kinds":[{"name":"beat"}],"levels":["info"],"times":'
    texts = (b"[1]", b'{"1":5}', b'"[1,2]"', b"null", b"[]", b"[1,null]", b"[1,[2]]", b'[1,"\xff"]', b"[[[[1]]]]")
    fates = [mapping.decode(start + text + b',"ids":[["a"]]}').bad[0] for text in texts]
    missing, wrong = "missing_field", "wrong_type"
    assert [bad.reason for bad in fates] == [missing] * 5 + [wrong, wrong, wrong, missing]
    assert fates[0].detail == "ts_ms (from times[1])"
    (nobodys,) = mapping.decode(b'{"levels":{"0":"info"},"kinds":[{"name":"beat"}]}').bad
    assert nobodys.detail == "no rule speaks of the line: levels[0] is not there"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"[1", "not_json"),
        (b"[1,2]]", "not_json"),
        (b"[1,]", "not_json"),
        (b"[1,NaN]", "out_of_range"),
        (b'[1,{"\xff":2}]', "wrong_type"),
        (b"[" * 128 + b"]" * 128, "too_deep"),
        (b"[" * 100_000, "too_deep"),
    ],
)
def test_a_broken_array_makes_its_line_bad(tmp_path: Path, text: bytes, reason: str) -> None:
    """For the native reader's reason, within the limits of any line."""
    line = b'{"kinds":[{"name":"beat"}],"levels":["info"],"times":%s,"ids":[["a"]]}' % text
    assert [bad.reason for bad in mapping_of(tmp_path, BY_INDEX).decode(line).bad] == [reason]


def test_an_attempt_without_its_job_lacks_a_field_and_is_of_no_unknown_kind(tmp_path: Path) -> None:
    """The rule has said what the line is; what it says of the place is where to look."""
    names = ("lane", "attempt", "enqueue_s", "start_s", "end_s", "outcome", "tokens_in", "tokens_out", "interventions")
    fields = "".join(f"  {name}: {name}\n" for name in names)
    mapping = mapping_of(tmp_path, f"event: attempt\nfields:\n  job_id: ids[0]\n{fields}")
    line = b'{"ids": [], "lane": "free"}'
    expected = ("missing_field", "job_id (from ids[0])")
    (bad,) = mapping.decode(line).bad
    verdict = mapping.explain(line).verdict
    assert isinstance(verdict, BadLine)
    assert [(found.reason, found.detail) for found in (bad, verdict)] == [expected, expected]
