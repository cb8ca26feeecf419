"""Rules may only ask for what the exporter really serves."""

import json
import re
from pathlib import Path

from msgspec.structs import replace

from preempt_exporter.ledger.records import EVENT_NAMES
from preempt_exporter.rules_pack.kept_labels import TARGET_LABELS
from preempt_exporter.rules_pack.pack import rule_files
from preempt_exporter.rules_pack.promql import Matcher, parse, selectors
from preempt_exporter.rules_pack.rule_file import read_rules

from .story import Story


def full_ledger(story: Story) -> None:
    """A line of every kind that a metric of the rules comes from."""
    run = {"run": "nightly"}
    deadline = {"deadline_ms": 600_000, "task_budget": 1000}
    story.append(
        json.dumps(
            {
                "event": "run_open",
                "run": "nightly",
                "ts_ms": 0,
                "deadline_ms": 9_000_000,
                "tasks": 9,
                "budget_tokens": 10,
            }
        )
    )
    for task in ("t-1", "t-2"):
        story.write("enqueue", task, 0, prompt_tokens=100, target_tokens=900, **deadline, **run)
        story.write("admit", task, 1_000, queue_age_ms=1_000, deadline_slack_ms=599_000, preempts=0, **run)
        story.write("checkpoint", task, 2_000, checkpoint_tokens=10, output_tokens=10, **run)
        story.write("checkpoint", task, 4_000, checkpoint_tokens=50, output_tokens=50, **run)
    story.write("preempt", "t-1", 5_000, wasted_tokens=300, restart_tokens=300, preempts=1, host="h", **run)
    story.write("complete", "t-2", 6_000, output_tokens=900, restart_tokens=0, **run)
    attempt = {"job_id": "j", "lane": "free", "attempt": 1, "enqueue_s": 0, "start_s": 1, "end_s": 2, "outcome": "ok"}
    story.append(json.dumps(attempt | {"tokens_in": 1, "tokens_out": 1, "interventions": 0, "ts_ms": 2_000}))
    spend = {"run": "nightly", "shard": "3", "epoch": 0, "ts_ms": 1_000}
    story.append(
        json.dumps({"event": "reserve", **spend, "tokens": 5, "lease_expires_ms": 2_000, "input_digest": "sha256:aa"})
    )


def holds(matcher: Matcher, labels: dict[str, str]) -> bool:
    """Whether one label set satisfies a matcher."""
    if matcher.label in TARGET_LABELS:
        return True
    actual = labels.get(matcher.label, "")
    return bool(re.fullmatch(matcher.value, actual)) if matcher.operator == "=~" else actual == matcher.value


def test_every_metric_label_and_value_of_the_rules_is_in_a_scrape(tmp_path: Path) -> None:
    """Each selector of each rule matches a sample, alternative by alternative, and groups by labels that are there."""
    story = Story(tmp_path)
    story.reading = replace(story.reading, snapshot_ms=1)
    story.until(15)
    full_ledger(story)
    story.until(30)
    samples: dict[str, list[dict[str, str]]] = {}
    for series in story.scrapes[-1]:
        name, _, labels = series.partition("{")
        samples.setdefault(name, []).append(dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels)))
    recorded = {rule.name for rule in read_rules(rule_files()) if not rule.is_alert}
    asked = 0
    for rule in read_rules(rule_files()):
        for selector in selectors(parse(rule.expression)):
            if selector.metric in recorded:
                continue
            asked += 1
            assert selector.metric in samples, f"{rule.where}: nothing serves {selector.metric}"
            for matcher in selector.matchers:
                choices = matcher.value.split("|") if matcher.operator == "=~" else [matcher.value]
                for choice in choices:
                    one = Matcher(matcher.label, "=", choice, 0, 0)
                    assert any(holds(one, labels) for labels in samples[selector.metric]), f"{rule.where}: {matcher}"
    assert asked > 60
    assert {labels["event"] for labels in samples["preempt_events_total"]} >= set(EVENT_NAMES[:8])
