"""The lint: the committed dashboard passes it, and each of its 17 rules notices what it is for."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from dashboards.generate import FILE
from dashboards.lint import BOARD_RULES, HERE, PANEL_RULES, TARGET_RULES, main, panels, problems

Board = dict[str, Any]
BOARD: Board = json.loads(FILE.read_text(encoding="utf-8"))
EXCEPTIONS = yaml.safe_load((HERE / ".lint").read_text(encoding="utf-8"))


def variable(board: Board, name: str) -> Board:
    """A variable by its name."""
    return next(found for found in board["templating"]["list"] if found["name"] == name)


def panel(board: Board) -> Board:
    """A panel without exceptions."""
    return next(found for found in panels(board) if found["title"] == "Preempted")


def query(board: Board, old: str, new: str) -> None:
    """Change the panel's first query."""
    target = panel(board)["targets"][0]
    assert old in target["expr"]
    target["expr"] = target["expr"].replace(old, new)


BREAKS: dict[str, Callable[[Board], object]] = {
    "template-datasource-rule": lambda board: variable(board, "datasource").update(name="prom"),
    "template-job-rule": lambda board: variable(board, "job").update(allValue=".*"),
    "template-instance-rule": lambda board: variable(board, "instance").update(name="host"),
    "template-label-promql-rule": lambda board: variable(board, "lane").update(query="label_values(up{, lane)"),
    "template-on-time-change-reload-rule": lambda board: variable(board, "run").update(refresh=1),
    "uneditable-dashboard": lambda board: board.update(editable=True),
    "panel-datasource-rule": lambda board: panel(board).update(datasource={"type": "prometheus", "uid": "P1809F7"}),
    "panel-title-description-rule": lambda board: panel(board).update(description=""),
    "panel-units-rule": lambda board: panel(board)["fieldConfig"]["defaults"].pop("unit"),
    "panel-no-targets-rule": lambda board: panel(board)["targets"].clear(),
    "target-logql-rule": lambda board: panel(board)["targets"][0].update(datasource={"type": "loki"}),
    "target-logql-auto-rule": lambda board: panel(board)["targets"][0].update(datasource={"type": "loki"}),
    "target-promql-rule": lambda board: query(board, "[$__rate_interval])", "[$__rate_interval]"),
    "target-rate-interval-rule": lambda board: query(board, "$__rate_interval", "1m"),
    "target-job-rule": lambda board: query(board, 'job=~"$job",', ""),
    "target-instance-rule": lambda board: query(board, 'instance=~"$instance"', 'instance="$instance"'),
    "target-counter-agg-rule": lambda board: query(board, "increase(", "last_over_time("),
}


def test_rules_are_the_seventeen() -> None:
    """Every rule of ours has a way to break it here, and there are as many as dashboard-linter documents."""
    assert set(BREAKS) == set(BOARD_RULES | PANEL_RULES | TARGET_RULES)
    assert len(BREAKS) == 17


def test_committed_dashboard_passes() -> None:
    """No rule has anything to say but for the exceptions, and each exception is needed."""
    assert problems(BOARD, EXCEPTIONS) == []
    assert main([]) == 0


@pytest.mark.parametrize("rule", BREAKS)
def test_rule_notices(rule: str) -> None:
    """A dashboard broken in that one way is refused by that rule."""
    board = copy.deepcopy(BOARD)
    BREAKS[rule](board)
    assert rule in {problem.rule for problem in problems(board, EXCEPTIONS)}


def test_exception_that_is_not_needed_is_wrong() -> None:
    """An exception outlives its reason by no day."""
    idle = {"exclusions": {"panel-units-rule": {"reason": "none", "entries": [{"panel": "Preempted"}]}}}
    found = problems(BOARD, {"exclusions": EXCEPTIONS["exclusions"] | idle["exclusions"]})
    assert [(problem.rule, problem.message) for problem in found] == [
        ("panel-units-rule", "this exception is no longer needed")
    ]


def test_exception_without_reason_is_refused() -> None:
    """Whoever makes an exception says why."""
    with pytest.raises(ValueError, match="without a reason"):
        problems(BOARD, {"exclusions": {"panel-units-rule": {}}})
