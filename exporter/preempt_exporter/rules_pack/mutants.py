"""Changes a rule in one place at a time: what a slip of the pen would do to it.

Each mutant is the rule with one comparator, number, window, hold, label, matcher, join, aggregation, severity or action
changed. Tests that cannot tell a mutant from the rule do not test that part of it.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from preempt_exporter.rules_pack.promql import (
    COMPARISONS,
    Aggregation,
    Binary,
    Labels,
    Matcher,
    Node,
    Number,
    Selector,
    Token,
    parse,
    walk,
)
from preempt_exporter.rules_pack.vocabulary import ACTIONS

_BOUNDARY = {">": ">=", ">=": ">", "<": "<=", "<=": "<", "==": "!=", "!=": "=="}
_TURNED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}
_ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*"}
_AGGREGATION = {"sum": "max", "max": "min", "min": "max", "count": "sum"}
_FUNCTION = {"max_over_time": "min_over_time", "increase": "delta", "last_over_time": "min_over_time"}
_JOIN = {"and": "unless", "unless": "and"}


class Mutant(Struct, frozen=True):
    """A rule with one change; `name` says which rule and what, and is the same every time."""

    name: str
    rule: dict[str, Any]


class _Change(Struct, frozen=True):
    """Replace `start` to `end` of an expression by `text`."""

    start: int
    end: int
    text: str
    what: str


def mutants_of(rule: dict[str, Any]) -> list[Mutant]:
    """Every mutant of a rule as it stands in a rule file."""
    title = str(rule.get("alert") or rule["record"])
    if "alert" in rule:
        title += f" ({rule['labels']['severity']})"
    expression = str(rule["expr"])
    made: list[tuple[str, dict[str, Any]]] = []
    for node in walk(parse(expression)):
        for change in _changes(node, expression):
            changed = expression[: change.start] + change.text + expression[change.end :]
            made.append((change.what, rule | {"expr": changed}))
    for key in ("for", "keep_firing_for"):
        if key in rule:
            made += ((f"{key} {rule[key]} to {text}", rule | {key: text}) for text in _other_durations(str(rule[key])))
    if "alert" in rule:
        labels = rule["labels"]
        other = "ticket" if labels["severity"] == "page" else "page"
        made.append((f"severity to {other}", rule | {"labels": labels | {"severity": other}}))
        next_action = ACTIONS[(ACTIONS.index(labels["action"]) + 1) % len(ACTIONS)]
        made.append((f"action to {next_action}", rule | {"labels": labels | {"action": next_action}}))
    seen: Counter[str] = Counter()
    mutants = []
    for what, changed_rule in made:
        seen[what] += 1
        mutants.append(Mutant(f"{title}: {what}" + (f" #{seen[what]}" if seen[what] > 1 else ""), changed_rule))
    return mutants


def _changes(node: Node, expression: str) -> Iterator[_Change]:
    if isinstance(node, Number):
        for text in _other_numbers(node.text):
            yield _Change(node.start, node.end, text, f"number {node.text} to {text}")
    elif isinstance(node, Selector):
        yield from _selector_changes(node)
    elif isinstance(node, Binary):
        yield from _operator_changes(node, expression)
        if node.matching is not None:
            yield from _without_a_label(node.matching)
    elif isinstance(node, Aggregation):
        if node.operation in _AGGREGATION:
            other = _AGGREGATION[node.operation]
            end = node.start + len(node.operation)
            yield _Change(node.start, end, other, f"{node.operation} to {other} of {_short(expression, node)}")
        if node.grouping is not None:
            yield from _without_a_label(node.grouping)


def _selector_changes(node: Selector) -> Iterator[_Change]:
    for matcher in node.matchers:
        yield _Change(matcher.start, matcher.end, "", f"{node.metric} without {matcher.label}")
        yield from _pattern_changes(node, matcher)
    for span, kind in ((node.window, "window"), (node.offset, "offset")):
        if span is not None:
            for text in _other_durations(span.text):
                yield _Change(span.start, span.end, text, f"{kind} {span.text} of {node.metric} to {text}")


def _pattern_changes(node: Selector, matcher: Matcher) -> Iterator[_Change]:
    choices = matcher.value.split("|")
    if matcher.operator != "=~" or len(choices) == 1:
        return
    for choice in choices:
        rest = "|".join(other for other in choices if other != choice)
        text = f'{matcher.label}=~"{rest}"'
        yield _Change(matcher.start, matcher.end, text, f"{node.metric} without {matcher.label} {choice}")


def _operator_changes(node: Binary, expression: str) -> Iterator[_Change]:
    operator = node.operator
    sides = f"after {_short(expression, node.left)}"
    if operator.text in COMPARISONS:
        for table in (_BOUNDARY, _TURNED):
            if operator.text in table:
                yield _replaced(operator, table[operator.text], sides)
    elif operator.text in _ARITHMETIC:
        yield _replaced(operator, _ARITHMETIC[operator.text], sides)
    elif operator.text in _JOIN:
        yield _replaced(operator, _JOIN[operator.text], sides)
    if operator.text in ("and", "unless", "or"):
        left, right = expression[node.left.start : node.left.end], expression[node.right.start : node.right.end]
        yield _Change(node.start, node.end, left, f"{operator.text} {sides}: left side alone")
        if operator.text == "or":
            yield _Change(node.start, node.end, right, f"or {sides}: right side alone")


def _replaced(operator: Token, text: str, sides: str) -> _Change:
    return _Change(operator.start, operator.end, text, f"{operator.text} to {text} {sides}")


def _without_a_label(labels: Labels) -> Iterator[_Change]:
    for dropped in labels.texts:
        rest = ", ".join(name for name in labels.texts if name != dropped)
        text = f"{labels.keyword} ({rest})"
        yield _Change(labels.start, labels.end, text, f"{labels.keyword} ({', '.join(labels.texts)}) without {dropped}")


def _other_numbers(text: str) -> tuple[str, str]:
    value = float(text)
    if value == 0:
        return ("1", "-1")
    step = 1 if value.is_integer() else value / 20
    return (f"{value + step:.12g}", f"{value - step:.12g}")


def _other_durations(text: str) -> tuple[str, ...]:
    if float(re.sub(r"\D", "", text)) == 0:
        return ("1m",)
    doubled = re.sub(r"\d+", lambda found: str(int(found.group()) * 2), text, count=1)
    number, unit = re.fullmatch(r"(\d+)(\w+)", text).groups()  # type: ignore[union-attr]
    smaller = {"d": ("h", 24), "h": ("m", 60), "m": ("s", 60)}
    halved = f"{int(number) * smaller[unit][1] // 2}{smaller[unit][0]}" if unit in smaller else "0s"
    return (doubled, halved)


def _short(expression: str, node: Node) -> str:
    text = " ".join(expression[node.start : node.end].split())
    return text if len(text) <= 40 else text[:37] + "..."
