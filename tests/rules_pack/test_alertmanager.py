"""The shipped Alertmanager configuration: routes and inhibitions, by amtool and a real Alertmanager under a storm."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from preempt_exporter.rules_pack.kept_labels import kept_labels, labels_of_metrics
from preempt_exporter.rules_pack.pack import rule_files
from preempt_exporter.rules_pack.promql import parse
from preempt_exporter.rules_pack.rule_file import Rule, read_rules
from preempt_exporter.rules_pack.vocabulary import ACTIONS

from .real_alertmanager import SHIPPED, alertmanager

RULES = read_rules(rule_files())
ALERTS = [rule for rule in RULES if rule.is_alert]
ON_LANES = {"reject_enqueue", "drain_and_reject", "abandon_lane", "route_to_paid", "reclaim_lease"}
ON_RUNS = {"stop_run", "reclaim_lease"}
STORM_TASKS = 5_000


def amtool(*arguments: str) -> str:
    program = shutil.which("amtool")
    assert program, "install Debian's package prometheus-alertmanager, or put amtool on PATH"
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def labels_kept() -> dict[str, set[str]]:
    """Labels that each alert carries, by name: those of its expression, its own, and the name."""
    metrics = labels_of_metrics()
    kept: dict[str, set[str]] = {}
    for rule in RULES:
        labels = kept_labels(parse(rule.expression), metrics)
        if rule.is_alert:
            kept.setdefault(rule.name, set()).update(labels.maybe | set(rule.labels) | {"alertname"})
        else:
            metrics[rule.name] = labels
    return kept


def receivers_of(rule: Rule) -> list[str]:
    """What the configuration promises: control for what it can do on lanes and runs, then people by severity."""
    action, severity = rule.labels["action"], rule.labels["severity"]
    people = {
        "fix_idempotency": "tickets-code",
        "inspect_ledger": "tickets-platform",
        "restart_exporter": "tickets-platform",
    }
    labels = labels_kept()[rule.name]
    for_control = (action in ON_LANES and "lane" in labels) or (action in ON_RUNS and "run" in labels)
    is_left_to_people = "task_id" in labels or rule.name == "SpendNearCeiling"
    receivers = ["control"] if for_control and not is_left_to_people else []
    return [*receivers, "pager" if severity == "page" else people.get(action, "tickets")]


def test_amtool_accepts_the_configuration() -> None:
    """Alertmanager would start with the shipped file."""
    assert "SUCCESS" in amtool("check-config", str(SHIPPED))


@pytest.mark.parametrize("rule", ALERTS, ids=[f"{rule.name}-{rule.labels['severity']}" for rule in ALERTS])
def test_each_alert_reaches_those_that_its_action_and_severity_name(rule: Rule) -> None:
    """`config routes test` sends every alert of the pack where the configuration's comment says."""
    labels = {"alertname": rule.name, **rule.labels}
    labels |= {label: "x" for label in ("lane", "run", "task_id") if label in labels_kept()[rule.name]}
    said = amtool("config", "routes", "test", f"--config.file={SHIPPED}", *(f"{k}={v}" for k, v in labels.items()))
    assert said.strip().split(",") == receivers_of(rule)


def test_every_action_is_routed() -> None:
    """No action of the closed set is without an alert that routes by it."""
    assert {rule.labels["action"] for rule in ALERTS} == set(ACTIONS)


def test_inhibitions_name_alerts_that_exist_and_labels_that_both_sides_carry() -> None:
    """A renamed alert or a label that an expression aggregates away would hold back everything, or nothing."""
    kept = labels_kept()
    for inhibition in yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))["inhibit_rules"]:
        for side in ("source_matchers", "target_matchers"):
            matchers = [re.fullmatch(r'(\w+)(=~|!=|=)"(.*)"', text).groups() for text in inhibition[side]]  # type: ignore[union-attr]
            names = next(value for label, _, value in matchers if label == "alertname").split("|")
            for name in names:
                assert name in kept, f"{name} is no alert"
                for label in [*inhibition["equal"], *(label for label, _, _ in matchers)]:
                    assert label in kept[name], f"{name} never carries {label}"


