"""What an expression may not do: name what is not there, match what cannot match, lose what an alert needs."""

import re
from collections.abc import Iterator, Mapping

from preempt_exporter.rules_pack.kept_labels import Kept, is_scalar, kept_labels
from preempt_exporter.rules_pack.promql import (
    COMPARISONS,
    SET_OPERATORS,
    Aggregation,
    Binary,
    Call,
    Node,
    Selector,
    selectors,
    walk,
)
from preempt_exporter.rules_pack.vocabulary import LABEL_VALUES

COUNTER_FUNCTIONS = frozenset(("rate", "increase", "irate", "resets"))
GAUGE_FUNCTIONS = frozenset(("delta", "deriv", "idelta", "predict_linear"))
SHORTEST_WINDOW_S = 60
"""Four scrapes at 15 s: `rate` over less has no value as soon as one scrape fails."""

_UNIT_S = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "y": 31536000}


def seconds_of(duration: str) -> float:
    """A PromQL duration such as `1h30m` in seconds."""
    return sum(int(count) * _UNIT_S[unit] for count, unit in re.findall(r"(\d+)(ms|[smhdwy])", duration))


def expression_problems(tree: Node, metrics: Mapping[str, Kept], *, is_alert: bool) -> Iterator[str]:
    """What is wrong with an expression, given the labels of every metric that it may use."""
    for selector in selectors(tree):
        yield from _selector_problems(selector, metrics)
    for node in walk(tree):
        if isinstance(node, Aggregation):
            yield from _grouping_problems(node, metrics)
        elif isinstance(node, Binary):
            yield from _matching_problems(node, metrics)
        elif isinstance(node, Call):
            yield from _window_problems(node)
    if is_alert:
        yield from _alert_problems(tree, metrics)


def _selector_problems(selector: Selector, metrics: Mapping[str, Kept]) -> Iterator[str]:
    if selector.metric not in metrics:
        yield f"nothing exposes or records {selector.metric or 'a selector without a name'}"
        return
    for matcher in selector.matchers:
        if matcher.label not in metrics[selector.metric].maybe:
            yield f"{selector.metric} has no label {matcher.label}"
        is_pattern = matcher.operator in ("=~", "!~")
        if is_pattern and not re.search(r"[.|*+?()\[\]]", matcher.value):
            yield f"{matcher.label}{matcher.operator}{matcher.value!r} is no pattern: = or != says it"
        known = LABEL_VALUES.get((selector.metric, matcher.label))
        for value in matcher.value.split("|") if is_pattern else [matcher.value]:
            if known is not None and value not in known:
                yield f"{selector.metric} never has {matcher.label}={value!r}"


def _grouping_problems(node: Aggregation, metrics: Mapping[str, Kept]) -> Iterator[str]:
    inner = kept_labels(node.argument, metrics).maybe
    if node.grouping is None:
        yield f"{node.operation} without by () loses every label, cluster too"
        return
    for name in node.grouping.texts:
        if name not in inner:
            yield f"{node.operation} {node.grouping.keyword} ({name}): what it sums has no such label"
    if node.grouping.keyword == "by" and "cluster" in inner and "cluster" not in node.grouping.texts:
        yield f"{node.operation} by ({', '.join(node.grouping.texts)}) mixes clusters: carry cluster"


def _matching_problems(node: Binary, metrics: Mapping[str, Kept]) -> Iterator[str]:
    if is_scalar(node.left) or is_scalar(node.right):
        return
    left, right = kept_labels(node.left, metrics).maybe, kept_labels(node.right, metrics).maybe
    if node.operator.text == "or":
        return
    if node.matching is None:
        if left != right:
            different = ", ".join(sorted(left ^ right))
            yield f"the sides of {node.operator.text} differ in {different}: nothing matches without on ()"
        return
    for name in node.matching.texts:
        if name not in left or name not in right:
            yield f"{node.operator.text} {node.matching.keyword} ({name}): a side has no such label"
    if node.matching.keyword == "on" and "cluster" in left & right and "cluster" not in node.matching.texts:
        yield f"{node.operator.text} on ({', '.join(node.matching.texts)}) mixes clusters: carry cluster"


def _window_problems(node: Call) -> Iterator[str]:
    for argument in node.arguments:
        if not isinstance(argument, Selector) or argument.window is None:
            continue
        is_counter = argument.metric.endswith(("_total", "_bucket", "_sum", "_count"))
        if node.function in COUNTER_FUNCTIONS and not is_counter:
            yield f"{node.function} of {argument.metric}, which is no counter"
        if node.function in GAUGE_FUNCTIONS and is_counter:
            yield f"{node.function} of {argument.metric}, which is a counter"
        if seconds_of(argument.window.text) < SHORTEST_WINDOW_S:
            yield f"the window [{argument.window.text}] is shorter than four scrapes of 15 s"


def _alert_problems(tree: Node, metrics: Mapping[str, Kept]) -> Iterator[str]:
    conditions = [
        node
        for node in walk(tree)
        if (isinstance(node, Binary) and (node.operator.text in COMPARISONS | SET_OPERATORS - {"or"}))
        or (isinstance(node, Call) and node.function in ("absent", "absent_over_time"))
    ]
    if not conditions:
        yield "no comparison in it: it fires for as long as there are data"
    kept = kept_labels(tree, metrics).maybe
    if "cluster" not in kept:
        yield "loses cluster"
    if "instance" in kept and "task_id" not in kept:
        yield "keeps instance: a replaced exporter would resolve and fire again"
