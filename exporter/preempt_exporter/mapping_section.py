"""Reads `mappings` of the configuration file: how lines that nobody wrote for us are read as lines of a ledger."""

import difflib
from functools import partial
from pathlib import Path
from typing import NoReturn

import msgspec

from preempt_exporter.ledger.line_paths import FieldPath, parse_path
from preempt_exporter.ledger.mapped_value import (
    FIELD_TYPES,
    UNITS,
    is_number,
    is_time,
    json_text,
    offset_s_of,
    takes_strings,
)
from preempt_exporter.ledger.mapping import IGNORE, KINDS
from preempt_exporter.settings import MappingRule, ValueSource
from preempt_exporter.yaml_section import Scalar, Section

MAX_DEPTH = 8
ENTRY_KEYS = ("files", "when", "event", "fields", "other")
VALUE_KEYS = ("field", "constant", "values", "otherwise", "missing", "unit", "zone", "quoted", "plus", "minus")


def read_mappings(root: Section) -> tuple[MappingRule, ...]:
    """The rules in the file's order; `ConfigError` names the place of what is wrong."""
    return tuple(_rule(entry) for entry in root.sections("mappings"))


def _rule(entry: Section) -> MappingRule:
    entry.refuse_unknown(ENTRY_KEYS)
    for key in ("files", "event"):
        if not entry.has(key):
            entry.fail_here(f"every entry of mappings needs {key}")
    fields = entry.section("fields")
    fields.refuse_unknown(tuple(FIELD_TYPES))
    if not entry.text_or_texts("files"):
        entry.fail("files", "an empty list matches nothing")
    rule = MappingRule(
        place=f"{entry.path}:{entry.place('files')[0]}",
        files=tuple(_glob(entry, text) for text in entry.text_or_texts("files")),
        when=_conditions(entry.section("when")),
        event=_event(entry),
        fields={name: _sources(fields, name) for name in fields.names()},
        refuse_other=entry.choice("other", ("ignore", "bad")) == "bad",
    )
    _refuse_what_cannot_be(rule, entry, fields)
    return rule


def _glob(entry: Section, text: str) -> str:
    """Relative to the working directory, as arguments are; a bare name matches in any folder."""
    if not text:
        entry.fail("files", "an empty name matches nothing")
    return str(Path.cwd() / text) if "/" in text else text


def _conditions(when: Section) -> tuple[tuple[FieldPath, frozenset[str]], ...]:
    conditions = []
    for key in when.names():
        words = [_word(part) for part in when.parts(key)]
        if not words:
            when.fail(key, "a condition without a value never holds")
        conditions.append((_path(when, key, key, at_key=True), frozenset(words)))
    return tuple(conditions)


def _word(part: Scalar | Section) -> str:
    if isinstance(part, Section):
        part.fail_here("a condition is a single value or a list of them")
    return "null" if part.text is None else part.text


def _event(entry: Section) -> ValueSource:
    parts = entry.parts("event")
    if len(parts) != 1:
        entry.fail("event", "event is one of our kinds of line, or a field that says which")
    part = parts[0]
    if isinstance(part, Scalar):
        return ValueSource(constant=_kind_text(part.text or "", part))
    part.refuse_unknown(("field", "values"))
    if not part.has("field"):
        part.fail_here("event needs the field that says which kind of line it is")
    values = part.section("values")
    if "values" in part.names() and not values.names():
        part.fail("values", "values names no kind of line; leave it out where the field holds our own names")
    words = {}
    for word in values.names():
        kinds = values.parts(word)
        if len(kinds) != 1 or not isinstance(kinds[0], Scalar):
            values.fail(word, f"{word!r} must be one of our kinds of line")
        words[word] = _kind_text(kinds[0].text or "", kinds[0])
    return ValueSource(path=_path(part, "field", part.text("field") or ""), words=words)


def _kind_text(kind: str, part: Scalar) -> str:
    kinds = (*KINDS, IGNORE)
    if kind not in kinds:
        close = difflib.get_close_matches(kind, kinds, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(kinds)}"
        part.fail(f"{kind!r} is none of our kinds of line; {hint}")
    return msgspec.json.encode(kind).decode()


def _sources(fields: Section, name: str) -> tuple[ValueSource, ...]:
    sources = tuple(_source(name, part) for part in fields.parts(name))
    if not sources:
        fields.fail(name, f"{name} needs at least one place to look at")
    return sources


