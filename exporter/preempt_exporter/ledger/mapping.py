"""Reads lines that nobody wrote for us as lines of our own ledger, by rules that an operator wrote.

A rule builds the JSON text of a native line from what it finds, and the native decoder reads that: a mapped line can
hold nothing that a native one could not, and is bad for the same reasons. A line that is unreadable as a whole gets
the native reader's reason.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from preempt_exporter.ledger.decode import BOM, BadLine, Decoded, decode_chunk, decode_line
from preempt_exporter.ledger.exact import BLANK_BYTES, MAX_NESTING, Refused, nests_deeper, read_exactly, shortened
from preempt_exporter.ledger.line_paths import FieldPath, LinePaths, written
from preempt_exporter.ledger.mapped_value import ValueReader, Words, paths_of, value_reader, word_of
from preempt_exporter.ledger.records import EVENT_NAMES, EVENT_TYPES, MAX_LINE_BYTES, Attempt, Record
from preempt_exporter.settings import MappingRule, ValueSource

ATTEMPT: Final = "attempt"
"""How configuration names the lines that have no `event`."""

_JOB_ID: Final = b'"job_id":'

IGNORE: Final = "ignore"
"""What a rule says of values that mean nothing to us, so that they are not taken for unknown ones."""

KINDS: Final[dict[str, type[Record]]] = {ATTEMPT: Attempt, **dict(zip(EVENT_NAMES, EVENT_TYPES, strict=True))}


class MappedField(Struct, frozen=True):
    """One of our fields on one line."""

    name: str
    text: str
    """The JSON text that it was given."""
    found: str
    """What stood on the line where it was looked for, each value after its path; empty for a constant."""


class Explanation(Struct, frozen=True):
    """What became of one line."""

    place: str | None
    """Which rule took the line, as `file:line` of the configuration; None: none did."""
    kind: str | None
    """Our kind of line; None where nothing said which."""
    fields: list[MappedField]
    verdict: Record | BadLine | None
    """None: the line is ignored."""
    why_ignored: str = ""
    """What the line has where the rules look."""


class _Rule(Struct, frozen=True):
    """A rule with its paths resolved."""

    place: str
    conditions: tuple[tuple[int, Words[bool], str], ...]
    """Slot, the words that its value may be, and the written path."""
    event: ValueReader
    """To our own name of the kind."""
    said: ValueReader
    """The same as the line has it."""
    by_word: bool
    """Whether the line has our own names."""
    fields: dict[str, ValueReader]
    readers: dict[str, tuple[tuple[str, bytes, ValueReader], ...]]
    """By kind of line: name of each field, its text with colon, and how to read it."""
    origins: dict[str, str]
    """By field the places that it is looked for at, in words."""
    slots: dict[str, tuple[tuple[str, int], ...]]
    """By field the same as written path and slot."""


class _Taken(Struct, frozen=True):
    """A line that a rule has taken."""

    rule: _Rule
    kind: str
    texts: list[bytes]
    """What was found on the line."""

    def native_line(self) -> bytes | BadLine:
        """The same as a line of our own, not judged yet; bad where a value cannot be converted."""
        members = [] if self.kind == ATTEMPT else [b'"event":"%s"' % self.kind.encode()]
        try:
            for _, key, read in self.rule.readers[self.kind]:
                if text := read(self.texts):
                    members.append(key + text)
        except Refused as refused:
            return _with_origin(BadLine(reason=refused.reason, detail=refused.detail), self.rule)
        if self.kind == ATTEMPT and not any(member.startswith(_JOB_ID) for member in members):
            # Without it the line would be of no kind, though the rule has said which it is.
            return _with_origin(BadLine(reason="missing_field", detail="job_id"), self.rule)
        return b"{" + b",".join(members) + b"}"


class Mapping:
    """The rules of one ledger, in the order in which they are tried."""

    def __init__(self, rules: Sequence[MappingRule]) -> None:
        """Of `rules` the first takes a line whose conditions hold and whose event it knows."""
        self._paths = LinePaths(path for rule in rules for path in _paths(rule))
        self._rules = [_compiled(rule, self._paths.slot) for rule in rules]
        self._refuse_other = any(rule.refuse_other for rule in rules)

    def decode(self, data: bytes, *, at_file_start: bool = False) -> Decoded:
        """Decode whole lines as `decode_chunk` does. Never raises, whatever the bytes."""
        native: list[bytes] = []
        places: list[tuple[int, int, _Rule]] = []
        bad: list[BadLine] = []
        ignored = 0
        offset = len(BOM) if at_file_start and data.startswith(BOM) else 0
        for index, line in enumerate(data[offset:].split(b"\n")):
            if line.strip(BLANK_BYTES):
                taken = self._taken(line)
                ours = taken.native_line() if isinstance(taken, _Taken) else taken
                if isinstance(taken, _Taken) and isinstance(ours, bytes):
                    native.append(ours)
                    places.append((offset, index, taken.rule))
                elif isinstance(ours, BadLine):
                    bad.append(_placed(ours, offset, index))
                else:
                    ignored += 1
            offset += len(line) + 1
        # All at once, which the native decoder does several times faster than line by line.
        decoded = decode_chunk(b"\n".join(native))
        for refused in decoded.bad:
            at, index, rule = places[refused.line]
            bad.append(_placed(_with_origin(refused, rule), at, index))
        bad.sort(key=lambda line: line.line)
        return Decoded(decoded.records, bad, len(decoded.records) + len(bad) + ignored, ignored)

    def explain(self, line: bytes) -> Explanation:
        """What becomes of one line, and of what; a blank one is bad here."""
        taken = self._taken(line.removesuffix(b"\n"))
        if taken is None:
            return Explanation(None, None, [], None, self._unknown(self._paths.texts(line.lstrip(b"\0"))))
        if isinstance(taken, BadLine):
            return Explanation(None, None, [], taken)
        rule = taken.rule
        ours = taken.native_line()
        verdict = decode_line(ours) if isinstance(ours, bytes) else ours
        if isinstance(ours, bytes) and isinstance(verdict, BadLine):
            verdict = _with_origin(verdict, rule)
        return Explanation(rule.place, taken.kind, list(_explained(taken)), verdict)

    def _taken(self, line: bytes) -> _Taken | BadLine | None:
        """The line and the rule that takes it; None where no rule speaks of it and that is no fault."""
        line = line.lstrip(b"\0")
        if len(line) > MAX_LINE_BYTES or nests_deeper(line, MAX_NESTING):
            return _unreadable(line)
        try:
            texts = self._paths.texts(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return _unreadable(line)
        for rule in self._rules:
            if rule.conditions and _failing_condition(rule, texts) is not None:
                continue
            try:
                kind = _kind(rule, texts)
            except Refused as refused:
                return _with_origin(BadLine(reason=refused.reason, detail=refused.detail), rule)
            if kind == IGNORE:
                return None
            if kind is not None:
                return _Taken(rule, kind, texts)
        return self._other(texts)

    def _other(self, texts: list[bytes]) -> BadLine | None:
        if not self._refuse_other:
            return None
        for rule in self._rules:
            if rule.by_word and _failing_condition(rule, texts) is None:
                judged = decode_line(b'{"event":' + (rule.said(texts) or b"null") + b"}")
                if isinstance(judged, BadLine):
                    return _with_origin(judged, rule)
        return BadLine(reason="unknown_kind", detail=f"no rule speaks of the line: {self._unknown(texts)}")

    def _unknown(self, texts: list[bytes]) -> str:
        """What the line has where the rules look, in words."""
        said = []
        for rule in self._rules:
            slot_and_path = _failing_condition(rule, texts)
            text, path = (
                (rule.said(texts), rule.origins["event"])
                if slot_and_path is None
                else (texts[slot_and_path[0]], slot_and_path[1])
            )
            word = word_of(text)
            said.append(f"{path} is {'nested' if word is None else shortened(word) if text else 'not there'}")
        return ", ".join(dict.fromkeys(said))


def _unreadable(line: bytes) -> BadLine:
    judged = read_exactly(line)
    return judged if isinstance(judged, BadLine) else BadLine(reason="not_json", detail="not a JSON object")


def _failing_condition(rule: _Rule, texts: list[bytes]) -> tuple[int, str] | None:
    """Slot and written path of the first condition that does not hold."""
    for slot, words, path in rule.conditions:
        if not words.get(texts[slot]):
            return slot, path
    return None


def _kind(rule: _Rule, texts: list[bytes]) -> str | None:
    """Our kind of line, `IGNORE`, or None where the rule does not know the event."""
    text = rule.event(texts)
    word = None if text in (b"", b"null") else word_of(text)
    if not rule.by_word:
        return word
    if text in (b"", b"null"):
        job_id = rule.fields.get("job_id")
        return ATTEMPT if job_id is not None and job_id(texts) else None
    return word if text[:1] == b'"' and word in EVENT_NAMES else None


def _explained(taken: _Taken) -> Iterator[MappedField]:
    for name, _, read in taken.rule.readers[taken.kind]:
        found = _found(taken.rule.slots[name], taken.texts)
        try:
            if text := read(taken.texts):
                yield MappedField(name, _printable(text), found)
        except Refused as refused:
            yield MappedField(name, refused.reason, found)


def _found(slots: tuple[tuple[str, int], ...], texts: list[bytes]) -> str:
    there = ", ".join(f"{path} {_printable(texts[slot])}" for path, slot in slots if texts[slot])
    return there or ", ".join(f"{path} (not there)" for path, _ in slots)


def _printable(text: bytes) -> str:
    return text.decode(errors="backslashreplace")


def _placed(bad: BadLine, offset: int, line: int) -> BadLine:
    return BadLine(reason=bad.reason, detail=bad.detail, offset=offset, line=line)


def _with_origin(bad: BadLine, rule: _Rule) -> BadLine:
    """A bad line says where on the line the bad field was looked for."""
    name = bad.detail.partition(":")[0]
    origin = rule.origins.get(name, name)
    if origin == name:
        return bad
    return BadLine(reason=bad.reason, detail=f"{bad.detail} (from {origin})")


# --- from settings to something quick -------------------------------------------------------------------------------


def _paths(rule: MappingRule) -> list[FieldPath]:
    sources = [rule.event, *(source for sources in rule.fields.values() for source in sources)]
    return [path for path, _ in rule.when] + [path for source in sources for path in paths_of(source)]


def _compiled(rule: MappingRule, slot: Callable[[FieldPath], int]) -> _Rule:
    fields = {name: value_reader(name, sources, slot) for name, sources in rule.fields.items()}
    readers = {
        kind: tuple((name, f'"{name}":'.encode(), fields[name]) for name in struct.__struct_fields__ if name in fields)
        for kind, struct in KINDS.items()
    }
    event = said = rule.event
    if event.words:
        # A word of theirs that the rule does not name must not pass for ours because it is spelt alike.
        event = ValueSource(path=event.path, words=event.words, otherwise="null", missing="null")
        said = ValueSource(path=event.path)
    return _Rule(
        place=rule.place,
        conditions=tuple((slot(path), Words(dict.fromkeys(words, True)), written(path)) for path, words in rule.when),
        event=value_reader("event", [event], slot),
        said=value_reader("event", [said], slot),
        by_word=event.path is not None and not event.words,
        fields=fields,
        readers=readers,
        origins={name: " or ".join(map(_origin, sources)) for name, sources in rule.fields.items()}
        | {"event": _origin(rule.event)},
        slots={
            name: tuple((written(path), slot(path)) for source in sources for path in paths_of(source))
            for name, sources in rule.fields.items()
        },
    )


def _origin(source: ValueSource) -> str:
    origin = f"constant {source.constant}" if source.path is None else written(source.path)
    signed = [("+", term) for term in source.plus] + [("-", term) for term in source.minus]
    return origin + "".join(f" {sign} {_origin(term)}" for sign, term in signed)
