"""Writes the dashboard: `python -m dashboards.generate`; `--output FILE` writes it elsewhere.

The result is classic JSON, as Grafana's provisioning and its import page take it, for the Grafana named below and
newer: the SDK's own schema version is older than that, and Grafana brings older ones up to date when it loads them.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as model

from dashboards.exporter_row import exporter_row
from dashboards.lane_row import lane_row, preemption_row
from dashboards.now_row import now_row
from dashboards.pieces import DATASOURCE, EXPORTER
from dashboards.run_row import run_row
from dashboards.task_row import task_row

FILE = Path(__file__).with_name("preempt-exporter.json")
UID = "preempt-exporter"
MINIMUM_GRAFANA = "10.1.0"
RUNBOOKS = "https://example.invalid/preempt-exporter/docs/runbooks"

ROWS = (
    ("What to do now", now_row),
    ("Tasks", task_row),
    ("Preempted, drained, rerouted", preemption_row),
    ("Runs and spend", run_row),
    ("Lanes", lane_row),
    ("The exporter", exporter_row),
)


def the_dashboard() -> str:
    """The dashboard's JSON, the same at every call."""
    board = (
        dashboard.Dashboard("Work on preemptible capacity")
        .uid(UID)
        .description(
            "Queue age, deadline slack and restart tokens of work on capacity that can vanish, and what to do now. "
            f"Needs Grafana {MINIMUM_GRAFANA} or newer. Generated: change dashboards/*.py, not this."
        )
        .tags(["preempt-exporter", "preemption"])
        .readonly()
        .time("now-3h", "now")
        .refresh("30s")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .variables(_variables())
    )
    number = 0
    for title, panels in ROWS:
        number += 1
        board.with_row(dashboard.Row(title).id(number))
        for panel in panels():
            number += 1
            board.with_panel(panel.id(number))
    encoded = json.loads(json.dumps(board.build(), cls=JSONEncoder))
    for variable in encoded["templating"]["list"]:
        del variable["id"]  # the SDK gives all of them the same one; without, Grafana takes the name
    required = {"type": "grafana", "id": "grafana", "name": "Grafana", "version": MINIMUM_GRAFANA}
    return json.dumps({"__requires": [required]} | encoded, indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def _variables() -> list[object]:
    return [
        dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"),
        _choice("cluster", "Cluster", "label_values(preempt_exporter_build_info, cluster)", all_value=".*"),
        _choice("job", "Job", 'label_values(preempt_exporter_build_info{cluster=~"$cluster"}, job)', all_value=".+"),
        _choice(
            "instance",
            "Instance",
            'label_values(preempt_exporter_build_info{cluster=~"$cluster",job=~"$job"}, instance)',
            all_value=".+",
        ),
        _choice("lane", "Lane", f"label_values(preempt_tasks{{{EXPORTER}}}, lane)", all_value=".+"),
        _choice("run", "Run", f"label_values(preempt_run_tasks{{{EXPORTER}}}, run)", all_value=".*"),
        _choice(
            "task_id",
            "Task",
            f'label_values(preempts{{{EXPORTER},lane=~"$lane",run=~"$run"}}, task_id)',
            all_value=".+",
        ),
        dashboard.TextBoxVariable("runbooks").label("Runbooks").default_value(RUNBOOKS),
    ]


def _choice(name: str, label: str, query: str, *, all_value: str) -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(name)
        .label(label)
        .datasource(DATASOURCE)
        .query(query)
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(all_value)
        .current(model.VariableOption(selected=True, text=["All"], value=["$__all"]))
    )


def main(arguments: Sequence[str]) -> int:
    """Write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=FILE, metavar="FILE")
    parser.parse_args(arguments).output.write_text(the_dashboard(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
