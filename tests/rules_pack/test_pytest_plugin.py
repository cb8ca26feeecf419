"""The pytest plugin, run by a pytest of its own in a folder of its own."""

import os
import subprocess
import sys
from pathlib import Path

RULE = "groups: [{name: g, rules: [{alert: Down, expr: up == 0}]}]\n"
TESTS = """
rule_files: [{rule_files}]
evaluation_interval: 1m
tests:
  - name: holds
    input_series: [{{series: up, values: "0"}}]
    alert_rule_test: [{{eval_time: 0m, alertname: Down, exp_alerts: [{{}}]}}]
  - name: {second}
    input_series: [{{series: up, values: "1"}}]
    alert_rule_test: [{{eval_time: 0m, alertname: {alert}, exp_alerts: [{expected}]}}]
"""


def collected(
    folder: Path, *, second: str = "quiet", alert: str = "Down", expected: str = "", rule_files: str = "../rule.yml"
) -> None:
    (folder / "tests" / "rules").mkdir(parents=True)
    (folder / "tests" / "rule.yml").write_text(RULE, encoding="utf-8")
    text = TESTS.format(second=second, alert=alert, expected=expected, rule_files=rule_files)
    (folder / "tests" / "rules" / "case.yml").write_text(text, encoding="utf-8")
    (folder / "tests" / "other.yml").write_text("anything: else\n", encoding="utf-8")


WITHOUT = ("-p", "no:cacheprovider", "-p", "no:cloudcoil")
"""No cache in the folder, and no plugin of a package that only the manifests' tests want."""


def pytest_says(folder: Path, *arguments: str, **environment: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "--rootdir", str(folder), *WITHOUT, *arguments, "tests"],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_each_case_is_an_item(tmp_path: Path) -> None:
    """Two cases pass as two items with the cases' names; other YAML is left alone."""
    collected(tmp_path)
    status, said = pytest_says(tmp_path)
    assert status == 0, said
    assert "tests/rules/case.yml::holds PASSED" in said
    assert "tests/rules/case.yml::quiet PASSED" in said
    assert "2 passed" in said


def test_only_the_case_that_fails_is_red(tmp_path: Path) -> None:
    """A failing case does not colour its neighbours, and promtool's words are shown."""
    collected(tmp_path, second="wrong", expected="{}")
    status, said = pytest_says(tmp_path)
    assert status == 1
    assert "case.yml::holds PASSED" in said
    assert "case.yml::wrong FAILED" in said
    assert "got:[]" in said


def test_an_unknown_alert_name_is_red(tmp_path: Path) -> None:
    """What promtool passes for want of a rule fails here."""
    collected(tmp_path, alert="Dwon")
    status, said = pytest_says(tmp_path)
    assert status == 1
    assert "1 failed, 1 passed" in said
    assert "no loaded rule defines the alert 'Dwon'" in said


def test_cases_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """Two cases named alike stay two items."""
    collected(tmp_path, second="holds")
    _, said = pytest_says(tmp_path)
    assert "::holds [1] PASSED" in said
    assert "::holds [2] PASSED" in said


def test_a_file_whose_rules_are_gone_is_red(tmp_path: Path) -> None:
    """A file that would test nothing is one failing item."""
    collected(tmp_path, rule_files="../gone.yml")
    status, said = pytest_says(tmp_path)
    assert status == 1
    assert "../gone.yml matches no file" in said


def test_without_promtool_the_items_fail(tmp_path: Path) -> None:
    """A missing promtool is a failure that says how to get it, never a skip."""
    collected(tmp_path)
    status, said = pytest_says(tmp_path, PATH=str(tmp_path), PROMTOOL="")
    assert status == 1
    assert "2 failed" in said
    assert "apt-get install prometheus" in said


def test_other_globs_can_be_named(tmp_path: Path) -> None:
    """`promtool_tests` replaces the default."""
    collected(tmp_path)
    status, said = pytest_says(tmp_path, "-o", "promtool_tests=tests/nowhere/*.yml")
    assert status == 5, said


def test_rules_of_another_tool_are_left_alone_unless_they_are_named(tmp_path: Path) -> None:
    """Installing the package breaks no project with other YAML in `tests/rules`; naming a file makes it strict."""
    collected(tmp_path)
    (tmp_path / "tests" / "rules" / "other.yml").write_text("rules: [{id: no-eval}]\n", encoding="utf-8")
    status, said = pytest_says(tmp_path)
    assert (status, "2 passed" in said) == (0, True), said
    status, said = pytest_says(tmp_path, "-o", "promtool_tests=tests/rules/*.yml")
    assert status == 1
    assert "other.yml::tests nothing FAILED" in said