def test_a_storm_of_5000_tasks_makes_6_notifications(tmp_path: Path) -> None:
    """5,000 tasks over 3 lanes, each past its restart budget and half its deadline: a page per lane, no ticket.

    With the lanes' twins beside them that is 3 pages per alert name: 6 to the pager, and 3 to control.
    """
    tasks = [
        {"cluster": "eu", "lane": f"lane-{n % 3}", "run": "nightly", "task_id": f"t-{n}"} for n in range(STORM_TASKS)
    ]
    page = {"alertname": "RestartTokensBeatSlack", "severity": "page", "action": "drain_and_reject"}
    ticket = {"alertname": "QueueAgeHalfDeadline", "severity": "ticket", "action": "reject_enqueue"}
    twin = {
        "alertname": "LaneRestartTokensBeatSlack",
        "severity": "page",
        "action": "drain_and_reject",
        "cluster": "eu",
    }
    with alertmanager(tmp_path, group_wait_s=5, group_interval_s=5) as running:
        running.fire(*(twin | {"lane": f"lane-{n}"} for n in range(3)))
        for start in range(0, STORM_TASKS, 1_000):
            running.fire(*(page | task for task in tasks[start : start + 1_000]))
        running.fire(*(ticket | task for task in tasks))
        running.listener.wait_until_quiet(at_least=9, quiet_s=8)
        heard = running.listener
        assert heard.told("pager") == sorted(
            f"{name} lane-{n}" for name in ("RestartTokensBeatSlack", "LaneRestartTokensBeatSlack") for n in range(3)
        )
        assert heard.told("control") == [f"LaneRestartTokensBeatSlack lane-{n}" for n in range(3)]
        assert heard.told("tickets") == []
        biggest = max(payload["truncatedAlerts"] + len(payload["alerts"]) for _, payload in heard.notifications)
        assert biggest >= STORM_TASKS // 3


def test_inhibitions_hold_back_what_they_should_and_nothing_else(tmp_path: Path) -> None:
    """One of every pair fires in one Alertmanager; only the targets in the same scope are suppressed."""

    def alert(name: str, severity: str, **labels: str) -> dict[str, str]:
        return {"alertname": name, "severity": severity, "action": "inspect_ledger", "cluster": "eu", **labels}

    task = {"lane": "free", "run": "nightly", "task_id": "t-1"}
    cases = [
        ("active", alert("RestartTokensBeatSlack", "page", **task)),
        ("suppressed", alert("RestartTokensBeatSlack", "ticket", **task)),
        ("suppressed", alert("QueueAgeHalfDeadline", "ticket", **task)),
        ("active", alert("QueueAgeHalfDeadline", "ticket", **task | {"task_id": "t-2"})),
        ("active", alert("QueueAgeHalfDeadline", "ticket", **task | {"run": "other"})),
        ("active", alert("QueueAgeHalfDeadline", "ticket", **task | {"cluster": "us"})),
        ("active", alert("QueueAgeHalfDeadline", "ticket", lane="free", run="nightly")),
        ("active", alert("TaskSlackExhausted", "ticket", **task)),
        ("active", alert("LaneRestartTokensBeatSlack", "page", lane="free")),
        ("suppressed", alert("LaneQueueAgeHalfDeadline", "ticket", lane="free")),
        ("active", alert("LaneQueueAgeHalfDeadline", "ticket", lane="paid")),
        ("active", alert("LaneReclaimed", "page", lane="spot")),
        ("suppressed", alert("RestartTokensBeatSlack", "page", lane="spot", task_id="t-3")),
        ("suppressed", alert("TaskRestartCannotFinish", "page", lane="spot", task_id="t-3")),
        ("suppressed", alert("LaneRestartTokensBeatSlack", "page", lane="spot")),
        ("active", alert("WorkDropped", "ticket", lane="spot")),
        ("active", alert("TaskRestartCannotFinish", "page", lane="spot", task_id="t-3", cluster="us")),
        ("active", alert("RunWillMissHandover", "page", run="late")),
        ("suppressed", alert("TaskSlackExhausted", "ticket", lane="paid", run="late", task_id="t-4")),
        ("active", alert("TaskSlackExhausted", "ticket", lane="paid", task_id="t-5")),
        ("active", alert("SpendAtCeiling", "page", run="late")),
        ("suppressed", alert("SpendNearCeiling", "ticket", run="late")),
        ("active", alert("SpendNearCeiling", "ticket", run="nightly")),
        ("active", alert("LedgerSilent", "ticket")),
        ("suppressed", alert("TasksSilent", "ticket", lane="free")),
        ("active", alert("TasksSilent", "ticket", lane="free", cluster="us")),
        ("active", alert("ExporterDownTasksLive", "page", job="preempt-exporter")),
        ("suppressed", alert("ExporterDown", "ticket", job="preempt-exporter")),
        ("active", alert("ExporterDown", "ticket", job="preempt-exporter", cluster="us")),
    ]
    with alertmanager(tmp_path) as running:
        running.fire(*(labels for _, labels in cases))
        running.listener.wait_until_quiet(at_least=10, quiet_s=2)
        states = running.states()
    for name in {f"{labels['alertname']} {labels['severity']}" for _, labels in cases}:
        expected = sorted(state for state, labels in cases if f"{labels['alertname']} {labels['severity']}" == name)
        assert sorted(states[name]) == expected, name
