"""The mutation run: it can tell good tests from weak ones, and the mandated alerts' tests let no mutant live."""

import os
from pathlib import Path

import yaml

from preempt_exporter.promtool import find_promtool
from preempt_exporter.rules_pack.mutants import mutants_of
from preempt_exporter.rules_pack.mutation_run import run_mutants
from preempt_exporter.rules_pack.pack import rule_files

TESTS = Path(__file__).parents[1] / "rules"

RULE = {
    "alert": "Full",
    "expr": 'sum by (cluster, lane) (increase(x_total{event=~"drain|reject"}[5m])) > 5 and on (cluster) up == 1',
    "for": "2m",
    "keep_firing_for": "5m",
    "labels": {"severity": "page", "action": "stop_run"},
}


def test_one_thing_is_changed_at_a_time_and_everything_once() -> None:
    """Comparators, numbers, windows, holds, labels, matchers, joins, sums, severity and action all have mutants."""
    mutants = mutants_of(RULE)
    expressions = {mutant.rule["expr"] for mutant in mutants}
    expected = [
        RULE["expr"].replace("> 5", ">= 5"),
        RULE["expr"].replace("> 5", "< 5"),
        RULE["expr"].replace("> 5", "> 6"),
        RULE["expr"].replace("> 5", "> 4"),
        RULE["expr"].replace("[5m]", "[10m]"),
        RULE["expr"].replace("by (cluster, lane)", "by (lane)"),
        RULE["expr"].replace("drain|reject", "drain"),
        RULE["expr"].replace('event=~"drain|reject"', ""),
        RULE["expr"].replace("and on", "unless on"),
        RULE["expr"].replace("on (cluster)", "on ()"),
        RULE["expr"].replace("sum by", "max by"),
        RULE["expr"].replace("== 1", "!= 1"),
        RULE["expr"].partition(" and on")[0],
    ]
    assert [text for text in expected if text not in expressions] == []
    assert {mutant.rule["for"] for mutant in mutants} == {"2m", "4m", "60s"}
    assert {mutant.rule["keep_firing_for"] for mutant in mutants} == {"5m", "10m", "150s"}
    assert {mutant.rule["labels"]["severity"] for mutant in mutants} == {"page", "ticket"}
    assert len({mutant.rule["labels"]["action"] for mutant in mutants}) == 2
    assert len({mutant.name for mutant in mutants}) == len(mutants)
    assert RULE not in [mutant.rule for mutant in mutants]


def test_no_mutant_of_the_mandated_alerts_survives() -> None:
    """Every change to an alert on single tasks turns a test red; `make mutants` does those of all rules."""
    task_rules = [path for path in rule_files() if path.name == "task.yml"]
    report = run_mutants(
        find_promtool(os.environ), task_rules, sorted(TESTS.glob("task*.yml")), {}, os.cpu_count() or 1
    )
    assert report.problems == ()
    assert report.count > 60


def test_a_weak_test_lets_mutants_live_and_a_reason_that_is_not_needed_is_told(tmp_path: Path) -> None:
    """Without a boundary case `>` and `>=` look the same: the run names that mutant, and the superfluous reason."""
    rule = {
        "alert": "Busy",
        "expr": "queue_age_ms > 5",
        "for": "0s",
        "labels": {"severity": "ticket", "action": "reject_enqueue"},
    }
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "g", "rules": [rule]}]}), encoding="utf-8")
    case = {
        "name": "fires",
        "interval": "1m",
        "input_series": [{"series": "queue_age_ms", "values": "9"}],
        "alert_rule_test": [{"eval_time": "0m", "alertname": "Busy", "exp_alerts": [{"exp_labels": rule["labels"]}]}],
    }
    document = {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": [case]}
    (tmp_path / "case.yml").write_text(yaml.safe_dump(document), encoding="utf-8")
    reasons = {"Busy (ticket): number 5 to 6": "known", "Busy (ticket): gone": "no longer needed"}
    report = run_mutants(find_promtool(os.environ), [tmp_path / "rules.yml"], [tmp_path / "case.yml"], reasons, 2)
    told = {problem.where: problem.what for problem in report.problems}
    assert told["Busy (ticket): > to >= after queue_age_ms"] == "no test notices it"
    assert "Busy (ticket): number 5 to 6" not in told
    assert told["Busy (ticket): gone"] == "has a reason and no survivor: remove it"
    assert "Busy (ticket): severity to page" not in report.survivors