def _source(field: str, part: Scalar | Section, depth: int = 0) -> ValueSource:
    if isinstance(part, Scalar):
        if part.text is None:
            part.fail(f"{field}: write the field to look at, or {{constant: null}}")
        try:
            return ValueSource(path=parse_path(part.text))
        except ValueError as error:
            part.fail(str(error))
    if depth > MAX_DEPTH:  # an alias of YAML may lead back to itself
        part.fail_here(f"{field}: sums of sums of sums end here")
    part.refuse_unknown(VALUE_KEYS)
    if part.has("field") == ("constant" in part.names()):
        part.fail_here(f"{field} needs either field or constant")
    unit = part.choice("unit", UNITS)
    if unit is not None and not is_time(field):
        part.fail("unit", f"{field} is no time, and has no unit")
    zone_offset_s = _zone_offset_s(part, unit)
    quoted = part.flag("quoted", default=False)
    values = part.section("values")
    text = partial(_text, field, unit=unit, zone_offset_s=zone_offset_s, is_part=depth > 0 or part.has("plus"))
    source = ValueSource(
        path=_path(part, "field", part.text("field") or "") if part.has("field") else None,
        constant=text(part, "constant") or "null",
        words={word: text(values, word) or "null" for word in values.names()},
        otherwise=text(part, "otherwise"),
        missing=text(part, "missing"),
        unit=unit,
        zone_offset_s=zone_offset_s,
        quoted=quoted,
        plus=tuple(_source(field, term, depth + 1) for term in part.parts("plus")),
        minus=tuple(_source(field, term, depth + 1) for term in part.parts("minus")),
    )
    if not is_number(field):
        if quoted or source.minus:
            part.fail("quoted" if quoted else "minus", f"{field} is no number", at_key=True)
        if source.plus and not takes_strings(field):
            part.fail("plus", f"{field} can be neither added up nor joined", at_key=True)
    return source


def _zone_offset_s(part: Section, unit: str | None) -> int | None:
    if not part.has("zone"):
        return None
    if unit != "rfc3339":
        part.fail("zone", "zone says what a moment without a zone means, and needs unit: rfc3339", at_key=True)
    try:
        return offset_s_of(part.text("zone") or "")
    except ValueError as error:
        part.fail("zone", str(error))


def _text(
    field: str, section: Section, key: str, unit: str | None, zone_offset_s: int | None, *, is_part: bool
) -> str | None:
    """The JSON text of the value at `key`; None where the key is not there."""
    if key not in section.names():
        return None
    try:
        return json_text(field, section.text(key), unit, zone_offset_s, is_part=is_part)
    except ValueError as error:
        section.fail(key, str(error))


def _path(section: Section, key: str, text: str, *, at_key: bool = False) -> FieldPath:
    try:
        return parse_path(text)
    except ValueError as error:
        section.fail(key, str(error), at_key=at_key)


def _refuse_what_cannot_be(rule: MappingRule, entry: Section, fields: Section) -> None:
    """A kind of line whose required fields have no place, and a field that no kind of this rule reads."""
    texts = rule.event.words.values() if rule.event.path is not None else (rule.event.constant,)
    kinds = [kind for kind in (str(msgspec.json.decode(text)) for text in texts) if kind != IGNORE]
    for kind in kinds:
        required = _required(kind)
        missing = [name for name in required if name not in rule.fields]
        if missing:
            _fail_incomplete(entry, kind, missing)
        for name, may_be_null in required.items():
            if not may_be_null and all(_is_null(source) for source in rule.fields[name]):
                fields.fail(name, f"{name} of {kind} lines cannot be null")
    if kinds:
        known = {name for kind in kinds for name in KINDS[kind].__struct_fields__}
        for name in rule.fields:
            if name not in known:
                fields.fail(name, f"no line of this mapping has {name}", at_key=True)


def _required(kind: str) -> dict[str, bool]:
    """The fields that every line of the kind has, and whether they may be null."""
    described = msgspec.inspect.type_info(KINDS[kind])
    assert isinstance(described, msgspec.inspect.StructType)
    return {field.name: _takes_null(field.type) for field in described.fields if field.required}


def _takes_null(kind: msgspec.inspect.Type) -> bool:
    return isinstance(kind, msgspec.inspect.UnionType) and kind.includes_none


def _is_null(source: ValueSource) -> bool:
    return source.path is None and source.constant == "null"


def _fail_incomplete(entry: Section, kind: str, missing: list[str]) -> NoReturn:
    entry.fail(
        "event",
        f"{kind} lines need {', '.join(missing)} in fields; what the lines do not say can be a constant, such as "
        f"{missing[0]}: {{constant: …}}",
    )
