"""Writes what Kubernetes needs in another wrapping: `python deploy/kubernetes/generate.py [FOLDER]`.

prometheusrule.yml is the rules pack as one PrometheusRule, dashboard.yml the dashboard as a ConfigMap that Grafana's
sidecar picks up. Apply both as they are: templates of alerts (`{{ $labels.lane }}`) are Prometheus' and not Helm's,
which would evaluate them to nothing.
"""

import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from preempt_exporter.rules_pack.pack import dashboard_file
from preempt_exporter.rules_pack.render import one_file, rendered_pack

HERE = Path(__file__).parent

_RULE = """\
# Generated from rules/ by deploy/kubernetes/generate.py; `preempt-exporter rules render` has other thresholds.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: preempt-exporter
  labels:
    app.kubernetes.io/name: preempt-exporter
spec:
"""
_DASHBOARD = """\
# Generated from dashboards/preempt-exporter.json by deploy/kubernetes/generate.py.
apiVersion: v1
kind: ConfigMap
metadata:
  name: preempt-exporter-dashboard
  labels:
    app.kubernetes.io/name: preempt-exporter
    grafana_dashboard: "1"
data:
  preempt-exporter.json: |
"""


def manifests() -> dict[str, str]:
    """The text of each generated file, by name."""
    rules = "".join(line for line in one_file(rendered_pack({})).splitlines(keepends=True) if not line.startswith("#"))
    return {
        "prometheusrule.yml": _RULE + textwrap.indent(rules, "  "),
        "dashboard.yml": _DASHBOARD + textwrap.indent(dashboard_file().read_text(encoding="utf-8"), "    "),
    }


def main(arguments: Sequence[str]) -> int:
    """Write them."""
    folder = Path(arguments[0]) if arguments else HERE
    for name, text in manifests().items():
        (folder / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
