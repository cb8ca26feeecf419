"""Our own lint of the rules pack: names, labels, templates, runbooks, and that all of these agree."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from preempt_exporter.promtool import Problem
from preempt_exporter.rules_pack.kept_labels import Kept, kept_labels, labels_of_metrics
from preempt_exporter.rules_pack.lint_expressions import expression_problems
from preempt_exporter.rules_pack.lint_templates import template_problems
from preempt_exporter.rules_pack.promql import Binary, Node, Parenthesis, PromqlError, Selector, parse
from preempt_exporter.rules_pack.rule_file import Rule, read_rules
from preempt_exporter.rules_pack.vocabulary import ACTIONS, ANNOTATIONS, SEVERITIES

RECORD_NAME = re.compile(r"[a-z0-9_]+:[a-z0-9_]+:[a-z0-9_]+")
"""`level:metric:operations`."""
ALERT_KEYS = frozenset(("alert", "expr", "for", "keep_firing_for", "labels", "annotations"))
RUNBOOK_ACTION = re.compile(r"^Action: `(\w+)`", re.MULTILINE)


def lint_pack(rule_paths: Sequence[Path], runbooks: Path) -> list[Problem]:
    """Every problem of the pack's rules and runbooks. Raises `UnreadableInput`."""
    rules = read_rules(rule_paths)
    return [*lint_rules(rules), *lint_runbooks(rules, runbooks)]


def lint_rules(rules: Sequence[Rule]) -> list[Problem]:
    """Problems of the rules themselves. Recorded series are known once the rule that records them was read."""
    problems: list[Problem] = []
    metrics = labels_of_metrics()
    groups: dict[str, Path] = {}
    for rule in rules:
        if groups.setdefault(rule.group, rule.path) != rule.path:
            problems.append(Problem(rule.where, f"the group {rule.group} is in {groups[rule.group]} too"))
        problems += (Problem(rule.where, what) for what in _rule_problems(rule, metrics))
    return problems


def lint_runbooks(rules: Iterable[Rule], folder: Path) -> list[Problem]:
    """Alert, runbook and action go together one to one: a page per alert that names its action, and no other."""
    actions: dict[str, set[str]] = {}
    for rule in rules:
        if rule.is_alert:
            actions.setdefault(rule.name, set()).add(rule.labels.get("action", ""))
    pages = {path.stem: path for path in folder.glob("*.md") if path.stem != "README"}
    problems = [Problem(f"{folder / name}.md", "there is no such runbook") for name in sorted(actions.keys() - pages)]
    problems += [Problem(str(pages[name]), "no alert has this name") for name in sorted(pages.keys() - actions)]
    for name in sorted(actions.keys() & pages):
        told = RUNBOOK_ACTION.findall(pages[name].read_text(encoding="utf-8"))
        if set(told) != actions[name] or len(told) != 1:
            problems.append(Problem(str(pages[name]), f"says action {told}, the alert {sorted(actions[name])}"))
    return problems


def _rule_problems(rule: Rule, metrics: dict[str, Kept]) -> Iterator[str]:
    try:
        tree = parse(rule.expression)
    except PromqlError as error:
        yield f"not an expression that we read: {error}"
        return
    kept = kept_labels(tree, metrics)
    yield from expression_problems(tree, metrics, is_alert=rule.is_alert)
    if rule.is_alert:
        yield from _alert_problems(rule)
        for name, text in rule.annotations.items():
            for what in template_problems(text, kept, in_milliseconds=_in_milliseconds(tree)):
                yield f"{name}: {what}"
        return
    if not RECORD_NAME.fullmatch(rule.name):
        yield "a recording rule is named level:metric:operations"
    metrics[rule.name] = kept


def _alert_problems(rule: Rule) -> Iterator[str]:
    for key in sorted(ALERT_KEYS ^ rule.keys):
        yield f"{key} is missing" if key in ALERT_KEYS else f"{key} has no place in an alert"
    if rule.labels.keys() != {"severity", "action"}:
        yield f"labels are severity and action, not {', '.join(sorted(rule.labels))}"
    if rule.labels.get("severity") not in SEVERITIES:
        yield f"severity is one of {', '.join(SEVERITIES)}"
    if rule.labels.get("action") not in ACTIONS:
        yield f"action is one of {', '.join(ACTIONS)}"
    if tuple(sorted(rule.annotations)) != tuple(sorted(ANNOTATIONS)):
        yield f"annotations are {', '.join(ANNOTATIONS)}"
    if not rule.annotations.get("runbook_url", "").endswith(f"/{rule.name}.md"):
        yield f"runbook_url does not end in /{rule.name}.md"


def _in_milliseconds(tree: Node) -> bool:
    """The value of a filter is its left side's; a name tells its unit."""
    while isinstance(tree, Binary | Parenthesis):
        tree = tree.left if isinstance(tree, Binary) else tree.argument
    return isinstance(tree, Selector) and tree.metric.endswith("_ms")
