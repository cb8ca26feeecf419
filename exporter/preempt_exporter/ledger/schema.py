"""JSON Schema of one ledger line, generated from the types: `python -m preempt_exporter.ledger.schema > FILE`.

The schema is what a writer in another language should produce. Readers accept a little more (`exact` says what), and a
schema counts characters where the ledger's limits are bytes.
"""

import json
import sys
from typing import Any

import msgspec

from preempt_exporter.ledger.exact import INTEGER_NAMES
from preempt_exporter.ledger.records import EVENT_TYPES, MAX_EXACT_INTEGER, Attempt

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def ledger_line_schema() -> dict[str, Any]:
    """The schema of one line, as a JSON object."""
    kinds = (*EVENT_TYPES, Attempt)
    references, definitions = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    definitions[Attempt.__name__]["not"] = {"required": ["event"]}
    for definition in definitions.values():
        for name, schema in definition["properties"].items():
            if name in INTEGER_NAMES:
                _admit_integers(schema)
    return {
        "$schema": DIALECT,
        "title": "A line of a preemption ledger",
        "oneOf": list(references),
        "$defs": definitions,
    }


def _admit_integers(schema: dict[str, Any]) -> None:
    for option in schema.get("anyOf", [schema]):
        if option["type"] == "string":
            option |= {"type": ["string", "integer"], "minimum": -MAX_EXACT_INTEGER, "maximum": MAX_EXACT_INTEGER}


def ledger_line_schema_text() -> str:
    """The schema as the text that is committed."""
    return json.dumps(ledger_line_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(ledger_line_schema_text())
