"""What alerts say to people."""

import re

from preempt_exporter.rules_pack.pack import rule_files
from preempt_exporter.rules_pack.rule_file import read_rules

WORDS_OF_ANY_NUMBER = {"drained", "silent"}
WORDS_OF_THOUSANDS = {"tokens", "restart"}
"""What a task has too many of, and never one."""


def test_a_count_suits_one_as_well_as_many() -> None:
    """No alert ever tells of "1 live tasks": a count stands behind what it counts."""
    counts = re.compile(r"\{\{\s*\$value\s*\|\s*humanize\s*\}\}\s+(?:of the )?(\w+)")
    after = {
        (rule.name, annotation): found
        for rule in read_rules(rule_files())
        if rule.is_alert
        for annotation, text in rule.annotations.items()
        if (found := set(counts.findall(text)) - WORDS_OF_ANY_NUMBER - WORDS_OF_THOUSANDS)
    }
    assert after == {}
