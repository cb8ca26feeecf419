"""What a template in an annotation may not do: promtool passes broken ones, and labels that are not there."""

import re
from collections.abc import Iterator

from preempt_exporter.rules_pack.kept_labels import Kept

KNOWN_FUNCTIONS = frozenset(
    (
        *("humanize", "humanize1024", "humanizeDuration", "humanizePercentage", "reReplaceAll"),
        *("printf", "urlquery", "with", "if", "else", "end"),
    )
)
"""Functions that Prometheus 2.42 and later and vmalert all have, as far as the pack uses them."""

MILLISECONDS_TO_SECONDS = 'reReplaceAll "([0-9]{3})$" ".$1" (printf "%05.0f" $value)'
"""Puts the decimal point into a number of milliseconds; templates cannot divide."""

_ACTION = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)


def template_problems(text: str, kept: Kept, *, in_milliseconds: bool) -> Iterator[str]:
    """What is wrong with a template of an alert whose result carries `kept` and is in milliseconds or not."""
    if text.count("{{") != text.count("}}"):
        yield "braces do not pair"
    depth = 0
    for found in _ACTION.finditer(text):
        action = found.group(1).strip()
        words = re.sub(r'"(?:[^"\\]|\\.)*"', '""', action)
        opens = words.startswith(("with ", "if "))
        depth += opens - (words == "end")
        for label in re.findall(r"\$labels\.(\w+)", words):
            if label not in kept.maybe:
                yield f"$labels.{label} is always empty: the expression does not keep it"
            elif label not in kept.sure and not opens and "urlquery" not in words:
                yield f"$labels.{label} may be empty: put it into a with"
        bare = re.sub(r"\$\w+(\.\w+)*|\"\"|[().|\s]+", " ", words)
        for word in bare.split():
            if word not in KNOWN_FUNCTIONS:
                yield f"{word} is not a template function that every engine has"
        if "humanizeDuration" in words and in_milliseconds and MILLISECONDS_TO_SECONDS not in action:
            yield "humanizeDuration takes seconds, and the value is in milliseconds"
    if depth:
        yield "a with or if has no end"
