"""Runbooks are pages that a person can act on: whole, dated, with links and commands that exist."""

import os
import re
import subprocess
from datetime import date
from pathlib import Path

import pytest
import yaml

from preempt_exporter.promtool import find_promtool
from preempt_exporter.rules_pack.pack import rule_files, runbooks_folder
from preempt_exporter.rules_pack.parameters import PARAMETERS
from preempt_exporter.rules_pack.rule_file import read_rules
from preempt_exporter.rules_pack.vocabulary import ACTIONS

PAGES = sorted(path for path in runbooks_folder().glob("*.md") if path.stem != "README")
INDEX = (runbooks_folder() / "README.md").read_text(encoding="utf-8")
SECTIONS = [
    "Meaning",
    "Impact",
    "What automation already did",
    "What to do now",
    "What is lost, and whose",
    "How to verify",
    "When to stop",
    "Why this threshold",
]
COMMANDS = {"status", "undone", "act", "report", "verify", "check", "emit", "doctor", "rules", "control"}
"""Commands of the contract that runbooks may tell people to run."""


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_a_runbook_has_every_section_in_order_and_a_date(page: Path) -> None:
    """Meaning to rationale, a numbered list of steps, and the day of its next review."""
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == SECTIONS
    for section in text.split("\n## ")[1:]:
        assert len(section.split("\n", 1)[1].strip()) > 5, section
    steps = text.split("## What to do now\n")[1].split("\n## ")[0]
    assert re.findall(r"^(\d+)\. ", steps, re.MULTILINE)[:2] == ["1", "2"]
    date.fromisoformat(re.findall(r"^Next quarterly review: (\S+)$", text, re.MULTILINE)[0])


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_its_commands_and_actions_exist(page: Path) -> None:
    """No step tells a person to run what is not there, or an action outside the closed set."""
    text = page.read_text(encoding="utf-8")
    for command in re.findall(r"`preempt-exporter (\S+?)[ `]", text):
        assert command in COMMANDS, command
    for action in re.findall(r"preempt-exporter act (\w+)", text):
        assert action in {*ACTIONS, "resume", "mode"}
    action = re.findall(r"^Action: `(\w+)`", text, re.MULTILINE)[0]
    if action not in ("fix_idempotency", "inspect_ledger", "restart_exporter"):
        assert f"act {action} --" in text, "the alert's action is not among the steps"
    for name in re.findall(r"--set (\w+)=", text):
        assert name in {parameter.name for parameter in PARAMETERS}


def test_thresholds_in_rules_are_explained_in_their_runbook() -> None:
    """Each number that an alert compares with stands in its page."""
    for parameter in PARAMETERS:
        for place in parameter.places:
            if parameter.is_number and place.rule not in ("ThresholdsDiffer", "*"):
                text = (runbooks_folder() / f"{place.rule}.md").read_text(encoding="utf-8")
                assert re.search(rf"(?<![\d.]){re.escape(parameter.default)}(?!\d)", text), (
                    f"{place.rule}: {parameter.name}"
                )


def test_the_index_lists_every_alert_with_its_severity_and_action() -> None:
    """The index is what the rules say, link by link."""
    expected: dict[str, tuple[list[str], str]] = {}
    for rule in read_rules(rule_files()):
        if rule.is_alert:
            expected.setdefault(rule.name, ([], rule.labels["action"]))[0].append(rule.labels["severity"])
    rows = re.findall(r"^\| \[(\w+)\]\((\w+)\.md\) \| (.*?) \| `(\w+)` \|$", INDEX, re.MULTILINE)
    assert [(name, link) for name, link, _, _ in rows] == [(name, name) for name in sorted(expected)]
    assert [(severities.split(" and "), action) for _, _, severities, action in rows] == [
        expected[name] for name in sorted(expected)
    ]


def test_links_resolve_in_the_repository() -> None:
    """Every relative link of a runbook names a file."""
    for page in runbooks_folder().glob("*.md"):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_runbook_urls_are_these_pages_under_the_base_address() -> None:
    """An alert's link is the base address and a page that is here."""
    base = next(parameter.default for parameter in PARAMETERS if parameter.name == "runbook_base")
    for rule in read_rules(rule_files()):
        if rule.is_alert:
            url = rule.annotations["runbook_url"]
            assert url.startswith(base + "/")
            assert (runbooks_folder() / url.removeprefix(base + "/")).is_file()


def test_what_must_be_said_is_said() -> None:
    """Prompt-heavy tasks without checkpoints pass the line at any preemption; idle GPUs permit nothing."""
    text = " ".join((runbooks_folder() / "RestartTokensBeatSlack.md").read_text(encoding="utf-8").split())
    assert "long prompt and no checkpoint pass this line at *any* preemption" in text
    assert "Idle GPUs are not permission to enqueue" in text
    assert "Idle GPUs are not permission to enqueue" in INDEX


def test_the_scrape_configuration_that_ships_loads_and_pins_the_instance() -> None:
    """Prometheus accepts it, its job is the rules' job, and `instance` is pinned."""
    shipped = runbooks_folder().parents[1] / "deploy" / "prometheus" / "prometheus.yml"
    done = subprocess.run(
        [find_promtool(os.environ), "check", "config", "--syntax-only", str(shipped)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    scrape = yaml.safe_load(shipped.read_text(encoding="utf-8"))["scrape_configs"][0]
    assert scrape["job_name"] == next(parameter.default for parameter in PARAMETERS if parameter.name == "job")
    assert scrape["relabel_configs"][0]["target_label"] == "instance"
