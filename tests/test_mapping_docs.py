"""docs/mapping.md and the code say the same."""

import re
from pathlib import Path

from preempt_exporter.ledger.mapped_value import UNITS
from preempt_exporter.ledger.mapping import KINDS, Mapping
from preempt_exporter.mapping_section import ENTRY_KEYS, VALUE_KEYS, read_mappings
from preempt_exporter.yaml_section import read_section

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "mapping.md").read_text(encoding="utf-8")


def test_every_key_and_unit_is_documented() -> None:
    """Each key of an entry and of a value stands in a table of the page, and no other; each unit is named."""
    in_tables = re.findall(r"^\| (`[a-z`, ]+`) \|", PAGE, re.MULTILINE)
    keys = [key for cell in in_tables for key in re.findall(r"`([a-z]+)`", cell)]
    assert sorted(keys) == sorted([*ENTRY_KEYS, *VALUE_KEYS])
    assert [unit for unit in UNITS if f"`{unit}`" not in PAGE] == []


def test_the_example_on_the_page_is_a_mapping(tmp_path: Path) -> None:
    """What the page shows first is read without complaint and maps a line."""
    config = tmp_path / "config.yml"
    config.write_text(PAGE.split("```yaml\n")[1].split("```")[0])
    (rule,) = read_mappings(read_section(str(config)))
    line = b'{"ts":1781168401.0,"msg":"task enqueued","task":{"id":"t-17"}}'
    assert isinstance(Mapping([rule]).decode(line).records[0], KINDS["enqueue"])
