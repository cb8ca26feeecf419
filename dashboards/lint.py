"""Holds a dashboard against the 17 rules of Grafana's dashboard-linter: `python -m dashboards.lint [FILE]`.

The rules are those of its documentation, by the same names, and exceptions stand in its own `.lint` file. Where it
checks some kinds of panel only, ours checks all of them. Two rules are about LogQL, of which this dashboard has none:
a query to anything but Prometheus is refused by both.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from preempt_exporter.rules_pack.promql import Call, Node, PromqlError, Selector, children, parse, selectors

HERE = Path(__file__).parent
RATE_INTERVAL = "7919s"
"""Stands for `$__rate_interval`, so that no other window can pass for it."""
RATES = ("rate", "irate", "increase")
# Of Grafana's value formats, those that mean something for what this program measures.
UNITS = frozenset(("none", "short", "percent", "percentunit", "bytes", "decbytes", "Bps", "ms", "s", "ops", "cps"))
VARIABLE_FUNCTIONS = ("label_names", "label_values", "metrics", "query_result")

Json = dict[str, Any]


@dataclass(frozen=True)
class Problem:
    """What a rule says about a place."""

    rule: str
    panel: str
    target: int | None
    message: str

    def __str__(self) -> str:
        """One line."""
        place = f"{self.panel}: " if self.panel else ""
        return f"{self.rule}: {place}{f'query {self.target}: ' if self.target is not None else ''}{self.message}"


def problems(board: Json, exceptions: Json | None = None) -> list[Problem]:
    """What is wrong with a dashboard, less what `exceptions` (a `.lint` file) allow; unneeded exceptions are wrong."""
    found = [
        *(Problem(rule, "", None, message) for rule, check in BOARD_RULES.items() for message in check(board)),
        *(
            Problem(rule, panel.get("title", ""), None, message)
            for panel in panels(board)
            for rule, check in PANEL_RULES.items()
            for message in check(panel)
        ),
        *(
            Problem(rule, panel.get("title", ""), at, message)
            for panel in panels(board)
            for at, target in enumerate(panel.get("targets", []))
            for rule, check in TARGET_RULES.items()
            for message in check(target)
        ),
    ]
    left = []
    used = set()
    allowed = list(_exceptions(exceptions or {}))
    for problem in found:
        fitting = [entry for entry in allowed if _fits(entry, problem)]
        used.update(fitting)
        left += [problem] * (not fitting)
    return left + [
        Problem(rule, panel, target, "this exception is no longer needed")
        for rule, panel, target in allowed
        if (rule, panel, target) not in used
    ]


def panels(board: Json) -> Iterator[Json]:
    """Every panel that is not a row, those in collapsed rows too."""
    for panel in board.get("panels", []):
        if panel.get("type") == "row":
            yield from panels(panel)
        else:
            yield panel


def plain(expression: str) -> str:
    """An expression without Grafana's own windows, as PromQL has it."""
    return expression.replace("$__rate_interval", RATE_INTERVAL)


def _exceptions(lint: Json) -> Iterator[tuple[str, str, int | None]]:
    for rule, told in lint.get("exclusions", {}).items():
        if not (told or {}).get("reason"):
            raise ValueError(f".lint: {rule}: an exception without a reason")
        for entry in told.get("entries", [{}]):
            yield rule, entry.get("panel", ""), entry.get("targetIdx")


def _fits(entry: tuple[str, str, int | None], problem: Problem) -> bool:
    rule, panel, target = entry
    return rule == problem.rule and panel in ("", problem.panel) and target in (None, problem.target)


def _variables(board: Json, kind: str) -> list[Json]:
    return [variable for variable in board.get("templating", {}).get("list", []) if variable.get("type") == kind]


def _template_datasource(board: Json) -> Iterator[str]:
    sources = _variables(board, "datasource")
    if len(sources) != 1:
        yield f"there are {len(sources)} data source variables instead of one"
    for source in sources:
        if (source.get("name"), source.get("label")) != ("datasource", "Data source"):
            yield f"the data source variable is called {source.get('name')!r}, {source.get('label')!r}"
        if source.get("query") != "prometheus":
            yield f"the data source variable chooses among {source.get('query')!r}"


def _template(name: str) -> Callable[[Json], Iterator[str]]:
    def check(board: Json) -> Iterator[str]:
        found = [variable for variable in _variables(board, "query") if variable.get("name") == name]
        if not found:
            yield f"no query variable {name}"
        for variable in found:
            wanted = {"label": name.title(), "multi": True, "includeAll": True, "allValue": ".+"}
            yield from (f"{key} is {variable.get(key)!r}" for key in wanted if variable.get(key) != wanted[key])
            if variable.get("datasource", {}).get("uid") != "${datasource}":
                yield "it does not ask the chosen data source"

    return check


