"""`rules render`: the pack with other values is still the pack, and with none it is the committed files."""

import os
from pathlib import Path

import pytest
import yaml

from preempt_exporter.cli.main import main
from preempt_exporter.errors import UsageError
from preempt_exporter.promtool import check_rules, find_promtool, test_rules
from preempt_exporter.rules_pack.lint import lint_rules
from preempt_exporter.rules_pack.pack import rule_files
from preempt_exporter.rules_pack.parameters import PARAMETERS, Parameter
from preempt_exporter.rules_pack.promql import parse, selectors
from preempt_exporter.rules_pack.render import one_file, places_of, rendered_pack, write_pack
from preempt_exporter.rules_pack.rule_file import read_rules
from preempt_exporter.settings import Thresholds

COMMITTED = {path.name: path.read_text(encoding="utf-8") for path in rule_files()}


def test_the_default_rendering_is_the_committed_pack() -> None:
    """Nothing is generated that is not in the repository."""
    assert rendered_pack({}) == COMMITTED
    assert rendered_pack({parameter.name: parameter.default for parameter in PARAMETERS}) == COMMITTED


@pytest.mark.parametrize("parameter", PARAMETERS, ids=[parameter.name for parameter in PARAMETERS])
def test_every_place_of_a_value_is_there_and_changes(parameter: Parameter) -> None:
    """No declared place has gone missing, and after rendering none holds the default any more."""
    for place in parameter.places:
        alone = Parameter(parameter.name, parameter.default, "", (place,))
        assert any(places_of(text, alone) for text in COMMITTED.values()), f"{place.rule}: {place.words}"
    other = "7.25" if parameter.is_number else "https://elsewhere.example"
    rendered = rendered_pack({parameter.name: other})
    assert not any(places_of(text, parameter) for text in rendered.values())
    assert rendered != COMMITTED


def test_defaults_are_the_exporters_own_thresholds() -> None:
    """The rules are written with what an exporter runs with out of the box."""
    defaults = {parameter.name: float(parameter.default) for parameter in PARAMETERS if parameter.is_number}
    thresholds = Thresholds()
    for name in (
        "queue_age_frac",
        "restart_frac",
        "max_preempts",
        "rework_max",
        "interventions_per_100_max",
        "margin_s",
    ):
        assert defaults[name] == getattr(thresholds, name)


def test_a_rendered_pack_passes_promtool_and_our_lint(tmp_path: Path) -> None:
    """Every value changed at once still makes rules."""
    values = {each.name: "3" if each.is_number else "https://elsewhere.example/x" for each in PARAMETERS}
    write_pack(rendered_pack(values | {"job": "other", "selector": 'cluster=~"eu-.*", instance!=""'}), tmp_path)
    paths = sorted(tmp_path.glob("*.yml"))
    assert check_rules(find_promtool(os.environ), paths).ok
    assert lint_rules(read_rules(paths)) == []


def test_matchers_go_into_every_scraped_selector_and_into_no_recorded_one(tmp_path: Path) -> None:
    """`selector` narrows what is read from exporters; recorded series are narrow already."""
    write_pack(rendered_pack({"selector": 'cluster="eu"'}), tmp_path)
    for rule in read_rules(sorted(tmp_path.glob("*.yml"))):
        for selector in selectors(parse(rule.expression)):
            has = any(matcher.label == "cluster" and matcher.value == "eu" for matcher in selector.matchers)
            assert has is (":" not in selector.metric), f"{rule.where}: {selector.metric}"


@pytest.mark.parametrize("parameter", PARAMETERS, ids=lambda parameter: parameter.name)
def test_the_order_of_values_changes_nothing(parameter: Parameter) -> None:
    """A value that is set after `selector` reaches every place that it reaches when it is set before."""
    value = {parameter.name: "3" if parameter.is_number else "elsewhere"}
    selector = {"selector": 'cluster="eu"'}
    assert rendered_pack(selector | value) == rendered_pack(value | selector)


