"""`mappings` in the configuration file: what is refused, and where."""

import re
from pathlib import Path

import pytest

from preempt_exporter.cli.main import OneLineParser
from preempt_exporter.config import TASK_NAMES, add_setting_arguments, resolve
from preempt_exporter.errors import ConfigError
from preempt_exporter.settings import MappingRule, ValueSource

WHOLE = """\
mappings:
  - files: [a.jsonl, logs/*.jsonl]
    event: heartbeat
    when:
      level: [info, null]
      attributes."x.y": 5
    fields:
      ts_ms: {field: t, unit: s}
      task_id: id
    other: bad
"""


def rules(folder: Path, text: str) -> tuple[MappingRule, ...]:
    path = folder / "config.yml"
    path.write_text(text, encoding="utf-8")
    parser = OneLineParser()
    add_setting_arguments(parser, TASK_NAMES)
    return resolve(parser.parse_args([f"--config.file={path}"]), {}).mappings


def test_a_whole_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every key of an entry ends in the record; a glob with a folder starts where arguments start."""
    monkeypatch.chdir(tmp_path)
    assert rules(tmp_path, WHOLE) == (
        MappingRule(
            place=f"{tmp_path / 'config.yml'}:2",
            files=("a.jsonl", str(tmp_path / "logs/*.jsonl")),
            when=((("level",), frozenset({"info", "null"})), (("attributes", "x.y"), frozenset({"5"}))),
            event=ValueSource(constant='"heartbeat"'),
            fields={"ts_ms": (ValueSource(path=("t",), unit="s"),), "task_id": (ValueSource(path=("id",)),)},
            refuse_other=True,
        ),
    )


def test_no_mappings_are_none(tmp_path: Path) -> None:
    """A file without the section, or with an empty one, maps nothing."""
    assert rules(tmp_path, "watch: poll\n") == rules(tmp_path, "mappings:\n") == ()


@pytest.mark.parametrize(
    ("was", "now", "place", "words"),
    [
        ("    event: heartbeat\n", "", "2:5", "needs event"),
        ("files: [a.jsonl, logs/*.jsonl]", "files:", "2:5", "needs files"),
        ("a.jsonl,", "'',", "2:12", "matches nothing"),
        ("[a.jsonl, logs/*.jsonl]", "[]", "2:12", "matches nothing"),
        ("level: [info, null]", "level: []", "5:14", "never holds"),
        ("event: heartbeat", "event: {field: a, values: {}}", "3:31", "values names no kind of line"),
        ("event: heartbeat", "event: {field: a, values: }", "3:30", "values names no kind of line"),
        ("task_id: id", "task_id: {constant: null}", "9:27", "task_id cannot be 'null'"),
        ("ts_ms: {field: t, unit: s}", "ts_ms: {constant: null}", "8:14", "ts_ms of heartbeat lines cannot be null"),
        ("unit: s", "missing: 2026-06-11T10:00:00Z", "8:34", "expected a number; a moment needs unit: rfc3339"),
        ("      task_id: id\n", "      task_id: id\n      output_tokens: {constant: x}\n", "10:33", "expected a numb"),
        ("event: heartbeat", "event: hartbeat", "3:12", "did you mean 'heartbeat'"),
        ("event: heartbeat", "evnt: heartbeat", "3:5", "did you mean 'event'"),
        ("event: heartbeat", "event: [heartbeat, drain]", "3:12", "event is one of"),
        ("event: heartbeat", "event: {values: {a: drain}}", "3:12", "needs the field"),
        ("event: heartbeat", "event: {field: a..b}", "3:20", "'a..b' is not a path"),
        ("event: heartbeat", "event: {field: a, values: {b: dance}}", "3:35", "'dance' is none of our kinds"),
        ("event: heartbeat", "event: {field: a, values: {b: [drain]}}", None, "drain lines need action"),
        ("event: heartbeat", "event: {field: a, values: {b: {c: d}}}", "3:35", "must be one of our kinds"),
        ("event: heartbeat", "event: attempt", "3:12", "attempt lines need job_id, lane, attempt, enqueue_s"),
        ("event: heartbeat", "event: {field: a, values: {b: complete}}", "3:12", "need output_tokens, restart_tokens"),
        ("      task_id: id\n", "      task_id: id\n      action: a\n", "10:7", "no line of this mapping has action"),
        ("      task_id: id\n", "      task_id: id\n      gpu_util: a\n", "10:7", "unknown key 'gpu_util'"),
        ("task_id: id", "task_id: {field: id, unit: s}", "9:34", "task_id is no time"),
        ("task_id: id", "task_id: {field: id, quoted: true}", "9:28", "task_id is no number"),
        ("task_id: id", "task_id: {field: id, minus: x}", "9:28", "task_id is no number"),
        ("task_id: id", "task_id: {field: id, fild: id}", "9:28", "did you mean 'field'"),
        ("task_id: id", "task_id: {field: id, constant: x}", "9:16", "either field or constant"),
        ("task_id: id", "task_id: {missing: x}", "9:16", "either field or constant"),
        ("task_id: id", "task_id: []", "9:16", "at least one place"),
        ("task_id: id", "task_id: [id, null]", "9:21", "constant: null"),
        ("task_id: id", "task_id: {constant: ''}", "9:27", "task_id cannot be ''"),
        ("task_id: id", "task_id: {field: id, plus: [{field: 'a['}]}", "9:43", "not a path"),
        ("task_id: id", "task_id: &again {field: id, plus: [*again]}", None, "end here"),
        ("unit: s", "unit: minutes", "8:31", "unit 'minutes' is none of h, min, s, ms, us, ns, rfc3339"),
        ("unit: s", "unit: rfc3339, zone: Europe/Berlin", "8:46", "zone 'Europe/Berlin' is neither UTC nor an offset"),
        ("unit: s", "unit: rfc3339, zone: Europe/Berlin", "8:46", "an hour of each year would be ambiguous"),
        ("unit: s", "unit: rfc3339, zone: utc", "8:46", "neither UTC nor"),
        ("unit: s", "unit: rfc3339, zone: +24:00", "8:46", "neither UTC nor"),
        ("unit: s", "unit: rfc3339, zone: 02:00", "8:46", "neither UTC nor"),
        ("unit: s", "unit: rfc3339, zone: ''", "8:46", "neither UTC nor"),
        ("unit: s", "unit: rfc3339, zone: [UTC]", "8:46", "zone must be a single value"),
        ("unit: s", "unit: s, zone: UTC", "8:34", "needs unit: rfc3339"),
        ("unit: s", "zone: UTC", "8:25", "needs unit: rfc3339"),
        ("unit: s", "unit: rfc3339, missing: '2026-06-11 20:00:00'", "8:49", "an RFC 3339 moment with its zone"),
        ("unit: s", "unit: rfc3339, zone: UTC, missing: today", "8:60", "expected an RFC 3339 moment"),
        ("task_id: id", "task_id: {field: id, zone: UTC}", "9:28", "needs unit: rfc3339"),
        ("task_id: id", "task_id: ids[x]", "9:16", "'ids[x]' is not a path"),
        ("task_id: id", "task_id: {field: 'ids[-0]'}", "9:24", "'ids[-0]' is not a path"),
        ("task_id: id", "task_id: {field: ids[0]}", "9:27", "no valid YAML"),
        ("level: [info, null]", "'[0]': x", "5:7", "'[0]' is not a path"),
        ("unit: s", "missing: -1", "8:34", "ts_ms cannot be '-1'"),
        ("unit: s", "missing: soon", "8:34", "ts_ms cannot be 'soon'"),
        ("unit: s", 'missing: "5\\n"', "8:34", "ts_ms cannot be '5\n': expected a number"),
        ("unit: s", "otherwise: ' 5'", "8:36", "ts_ms cannot be ' 5': expected a number"),
        ("unit: s", "unit: s, missing: 0x10", "8:43", "'0x10' is not a number"),
        ("unit: s", "unit: rfc3339, missing: today", "8:49", "expected an RFC 3339 moment"),
        ("unit: s", "values: {never: ever}", "8:41", "ts_ms cannot be 'ever'"),
        ("level: [info, null]", "level: {a: b}", "5:14", "a condition is a single value"),
        ("level: [info, null]", "'a..b': x", "5:7", "not a path"),
        ("other: bad", "other: worse", "10:12", "other 'worse' is none of ignore, bad"),
        ("  - files", "    files", None, "mappings must be a list"),
    ],
)
def test_what_is_wrong_is_told_by_line_and_column(
    tmp_path: Path, was: str, now: str, place: str | None, words: str
) -> None:
    """Unknown keys, bad values and mappings that could never make a valid line are refused where they stand."""
    assert WHOLE.count(was) == 1
    with pytest.raises(ConfigError, match=re.escape(words)) as refused:
        rules(tmp_path, WHOLE.replace(was, now))
    if place is not None:
        assert f"{refused.value.line}:{refused.value.column}" == place


def test_a_path_may_hold_indexes_wherever_one_stands(tmp_path: Path) -> None:
    """In conditions, in a scalar, in a section and for the event, as a constant may stand for a moment without zone."""
    (rule,) = rules(
        tmp_path,
        WHOLE.replace("attributes.", "tags[-1].")
        .replace("event: heartbeat", "event: {field: 'e[0]', values: {beat: heartbeat}}")
        .replace("task_id: id", "task_id: [id, 'x.ids[2][0]']")
        .replace("unit: s", 'unit: rfc3339, zone: "+02:00", missing: 2026-06-11 20:00:00'),
    )
    assert rule.when[1][0] == ("tags", -1, "x.y")
    assert rule.event.path == ("e", 0)
    assert [source.path for source in rule.fields["task_id"]] == [("id",), ("x", "ids", 2, 0)]
    missing = '"2026-06-11 20:00:00"'
    assert rule.fields["ts_ms"] == (ValueSource(path=("t",), unit="rfc3339", zone_offset_s=7200, missing=missing),)


@pytest.mark.parametrize(
    ("zone", "offset_s"), [("UTC", 0), ("+00:00", 0), ("-10:30", -37_800), ('"+02:00"', 7200), ("+23:59", 86_340)]
)
def test_a_zone_is_an_offset(tmp_path: Path, zone: str, offset_s: int) -> None:
    """In quotes or not, although YAML would read +10:30 as a number."""
    (rule,) = rules(tmp_path, WHOLE.replace("unit: s", f"unit: rfc3339, zone: {zone}"))
    assert rule.fields["ts_ms"][0].zone_offset_s == offset_s


def test_where_a_field_may_be_absent_a_value_of_theirs_may_mean_that(tmp_path: Path) -> None:
    """Whatever other kinds of line ask of the field."""
    now = "task_id: id\n      output_tokens: {field: n, values: {n/a: null}}\n      run: [{constant: null}]"
    (rule,) = rules(tmp_path, WHOLE.replace("task_id: id", now))
    assert rule.fields["output_tokens"] == (ValueSource(path=("n",), words={"n/a": "null"}),)
    assert rule.fields["run"] == (ValueSource(),)
