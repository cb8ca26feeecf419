"""Which regular expressions Prometheus takes, held against promtool."""

import json
import os
from pathlib import Path

import pytest

from preempt_exporter.promtool import check_rules, find_promtool
from preempt_exporter.rules_pack.re2 import is_re2

TAKEN = (
    *(
        "",
        "eu-.*",
        "a|b|",
        "()",
        "[]a]",
        "[^]a]",
        "{",
        "a{x}",
        "a{,3}",
        "a{1000}",
        "a*?",
        "a??",
        "a{2}?",
        "é",
        r"\-",
        r"\_",
    ),
    *("(?i)eu", "eu(?i)us", "(?-i)a", "(?i:a)", "(?U)a+", "(?s-m:a)", "(?P<n>a)", "[[:alpha:]]", "[[:^digit:]x]"),
    *(r"\d+\.\w", r"\pL", r"[\pL]", r"\p{Greek}", r"\z", r"\Qa+(b\E", r"\x41", r"\x{41}", r"\012", r"\12", r"\b"),
)
REFUSED = (
    *("(", "a)", "[a", "[z-a]", "*", "a**", "a|*", "a{2}{3}", "a{2,1}", "a{1001}", "a\\", "(?i", "[[:foo:]]"),
    *(
        "(?=a)",
        "(?!a)",
        "(?<=a)b",
        "(?<!a)b",
        "(?>a)",
        "(?#c)",
        "(?x)a",
        "(?P<n>a)(?P=n)",
        r"(a)\1",
        "a*+",
        "a++",
        "a{2}+",
    ),
    *(r"a\Z", r"\u0041", r"\é", r"\q", r"\C", r"\8", r"\N{DASH}"),
)


@pytest.mark.parametrize(
    ("pattern", "taken"), [*((each, True) for each in TAKEN), *((each, False) for each in REFUSED)]
)
def test_it_judges_as_promtool_does(tmp_path: Path, pattern: str, taken: bool) -> None:
    """What one takes the other takes."""
    path = tmp_path / "rules.yml"
    rule = {"record": "x:y", "expr": f"a{{b=~{json.dumps(pattern, ensure_ascii=False)}}}"}
    path.write_text(json.dumps({"groups": [{"name": "g", "rules": [rule]}]}), encoding="utf-8")
    assert check_rules(find_promtool(os.environ), [path]).ok is taken
    assert is_re2(pattern) is taken


def test_a_pattern_beyond_measure_is_refused() -> None:
    """Nothing that a person can type ends in a traceback."""
    assert not is_re2("(" * 10_000 + ")" * 10_000)
    assert not is_re2("a{" + "9" * 5000 + "}")