def test_a_rendered_threshold_is_where_the_alert_fires(tmp_path: Path) -> None:
    """With `restart_frac=0.3` the boundary is at 300 of 1,000 tokens, and no longer at 200."""
    write_pack(rendered_pack({"restart_frac": "0.3"}), tmp_path / "rules")
    case = {
        "rule_files": ["rules/task.yml"],
        "evaluation_interval": "15s",
        "tests": [
            {
                "name": "boundary",
                "interval": "15s",
                "input_series": [
                    {"series": f'{metric}{{task_id="{task}"}}', "values": value}
                    for task, tokens in (("on", "300"), ("above", "301"))
                    for metric, value in (("restart_tokens", tokens), ("task_budget", "1000"), ("queue_age_ms", "1"))
                ],
                "promql_expr_test": [
                    {
                        "expr": 'sum by (task_id) (ALERTS{alertname="RestartTokensBeatSlack"})',
                        "eval_time": "0s",
                        "exp_samples": [{"labels": '{task_id="above"}', "value": 1}],
                    }
                ],
            }
        ],
    }
    (tmp_path / "case.yml").write_text(yaml.safe_dump(case), encoding="utf-8")
    report = test_rules(find_promtool(os.environ), [str(tmp_path / "case.yml")])
    assert report.ok, report.problems


def test_one_file_holds_all_rules(tmp_path: Path) -> None:
    """What `render` prints is a rule file with every rule of the pack."""
    path = tmp_path / "all.yml"
    path.write_text(one_file(rendered_pack({})), encoding="utf-8")
    assert [rule.name for rule in read_rules([path])] == [rule.name for rule in read_rules(rule_files())]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("restart_fraction", "0.3"),
        ("restart_frac", "-0.1"),
        ("restart_frac", "nan"),
        ("restart_frac", ""),
        ("restart_frac", "\u0663"),
        ("dashboard_url", "https://grafana.example/d/x?orgId=1"),
        ("job", 'a"b'),
        ("runbook_base", "a b"),
        ("selector", "cluster=eu"),
        ("selector", 'cluster="eu"} or {'),
        ("selector", 'cluster="a # b"'),
        ("selector", 'cluster=~"eu-("'),
        ("selector", 'team="x",cluster!~"*"'),
        ("selector", r'cluster=~"\d"'),
        ("selector", 'cluster="a\u2028b"'),
        ("selector", 'cluster="a\udcff"'),
        ("selector", '__name__="up"'),
        ("runbook_base", "https://wiki.example/\x01"),
        ("runbook_base", "/"),
    ],
)
def test_a_value_that_cannot_stand_there_is_refused_by_name(name: str, value: str) -> None:
    """A slip in `--set` never ends up in a rule file."""
    with pytest.raises(UsageError, match=name):
        rendered_pack({name: value})


@pytest.mark.parametrize(
    "selector",
    [
        r'cluster=~"eu-\\d+"',
        r'cluster="C:\\batch"',
        r'cluster="a\"b"',
        r'team="x\x20y\u0023\U0001f600\101"',
        r'cluster!~"\\Qeu.west\\E|\\pL\\z"',
    ],
)
def test_a_value_may_hold_what_promql_escapes(tmp_path: Path, selector: str) -> None:
    """The rules with it are rules, and every selector reads what was meant."""
    write_pack(rendered_pack({"selector": selector}), tmp_path)
    paths = sorted(tmp_path.glob("*.yml"))
    report = check_rules(find_promtool(os.environ), paths)
    assert report.ok, report.problems
    assert any(f"{{{selector}" in rule.expression for rule in read_rules(paths))


def test_the_runbooks_address_may_end_in_a_slash() -> None:
    """As it is copied from a browser."""
    base = "https://wiki.example/runbooks"
    assert rendered_pack({"runbook_base": f"{base}/"}) == rendered_pack({"runbook_base": base})


def test_render_writes_files_that_check_accepts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command writes a folder that `rules check` passes; a setting without = is one line and exit 2."""
    assert main(["rules", "render", "--set", "restart_frac=0.25", "--output", str(tmp_path / "out")]) == 0
    assert "0.25 * task_budget" in (tmp_path / "out" / "task.yml").read_text(encoding="utf-8")
    assert main(["rules", "check", str(tmp_path / "out" / "*.yml")]) == 0
    assert main(["rules", "render", "--set", "restart_frac"]) == 2
    assert "write it as NAME=VALUE" in capsys.readouterr().err
