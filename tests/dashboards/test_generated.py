"""The committed dashboard: what it is made from, what links lead to it, and what it must never show."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from dashboards.generate import FILE, MINIMUM_GRAFANA
from dashboards.lint import panels, plain
from dashboards.now_row import ACTION_IN_WORDS

from preempt_exporter.metrics import families
from preempt_exporter.rules_pack.pack import dashboard_file, rule_files
from preempt_exporter.rules_pack.parameters import PARAMETERS
from preempt_exporter.rules_pack.promql import Binary, parse, selectors, walk
from preempt_exporter.rules_pack.vocabulary import ACTIONS, LABEL_VALUES

ROOT = Path(__file__).parents[2]
BOARD: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
OF_PROMETHEUS = {"ALERTS", "up", "process_resident_memory_bytes"}
FAMILIES = {
    family.name: family
    for group in vars(families).values()
    if isinstance(group, tuple)
    for family in group
    if isinstance(family, families.Family)
}


def queries() -> Iterator[tuple[dict[str, Any], str]]:
    """Each panel with each of its expressions."""
    for panel in panels(BOARD):
        for target in panel["targets"]:
            yield panel, target["expr"]


def test_generating_again_changes_nothing(tmp_path: Path) -> None:
    """What is committed is what the source makes."""
    again = tmp_path / "again.json"
    subprocess.run([sys.executable, "-m", "dashboards.generate", "--output", again], cwd=ROOT, check=True)
    assert again.read_bytes() == FILE.read_bytes()


def test_installed_package_finds_it() -> None:
    """The pack knows where the dashboard is, and the wheel is told to carry it there."""
    assert dashboard_file().read_bytes() == FILE.read_bytes()
    included = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert '"dashboards/preempt-exporter.json" = "preempt_exporter/pack/dashboards/preempt-exporter.json"' in included


def test_links_of_alerts_lead_here() -> None:
    """Each alert's `dashboard_url` names this uid and only variables that it has."""
    names = {variable["name"] for variable in BOARD["templating"]["list"]}
    urls = {
        rule["annotations"]["dashboard_url"]
        for path in rule_files()
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
        for rule in group["rules"]
        if "alert" in rule
    }
    assert urls
    for url in urls:
        parts = urlsplit(re.sub(r"\{\{.*?\}\}", "x", url))
        assert parts.path.endswith(f"/d/{BOARD['uid']}")
        assert {name.removeprefix("var-") for name in parse_qs(parts.query)} <= names


def test_minimum_grafana_is_stated() -> None:
    """The file and its description say which Grafana it needs, and its schema is not newer than that one's."""
    assert BOARD["__requires"] == [{"type": "grafana", "id": "grafana", "name": "Grafana", "version": MINIMUM_GRAFANA}]
    assert MINIMUM_GRAFANA in BOARD["description"]
    assert BOARD["schemaVersion"] <= 38, "38 is the schema of Grafana 10.1"


def test_gpu_utilization_is_nowhere() -> None:
    """Nothing in the dashboard speaks of GPUs or utilization."""
    assert not re.search(r"gpu|utili[sz]|dcgm|nvidia|cuda", FILE.read_text(encoding="utf-8"), re.IGNORECASE)


def test_every_metric_exists_with_the_labels_used() -> None:
    """Queries name families of ours (or Prometheus' own), labels that they have, and values that can be."""
    scraped = {"cluster", "job", "instance"}
    for panel, expression in queries():
        for selector in selectors(parse(plain(expression))):
            name = selector.metric
            if name in OF_PROMETHEUS:
                continue
            assert name in FAMILIES, f"{panel['title']}: {name}"
            for matcher in selector.matchers:
                assert matcher.label in {*scraped, *FAMILIES[name].labels}, f"{name}: {matcher.label}"
                if matcher.operator == "=" and (name, matcher.label) in LABEL_VALUES:
                    assert matcher.value in LABEL_VALUES[name, matcher.label], f"{name}: {matcher.value}"


def unit_of(metric: str) -> str | None:
    """The unit that a metric's name states."""
    stem = metric.removesuffix("_min").removesuffix("_max").removesuffix("_total")
    endings = {"_ms": "ms", "_seconds": "s", "_bytes": "bytes", "_ratio": "percentunit"}
    return next((unit for ending, unit in endings.items() if stem.endswith(ending)), None)


def test_no_query_rescales_and_units_follow_the_metric() -> None:
    """Thresholds stand in the metric's own unit: nothing is multiplied or divided by a number, and the unit fits."""
    for panel, expression in queries():
        tree = parse(plain(expression))
        for node in walk(tree):
            if isinstance(node, Binary) and node.operator.text in ("*", "/"):
                assert not re.fullmatch(r"[\d.e+]+", expression[node.right.start : node.right.end]), expression
        units = {unit_of(selector.metric) for selector in selectors(tree)} - {None}
        if panel["type"] != "table" and len(units) == 1 and "/" not in plain(expression):
            assert panel["fieldConfig"]["defaults"]["unit"] in units, panel["title"]


@pytest.mark.parametrize("name", ["queue_age_frac", "restart_frac", "rework_max", "interventions_per_100_max"])
def test_line_of_a_panel_is_the_rules_threshold(name: str) -> None:
    """A panel that shows the threshold in force draws its own line at the default that the rules have."""
    (default,) = [parameter.default for parameter in PARAMETERS if parameter.name == name]
    drawn = [
        panel["fieldConfig"]["defaults"]["thresholds"]["steps"][-1]["value"]
        for panel, expression in queries()
        if f'name="{name}"' in expression
    ]
    assert drawn == [float(default)]


def test_every_action_has_words() -> None:
    """The runbook panel can say each action of the closed set, and no other."""
    assert set(ACTION_IN_WORDS) == set(ACTIONS)
