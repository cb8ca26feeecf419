"""What single panels answer in cases where a plausible query would mislead, judged by promtool."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from dashboards.generate import FILE
from dashboards.lint import panels

BOARD = json.loads(FILE.read_text(encoding="utf-8"))
TARGET = 'job="preempt-exporter",instance="a"'


def query(title: str, number: int = 0, **chosen: str) -> str:
    """A panel's query as Grafana sends it, with everything chosen but for what is said."""
    (panel,) = [panel for panel in panels(BOARD) if panel["title"] == title]
    expression: str = panel["targets"][number]["expr"]
    for variable in BOARD["templating"]["list"]:
        name = variable["name"]
        expression = expression.replace(f"${name}", chosen.get(name, variable.get("allValue", "")))
    return expression.replace("$__rate_interval", "1m")


def says(folder: Path, expression: str, series: dict[str, str], expected: dict[str, float]) -> None:
    """Have promtool judge that after 10 minutes of these series the query has exactly these values, by labels."""
    test = {
        "interval": "15s",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": expression,
                "eval_time": "10m",
                "exp_samples": [{"labels": labels, "value": value} for labels, value in expected.items()],
            }
        ],
    }
    file = folder / "panel.yml"
    file.write_text(yaml.safe_dump({"evaluation_interval": "15s", "tests": [test]}), encoding="utf-8")
    done = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, re.sub(r"\s+", " ", done.stdout + done.stderr)


@pytest.mark.parametrize(
    ("chosen", "expected"), [({}, {"free": 0.25, "paid": 0.75}), ({"lane": "free"}, {"free": 0.25})]
)
def test_share_of_a_lane_is_of_all_lanes(tmp_path: Path, chosen: dict[str, str], expected: dict[str, float]) -> None:
    """An alert's link chooses one lane; its share must still fall when work goes elsewhere."""
    series = {
        f'preempt_lane_attempts_total{{{TARGET},lane="{lane}",outcome="ok"}}': f"0+{step}x40"
        for lane, step in (("free", 1), ("paid", 3))
    }
    says(
        tmp_path,
        query("Rerouted", **chosen),
        series,
        {f'{{lane="{lane}"}}': share for lane, share in expected.items()},
    )


def test_exporter_that_is_down_is_not_hidden_by_one_that_is_ready(tmp_path: Path) -> None:
    """One of two cannot be scraped: 0, though all that says anything says 1."""
    series = {
        'up{job="preempt-exporter",instance="a"}': "1x40",
        'preempt_exporter_ready{job="preempt-exporter",instance="a"}': "1x40",
        'up{job="preempt-exporter",instance="b"}': "0x40",
    }
    says(tmp_path, query("Exporter"), series, {"{}": 0})
    says(tmp_path, query("Exporter", instance="a"), series, {"{}": 1})


def test_complete_run_is_not_late_once_its_deadline_is_over(tmp_path: Path) -> None:
    """Its slack is all its time, and falls below 0 with it; only runs with work left, or live tasks, show."""
    series = {}
    for run, slack, live in (("over", "300-15x40", 0), ("night", "200-15x40", 0), ("more", "300-15x40", 2)):
        series[f'preempt_run_tasks{{{TARGET},run="{run}",state="running"}}'] = f"{live}x40"
        series[f'preempt_run_projected_slack_seconds{{{TARGET},run="{run}"}}'] = slack
        series[f'preempt_run_deadline_timestamp_seconds{{{TARGET},run="{run}"}}'] = "300x40"
    says(tmp_path, query("Runs against their hand-over"), series, {'{run="night"}': -400, '{run="more"}': -300})


def test_thousand_tasks_of_one_alert_are_one_row(tmp_path: Path) -> None:
    """What is to be done for a lane is not buried under the tasks that need it."""
    labels = (
        'alertname="RestartTokensBeatSlack",alertstate="firing",severity="page",action="drain_and_reject",lane="free"'
    )
    series = {f'ALERTS{{{labels},run="night",task_id="t{number}"}}': "1x40" for number in range(50)}
    row = '{action="drain_and_reject",alertname="RestartTokensBeatSlack",lane="free",run="night",severity="page"}'
    says(tmp_path, query("What to do now"), series, {row: 50})


@pytest.mark.parametrize(
    ("title", "value", "limit"),
    [
        ("Queue age against half the deadline", "queue_age_ms", "deadline_ms"),
        ("Restart tokens against the budget's fraction", "restart_tokens", "task_budget"),
    ],
)
def test_tasks_without_any_room_do_not_push_the_others_out(tmp_path: Path, title: str, value: str, limit: str) -> None:
    """Ten tasks with a deadline or budget of 0 are infinitely far past it, which no panel can draw."""
    series = {}
    for number in range(11):
        labels = f'{TARGET},lane="free",task_id="t{number}"'
        series[f"{value}{{{labels}}}"] = "50x40"
        series[f"{limit}{{{labels}}}"] = "100x40" if number == 10 else "0x40"
    says(tmp_path, query(title), series, {f'{{{TARGET},lane="free",task_id="t10"}}': 0.5})
