"""The promtool wrapper: real promtool, real files, and every way of testing nothing."""

import os
from pathlib import Path

import pytest

from preempt_exporter.errors import ToolMissing, UnreadableInput
from preempt_exporter.promtool import Report, check_rules, find_promtool, test_rules

RULE = """
groups:
  - name: g
    rules:
      - record: lane:up:sum
        expr: sum by (lane) (up)
      - alert: Down
        expr: up == 0
"""
CASE = """
  - name: {name}
    interval: 1m
    input_series: [{{series: 'up{{lane="a"}}', values: "0 0"}}]
    alert_rule_test:
      - {{eval_time: 1m, alertname: {alert}, exp_alerts: [{expected}]}}
"""
FIRES = "{exp_labels: {lane: a}}"


@pytest.fixture
def promtool() -> str:
    return find_promtool(os.environ)


def written(folder: Path, tests: str, rule_files: str = "[rule.yml]") -> str:
    (folder / "rule.yml").write_text(RULE, encoding="utf-8")
    path = folder / "case.yml"
    path.write_text(f"rule_files: {rule_files}\nevaluation_interval: 1m\ntests:\n{tests}", encoding="utf-8")
    return str(path)


def said(report: Report) -> str:
    return "\n".join(str(problem) for problem in report.problems)


def test_what_promtool_passes_passes(promtool: str, tmp_path: Path) -> None:
    """Two cases that hold are two cases that ran."""
    tests = CASE.format(name="one", alert="Down", expected=FIRES) + CASE.format(
        name="two", alert="Down", expected=FIRES
    )
    report = test_rules(promtool, [written(tmp_path, tests)])
    assert (report.ok, report.count) == (True, 2)


def test_what_promtool_fails_fails_and_says_what_it_got(promtool: str, tmp_path: Path) -> None:
    """A case that does not hold is a problem in promtool's own words."""
    report = test_rules(promtool, [written(tmp_path, CASE.format(name="one", alert="Down", expected=""))])
    assert not report.ok
    assert "case.yml::one" in said(report)
    assert 'alertname="Down"' in said(report)


def test_an_alertname_that_no_rule_defines_fails(promtool: str, tmp_path: Path) -> None:
    """A typo in `alertname` proves nothing, although promtool finds no alert as expected."""
    report = test_rules(promtool, [written(tmp_path, CASE.format(name="typo", alert="Dwon", expected=""))])
    assert not report.ok
    assert "no loaded rule defines the alert 'Dwon'" in said(report)


def test_a_pattern_without_files_fails(promtool: str, tmp_path: Path) -> None:
    """One glob that matches does not excuse another that does not."""
    good = written(tmp_path, CASE.format(name="one", alert="Down", expected=FIRES))
    report = test_rules(promtool, [good, str(tmp_path / "nothing*.yml")])
    assert not report.ok
    assert "no file matched" in said(report)


def test_no_pattern_at_all_fails(promtool: str) -> None:
    """An empty list of files tests nothing."""
    assert not test_rules(promtool, []).ok


def test_rule_files_that_match_nothing_fail(promtool: str, tmp_path: Path) -> None:
    """A moved rule file is noticed."""
    path = written(tmp_path, CASE.format(name="one", alert="Down", expected=""), rule_files="[gone/*.yml]")
    report = test_rules(promtool, [path])
    assert "gone/*.yml matches no file" in said(report)


def test_a_file_without_tests_fails(promtool: str, tmp_path: Path) -> None:
    """`tests:` left empty is not a pass."""
    report = test_rules(promtool, [written(tmp_path, "")])
    assert "has no tests" in said(report)


def test_a_case_without_expectations_fails(promtool: str, tmp_path: Path) -> None:
    """A case that only feeds series tests nothing."""
    report = test_rules(promtool, [written(tmp_path, "  - {name: idle, input_series: []}\n")])
    assert "neither alert_rule_test nor promql_expr_test" in said(report)


def test_an_expression_over_series_that_nothing_feeds_fails(promtool: str, tmp_path: Path) -> None:
    """An empty expectation of an unfed series is met by a typo too."""
    tests = "  - name: typo\n    promql_expr_test: [{expr: lane:upp:sum, eval_time: 1m, exp_samples: []}]\n"
    report = test_rules(promtool, [written(tmp_path, tests)])
    assert "nothing feeds or records" in said(report)


def test_selecting_by_name_runs_those_cases_alone(promtool: str, tmp_path: Path) -> None:
    """`--run` leaves the failing case out, on every version of promtool."""
    tests = CASE.format(name="holds", alert="Down", expected=FIRES) + CASE.format(
        name="fails", alert="Down", expected=""
    )
    path = written(tmp_path, tests)
    assert test_rules(promtool, [path], "^hold").count == 1
    assert test_rules(promtool, [path], "^hold").ok
    assert not test_rules(promtool, [path], "fail").ok


def test_selecting_by_a_name_that_is_not_there_fails(promtool: str, tmp_path: Path) -> None:
    """`--run` with a typo is not a pass."""
    path = written(tmp_path, CASE.format(name="one", alert="Down", expected=FIRES))
    report = test_rules(promtool, [path], "tow")
    assert "no test case matching 'tow'" in said(report)


def test_a_file_that_is_not_yaml_is_named(promtool: str, tmp_path: Path) -> None:
    """Unreadable input is an error of its own, with the path in it."""
    path = tmp_path / "broken.yml"
    path.write_text("tests: [", encoding="utf-8")
    with pytest.raises(UnreadableInput, match=r"broken\.yml"):
        test_rules(promtool, [str(path)])


def test_checking_counts_rules_and_refuses_none(promtool: str, tmp_path: Path) -> None:
    """Checking no file, or a file without rules, is a problem; so is a rule that does not parse."""
    written(tmp_path, "")
    empty = tmp_path / "empty.yml"
    empty.write_text("groups: []\n", encoding="utf-8")
    broken = tmp_path / "broken.yml"
    broken.write_text(RULE.replace("up == 0", "up =="), encoding="utf-8")
    assert check_rules(promtool, [tmp_path / "rule.yml"]) == Report(2, ())
    assert not check_rules(promtool, []).ok
    assert not check_rules(promtool, [empty]).ok
    assert "parse error" in said(check_rules(promtool, [broken]))


def test_promtool_is_looked_for_by_variable_then_path(tmp_path: Path) -> None:
    """`PROMTOOL` wins over `PATH`; both missing says which package to install."""
    for folder in ("on-path", "named"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "promtool").write_text("#!/bin/sh\n", encoding="utf-8")
        (tmp_path / folder / "promtool").chmod(0o755)
    path = str(tmp_path / "on-path")
    named = str(tmp_path / "named" / "promtool")
    assert find_promtool({"PATH": path}) == f"{path}/promtool"
    assert find_promtool({"PATH": path, "PROMTOOL": named}) == named
    with pytest.raises(ToolMissing, match="apt-get install prometheus"):
        find_promtool({"PATH": str(tmp_path)})
    with pytest.raises(ToolMissing, match="PROMTOOL names /nowhere/promtool"):
        find_promtool({"PATH": path, "PROMTOOL": "/nowhere/promtool"})
