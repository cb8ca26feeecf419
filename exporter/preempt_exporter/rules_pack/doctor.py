"""Asks a running Prometheus and Alertmanager whether the pack can do its work there."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct

from preempt_exporter.rules_pack.alertmanager_routes import read_routes, receivers_reached
from preempt_exporter.rules_pack.links import leads_nowhere
from preempt_exporter.rules_pack.pack import rule_files
from preempt_exporter.rules_pack.promql import PromqlError, parse, selectors
from preempt_exporter.rules_pack.rule_file import Rule, read_rules

Ask = Callable[[str], Any]
"""The JSON that a server answers to a path with its query; raises `UnreadableInput`."""

LINKS = (("runbooks", "runbook_url", "runbook_base"), ("dashboard", "dashboard_url", "dashboard_url"))
"""What is looked at, the annotation, and the value of the pack that it is made of."""

SWITCH_NAMES = ("watchdog", "deadmansswitch", "deadmanssnitch")


class Finding(Struct, frozen=True):
    """One question and its answer."""

    check: str
    ok: bool
    says: str


def examine(prometheus: Ask, alertmanager: Ask | None, job: str) -> list[Finding]:
    """Every finding, in the order in which an operator would put things right. Raises `UnreadableInput`."""
    packed = [rule for rule in read_rules(rule_files()) if rule.is_alert]
    loaded = _loaded_alerts(prometheus)
    findings = [
        *_is_scraped(prometheus, job),
        *_are_loaded(packed, loaded),
        *_links_lead_somewhere(packed, loaded),
        *_thresholds_agree(prometheus, loaded),
        *_has_dead_mans_switch(loaded),
    ]
    if alertmanager is not None:
        findings += _routes_match(packed, alertmanager)
    return findings


def _query(prometheus: Ask, expression: str) -> list[dict[str, Any]]:
    answer = prometheus("/api/v1/query?" + urlencode({"query": expression}))
    result: list[dict[str, Any]] = answer["data"]["result"]
    return result


def _loaded_alerts(prometheus: Ask) -> list[dict[str, Any]]:
    groups = prometheus("/api/v1/rules?type=alert")["data"]["groups"]
    return [rule for group in groups for rule in group["rules"] if rule["type"] == "alerting"]


def _is_scraped(prometheus: Ask, job: str) -> Iterator[Finding]:
    targets = _query(prometheus, f'up{{job="{job}"}}')
    if not targets:
        yield Finding("scraped", False, f"no target in job {job}: add it to scrape_configs, or name yours with --job")
        return
    for target in targets:
        instance = target["metric"].get("instance", "")
        is_up = target["value"][1] == "1"
        yield Finding("scraped", is_up, f"{instance} is up" if is_up else f"{instance} is down: see its log")
    ready = _query(prometheus, f'preempt_exporter_ready{{job="{job}"}} == 0')
    for target in ready:
        yield Finding("scraped", False, f"{target['metric'].get('instance', '')} has not caught up yet: wait")


def _are_loaded(packed: list[Rule], loaded: list[dict[str, Any]]) -> Iterator[Finding]:
    by_name = {str(rule["name"]): rule for rule in loaded}
    missing = sorted({rule.name for rule in packed} - by_name.keys())
    if missing:
        yield Finding("rules", False, f"not loaded: {', '.join(missing)}; write them with `rules render --output`")
    else:
        yield Finding("rules", True, f"all {len({rule.name for rule in packed})} alerts are loaded")
    for name in sorted({rule.name for rule in packed} & by_name.keys()):
        rule = by_name[name]
        if rule.get("health") == "err":
            yield Finding("rules", False, f"{name} cannot be evaluated: {rule.get('lastError', '')}")


def _links_lead_somewhere(packed: list[Rule], loaded: list[dict[str, Any]]) -> Iterator[Finding]:
    names = {rule.name for rule in packed}
    ours = [rule for rule in loaded if rule["name"] in names]
    for check, annotation, parameter in LINKS:
        urls = {str(rule["name"]): str(rule.get("annotations", {}).get(annotation, "")) for rule in ours}
        astray = sorted(name for name, url in urls.items() if leads_nowhere(url))
        if astray:
            others = f" and {len(astray) - 1} more" if len(astray) > 1 else ""
            says = f"{annotation} of {astray[0]}{others} leads nowhere ({urls[astray[0]] or 'it is missing'})"
            yield Finding(check, False, f"{says}: `rules render --set {parameter}=` with your address")


def _thresholds_agree(prometheus: Ask, loaded: list[dict[str, Any]]) -> Iterator[Finding]:
    expressions = [str(rule["query"]) for rule in loaded if rule["name"] == "ThresholdsDiffer"]
    if not expressions:
        yield Finding("thresholds", False, "ThresholdsDiffer is not loaded: nobody compares thresholds")
        return
    if not _query(prometheus, "preempt_threshold"):
        yield Finding("thresholds", False, "no preempt_threshold yet: the exporter is not scraped")
        return
    differing = _query(prometheus, expressions[0])
    for series in differing:
        name, value = series["metric"].get("name", ""), series["value"][1]
        yield Finding("thresholds", False, f"an exporter runs with {name}={value}: `rules render --set {name}={value}`")
    if not differing:
        yield Finding("thresholds", True, "exporters and rules agree")


def _has_dead_mans_switch(loaded: list[dict[str, Any]]) -> Iterator[Finding]:
    switches = [str(rule["name"]) for rule in loaded if _always_fires(rule)]
    if switches:
        yield Finding("dead man's switch", True, f"{switches[0]} always fires")
    else:
        yield Finding(
            "dead man's switch",
            False,
            "no alert always fires, so nobody notices when alerting itself is dead: add one with `expr: vector(1)`"
            " and a receiver that complains when it stops",
        )


def _always_fires(rule: Mapping[str, Any]) -> bool:
    if rule.get("state") != "firing":
        return False
    if str(rule["name"]).lower().replace("_", "") in SWITCH_NAMES:
        return True
    try:
        return not selectors(parse(str(rule["query"])))
    except PromqlError:
        return False


def _routes_match(packed: list[Rule], alertmanager: Ask) -> Iterator[Finding]:
    root = read_routes(str(alertmanager("/api/v2/status")["config"]["original"]), "Alertmanager")
    pairs = sorted({(rule.labels["action"], rule.labels["severity"]) for rule in packed})
    for action, severity in pairs:
        labels = {"alertname": "any", "action": action, "severity": severity, "lane": "any", "cluster": "any"}
        reached = receivers_reached(root, labels)
        names = ", ".join(each.receiver for each in reached)
        if any(each.by_route for each in reached):
            yield Finding("routes", True, f"{action}, {severity}: {names}")
        else:
            yield Finding(
                "routes",
                False,
                f"{action}, {severity}: no route matches, it falls to {names}: add one by action or severity",
            )
