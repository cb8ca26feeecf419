"""Our lint: the pack passes it, and each thing that it forbids fails it."""

from pathlib import Path

import pytest
import yaml

from preempt_exporter.rules_pack.lint import lint_pack, lint_rules
from preempt_exporter.rules_pack.pack import rule_files, runbooks_folder
from preempt_exporter.rules_pack.rule_file import read_rules

GOOD = {
    "alert": "LaneFull",
    "expr": 'sum by (cluster, lane) (preempt_tasks{state="queued"}) > 5',
    "for": "5m",
    "keep_firing_for": "5m",
    "labels": {"severity": "ticket", "action": "reject_enqueue"},
    "annotations": {
        "summary": "Lane {{ $labels.lane }}{{ with $labels.cluster }} of {{ . }}{{ end }} has {{ $value | humanize }}",
        "description": "It is {{ $value }}.",
        "runbook_url": "https://x.example/LaneFull.md",
        "dashboard_url": "https://x.example/?var-lane={{ $labels.lane | urlquery }}",
    },
}


def linted(tmp_path: Path, **changes: object) -> str:
    path = tmp_path / "rules.yml"
    rule = {key: value for key, value in (GOOD | changes).items() if value is not None}
    path.write_text(yaml.safe_dump({"groups": [{"name": "g", "rules": [rule]}]}), encoding="utf-8")
    return "\n".join(str(problem) for problem in lint_rules(read_rules([path])))


def test_the_pack_passes_its_own_lint() -> None:
    """Rules, labels, templates and runbooks of the pack agree."""
    assert lint_pack(rule_files(), runbooks_folder()) == []


def test_a_good_rule_has_no_problem(tmp_path: Path) -> None:
    """The rule that the cases below spoil is fine by itself."""
    assert linted(tmp_path) == ""


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ('sum by (cluster, lane) (preempt_task{state="queued"}) > 5', "nothing exposes or records preempt_task"),
        ('sum by (cluster, lane) (preempt_tasks{stat="queued"}) > 5', "preempt_tasks has no label stat"),
        ('sum by (cluster, lane) (preempt_tasks{state="waiting"}) > 5', "never has state='waiting'"),
        ('sum by (cluster, lane) (preempt_tasks{state=~"queued"}) > 5', "is no pattern"),
        ('sum by (cluster, lane) (preempt_tasks{state=~"queued|waiting"}) > 5', "never has state='waiting'"),
        ("sum by (cluster, lane, run) (preempt_tasks) > 5", "sum by (run): what it sums has no such label"),
        ("sum by (lane) (preempt_tasks) > 5", "mixes clusters"),
        ("sum by (lane) (preempt_tasks) > 5", "loses cluster"),
        ("sum(preempt_tasks) > 5", "without by () loses every label"),
        ("preempt_tasks > 5", "keeps instance"),
        ("sum by (cluster, lane) (preempt_tasks)", "no comparison in it"),
        ("sum by (cluster, lane) (rate(preempt_tasks[5m])) > 5", "rate of preempt_tasks, which is no counter"),
        ("sum by (cluster, lane) (delta(preempt_events_total[5m])) > 5", "which is a counter"),
        ("sum by (cluster, lane) (rate(preempt_events_total[30s])) > 5", "shorter than four scrapes"),
        (
            "sum by (cluster, lane) (preempt_tasks) > sum by (cluster) (preempt_tasks_silent)",
            "the sides of > differ in lane",
        ),
        (
            "sum by (cluster, lane) (preempt_tasks) > on (lane) sum by (cluster, lane) (preempt_tasks_silent)",
            "> on (lane) mixes clusters",
        ),
        (
            "sum by (cluster, lane) (preempt_tasks) and on (cluster, run) sum by (cluster, run) (preempt_leases_open)",
            "and on (run): a side has no such label",
        ),
        ("sum by (cluster, lane) (preempt_tasks) >> 5", "not an expression that we read"),
    ],
)
def test_an_expression_that_cannot_work_is_named(tmp_path: Path, expression: str, said: str) -> None:
    """Names, values, groupings, joins, windows and lost labels are each checked."""
    assert said in linted(tmp_path, expr=expression)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{{ $labels.run }}", "$labels.run is always empty"),
        ("{{ $labels.instance }}", "$labels.instance is always empty"),
        ("{{ $labels.cluster }}", "$labels.cluster may be empty"),
        ("{{ $value | humanise }}", "humanise is not a template function"),
        ("{{ $value", "braces do not pair"),
        ("{{ with $labels.cluster }}x", "has no end"),
    ],
)
def test_a_template_that_promtool_passes_is_named(tmp_path: Path, template: str, said: str) -> None:
    """Broken templates and labels that the expression aggregates away."""
    assert said in linted(tmp_path, annotations=GOOD["annotations"] | {"summary": template})  # type: ignore[operator]


def test_milliseconds_are_not_humanized_as_seconds(tmp_path: Path) -> None:
    """`humanizeDuration` of a `_ms` value is 1,000 times too long."""
    said = linted(
        tmp_path,
        expr="queue_age_ms > 5",
        annotations=GOOD["annotations"] | {"description": "{{ $value | humanizeDuration }}"},  # type: ignore[operator]
    )
    assert "the value is in milliseconds" in said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"labels": {"severity": "warning", "action": "stop_run"}}, "severity is one of page, ticket"),
        ({"labels": {"severity": "page", "action": "scale_out"}}, "action is one of"),
        ({"labels": {"severity": "page", "action": "stop_run", "team": "x"}}, "labels are severity and action"),
        ({"keep_firing_for": None}, "keep_firing_for is missing"),
        ({"for": None}, "for is missing"),
        ({"limit": 3}, "limit has no place in an alert"),
        ({"annotations": {"summary": "x"}}, "annotations are"),
        ({"annotations": {"summary": "x"}}, "runbook_url does not end in /LaneFull.md"),
    ],
)
def test_what_an_alert_must_have_is_asked_for(tmp_path: Path, changes: dict[str, object], said: str) -> None:
    """Severity, action, annotations and both holds are no matter of taste."""
    assert said in linted(tmp_path, **changes)


def test_a_record_is_named_by_level_metric_and_operations(tmp_path: Path) -> None:
    """A recording rule's name says what it is."""
    path = tmp_path / "rules.yml"
    rule = {"record": "preempt_things", "expr": "sum by (cluster) (preempt_tasks)"}
    path.write_text(yaml.safe_dump({"groups": [{"name": "g", "rules": [rule]}]}), encoding="utf-8")
    assert "level:metric:operations" in str(lint_rules(read_rules([path])))


def test_alert_runbook_and_action_are_in_bijection(tmp_path: Path) -> None:
    """A missing page, a page without an alert, and a page with another action are each named."""
    for page in runbooks_folder().glob("*.md"):
        (tmp_path / page.name).write_text(page.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "WorkDropped.md").unlink()
    (tmp_path / "Forgotten.md").write_text("# Forgotten\n", encoding="utf-8")
    wrong = (tmp_path / "LedgerSilent.md").read_text(encoding="utf-8").replace("inspect_ledger", "stop_run")
    (tmp_path / "LedgerSilent.md").write_text(wrong, encoding="utf-8")
    problems = sorted(f"{Path(each.where).name}: {each.what}" for each in lint_pack(rule_files(), tmp_path))
    assert problems == [
        "Forgotten.md: no alert has this name",
        "LedgerSilent.md: says action ['stop_run'], the alert ['inspect_ledger']",
        "WorkDropped.md: there is no such runbook",
    ]
