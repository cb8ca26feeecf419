"""Which labels the result of an expression carries, from the labels that its metrics have.

After Prometheus' documentation of vector matching and aggregation.
"""

from collections.abc import Mapping

from msgspec import Struct

from preempt_exporter.metrics.families import FAMILIES
from preempt_exporter.rules_pack.promql import (
    SET_OPERATORS,
    Aggregation,
    Binary,
    Call,
    Negative,
    Node,
    Parenthesis,
    Selector,
)

TARGET_LABELS = frozenset(("job", "instance", "cluster"))
"""What Prometheus, or the operator's scrape configuration, adds to every series of a target."""
_HISTOGRAM_PARTS = ("_bucket", "_sum", "_count")


class Kept(Struct, frozen=True):
    """Labels of a result: `sure` are always there, `maybe` may be (one branch of an `or`, no `run`, no `cluster`)."""

    sure: frozenset[str]
    maybe: frozenset[str]


NOTHING = Kept(frozenset(), frozenset())


def labels_of_metrics() -> dict[str, Kept]:
    """The labels of each metric of the exporter as Prometheus holds it, and of `up`; histograms by their parts."""
    labels = {"up": _stored(frozenset())}
    for family in FAMILIES:
        own = frozenset(family.labels)
        if family.kind == "histogram":
            for part in _HISTOGRAM_PARTS:
                labels[family.name + part] = _stored(own | {"le"} if part == "_bucket" else own)
        else:
            labels[family.name] = _stored(own)
    return labels


def kept_labels(node: Node, metrics: Mapping[str, Kept]) -> Kept:
    """The labels of the expression's result; `metrics` holds those of every metric it may use."""
    if isinstance(node, Selector):
        return metrics.get(node.metric, NOTHING)
    if isinstance(node, Call):
        return _of_call(node, metrics)
    if isinstance(node, Aggregation):
        return _of_aggregation(node, metrics)
    if isinstance(node, Negative | Parenthesis):
        return kept_labels(node.argument, metrics)
    if isinstance(node, Binary):
        return _of_binary(node, metrics)
    return NOTHING


def is_scalar(node: Node) -> bool:
    """True if no selector is in it: a number, `time()`."""
    if isinstance(node, Binary):
        return is_scalar(node.left) and is_scalar(node.right)
    if isinstance(node, Negative | Parenthesis):
        return is_scalar(node.argument)
    return not isinstance(node, Selector | Aggregation) and (not isinstance(node, Call) or not node.arguments)


def _stored(own: frozenset[str]) -> Kept:
    everything = own | TARGET_LABELS
    optional = {"cluster", "run"} if "task_id" in own else {"cluster"}
    return Kept(everything - optional, everything)


def _of_call(node: Call, metrics: Mapping[str, Kept]) -> Kept:
    if node.function in ("absent", "absent_over_time") and isinstance(node.arguments[0], Selector):
        equal = frozenset(matcher.label for matcher in node.arguments[0].matchers if matcher.operator == "=")
        return Kept(equal, equal)
    vectors = [argument for argument in node.arguments if not is_scalar(argument)]
    if not vectors:
        return NOTHING
    kept = kept_labels(vectors[0], metrics)
    if node.function == "histogram_quantile":
        return Kept(kept.sure - {"le"}, kept.maybe - {"le"})
    return kept


def _of_aggregation(node: Aggregation, metrics: Mapping[str, Kept]) -> Kept:
    inner = kept_labels(node.argument, metrics)
    if node.grouping is None:
        return NOTHING
    named = frozenset(node.grouping.texts)
    if node.grouping.keyword == "by":
        return Kept(inner.sure & named, inner.maybe & named)
    return Kept(inner.sure - named, inner.maybe - named)


def _of_binary(node: Binary, metrics: Mapping[str, Kept]) -> Kept:
    left, right = kept_labels(node.left, metrics), kept_labels(node.right, metrics)
    if node.operator.text == "or":
        return Kept(left.sure & right.sure, left.maybe | right.maybe)
    if node.operator.text in SET_OPERATORS or is_scalar(node.right):
        return left
    if is_scalar(node.left):
        return right
    many = right if node.group == "group_right" else left
    if node.group:
        return Kept(many.sure | frozenset(node.included), many.maybe | frozenset(node.included))
    if node.matching is None:
        return left
    named = frozenset(node.matching.texts)
    if node.matching.keyword == "on":
        return Kept(left.sure & named, left.maybe & named)
    return Kept(left.sure - named, left.maybe - named)