def _template_label_promql(board: Json) -> Iterator[str]:
    for variable in _variables(board, "query"):
        told = re.fullmatch(r"([a-z_]+)\((.+?)(?:,\s*\w+)?\)", str(variable.get("query")))
        if told is None or told[1] not in VARIABLE_FUNCTIONS:
            yield f"{variable.get('name')}: {variable.get('query')!r} is no variable query"
        else:
            yield from (f"{variable.get('name')}: {message}" for message in _is_promql({"expr": told[2]}))


def _template_on_time_change_reload(board: Json) -> Iterator[str]:
    for variable in _variables(board, "query"):
        if variable.get("refresh") != 2:
            yield f"{variable.get('name')}: refresh is {variable.get('refresh')}, not 2 (on time range change)"


def _uneditable(board: Json) -> Iterator[str]:
    if board.get("editable") is not False:
        yield "it can be edited, so what is shown need not be what is committed"


def _panel_datasource(panel: Json) -> Iterator[str]:
    if panel.get("datasource") != {"type": "prometheus", "uid": "${datasource}"}:
        yield f"its data source is {panel.get('datasource')}"


def _panel_title_description(panel: Json) -> Iterator[str]:
    yield from (f"no {part}" for part in ("title", "description") if not panel.get(part))


def _panel_units(panel: Json) -> Iterator[str]:
    told = panel.get("fieldConfig", {})
    units = [told.get("defaults", {}).get("unit")]
    properties = [item for override in told.get("overrides", []) for item in override.get("properties", [])]
    units += [item.get("value") for item in properties if item.get("id") == "unit"]
    yield from (f"unit {unit!r}" for unit in units if unit not in UNITS)


def _panel_no_targets(panel: Json) -> Iterator[str]:
    if not panel.get("targets"):
        yield "no query"


def _no_logql(target: Json) -> Iterator[str]:
    kind = target.get("datasource", {}).get("type", "prometheus")
    if kind != "prometheus":
        yield f"a query to {kind}"


def _is_promql(target: Json) -> Iterator[str]:
    try:
        parse(plain(target.get("expr", "")))
    except PromqlError as error:
        yield f"{target.get('expr')!r}: {error}"


def _tree(target: Json) -> Node | None:
    try:
        return parse(plain(target.get("expr", "")))
    except PromqlError:
        return None  # another rule says so


def _called(node: Node, function: str = "") -> Iterator[tuple[Selector, str]]:
    """Every selector below `node`, with the function it is an argument of."""
    if isinstance(node, Selector):
        yield node, function
    for child in children(node):
        yield from _called(child, node.function if isinstance(node, Call) else "")


def _target_rate_interval(target: Json) -> Iterator[str]:
    for selector, function in _called(tree) if (tree := _tree(target)) else ():
        if selector.window is not None and function in RATES and selector.window.text != RATE_INTERVAL:
            yield f"{function} over [{selector.window.text}] instead of [$__rate_interval]"


def _target_matcher(label: str) -> Callable[[Json], Iterator[str]]:
    def check(target: Json) -> Iterator[str]:
        for selector in selectors(tree) if (tree := _tree(target)) else ():
            if ("=~", f"${label}") not in {(m.operator, m.value) for m in selector.matchers if m.label == label}:
                yield f'{selector.metric} without {label}=~"${label}"'

    return check


def _target_counter_agg(target: Json) -> Iterator[str]:
    for selector, function in _called(tree) if (tree := _tree(target)) else ():
        if selector.metric.endswith("_total") and (function not in RATES or selector.window is None):
            yield f"counter {selector.metric} outside of rate and increase"


BOARD_RULES: dict[str, Callable[[Json], Iterator[str]]] = {
    "template-datasource-rule": _template_datasource,
    "template-job-rule": _template("job"),
    "template-instance-rule": _template("instance"),
    "template-label-promql-rule": _template_label_promql,
    "template-on-time-change-reload-rule": _template_on_time_change_reload,
    "uneditable-dashboard": _uneditable,
}
PANEL_RULES: dict[str, Callable[[Json], Iterator[str]]] = {
    "panel-datasource-rule": _panel_datasource,
    "panel-title-description-rule": _panel_title_description,
    "panel-units-rule": _panel_units,
    "panel-no-targets-rule": _panel_no_targets,
}
TARGET_RULES: dict[str, Callable[[Json], Iterator[str]]] = {
    "target-logql-rule": _no_logql,
    "target-logql-auto-rule": _no_logql,
    "target-promql-rule": _is_promql,
    "target-rate-interval-rule": _target_rate_interval,
    "target-job-rule": _target_matcher("job"),
    "target-instance-rule": _target_matcher("instance"),
    "target-counter-agg-rule": _target_counter_agg,
}


def main(arguments: Sequence[str]) -> int:
    """Print what is wrong; 1 if anything is."""
    file = Path(arguments[0]) if arguments else HERE / "preempt-exporter.json"
    exceptions = yaml.safe_load((HERE / ".lint").read_text(encoding="utf-8"))
    wrong = problems(json.loads(file.read_text(encoding="utf-8")), exceptions)
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
