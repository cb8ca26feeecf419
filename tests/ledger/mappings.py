"""Mappings for tests: the one that maps our own lines onto themselves, and ones written in a line or two of YAML."""

from pathlib import Path

from hypothesis import strategies as st

from preempt_exporter.ledger.mapped_value import FIELD_TYPES, UNITS, is_time, takes_strings
from preempt_exporter.ledger.mapping import KINDS, Mapping
from preempt_exporter.mapping_section import read_mappings
from preempt_exporter.settings import MappingRule, ValueSource
from preempt_exporter.yaml_section import read_section

IDENTITY = MappingRule(
    place="test",
    files=("*",),
    event=ValueSource(path=("event",)),
    fields={name: (ValueSource(path=(name,)),) for name in FIELD_TYPES},
    refuse_other=True,
)
"""Our own lines under their own names."""


def mapping_of(folder: Path, text: str) -> Mapping:
    """The mapping of one entry of `mappings`, written without its `files`."""
    path = folder / "mapping.yml"
    path.write_text('mappings:\n  - files: "*"\n' + "".join(f"    {line}\n" for line in text.splitlines()), "utf-8")
    return Mapping(read_mappings(read_section(str(path))))


NAMES = st.sampled_from(["event", "task_id", "job_id", "ts_ms", "a", "b.c", "ключ", "attributes"])
PATHS = st.tuples(NAMES, st.lists(NAMES | st.integers(-3, 3), max_size=2)).map(lambda drawn: (drawn[0], *drawn[1]))
JSON_SCALARS = st.sampled_from(["null", "0", "5", '"x"', '"ok"', "true", "1.5"])


@st.composite
def sources(draw: st.DrawFn, field: str, depth: int = 1) -> ValueSource:
    """Any source that configuration could give `field`, and some that it could not."""
    terms = st.lists(sources(field, depth - 1), max_size=2).map(tuple) if depth else st.just(())
    return ValueSource(
        path=draw(st.none() | PATHS | st.sampled_from([(field,), (field, 0), (field, -1)])),
        constant=draw(JSON_SCALARS),
        words=draw(st.dictionaries(st.sampled_from(["null", "5", "a", "x", "true"]), JSON_SCALARS, max_size=2)),
        otherwise=draw(st.none() | JSON_SCALARS),
        missing=draw(st.none() | JSON_SCALARS),
        unit=draw(st.none() | st.sampled_from(UNITS)) if is_time(field) else None,
        zone_offset_s=draw(st.none() | st.integers(-86_340, 86_340)) if is_time(field) else None,
        quoted=draw(st.booleans()) and not takes_strings(field),
        plus=draw(terms),
        minus=draw(terms) if not takes_strings(field) else (),
    )


@st.composite
def rules(draw: st.DrawFn) -> MappingRule:
    """Any rule."""
    names = draw(st.lists(st.sampled_from(sorted(FIELD_TYPES)), unique=True, max_size=12))
    words = st.dictionaries(st.sampled_from(["a", "5", "drain", "null"]), st.sampled_from(sorted(KINDS)), max_size=3)
    event = draw(st.sampled_from(sorted(KINDS)))
    return MappingRule(
        place="test",
        files=("*",),
        when=tuple(draw(st.lists(st.tuples(PATHS, st.just(frozenset({"null", "5"}))), max_size=1))),
        event=ValueSource(constant=f'"{event}"')
        if draw(st.booleans())
        else ValueSource(path=draw(PATHS), words={word: f'"{kind}"' for word, kind in draw(words).items()}),
        fields={name: tuple(draw(st.lists(sources(name), min_size=1, max_size=2))) for name in names},
        refuse_other=draw(st.booleans()),
    )
