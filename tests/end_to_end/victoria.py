"""VictoriaMetrics in Prometheus' place: it scrapes by the same configuration, and vmalert evaluates the same rules."""

import urllib.parse
from pathlib import Path

from tools.demo_stack import ROOT, Stack, free_ports, get, prometheus_yml

ENGINES = ROOT / ".engines" / "sid" / "usr" / "bin"


def engine(name: str) -> Path:
    """A program of VictoriaMetrics."""
    there = ENGINES / name
    assert there.exists(), f"{name} is not here: run tools/fetch-rule-engines.sh"
    return there


def start_victoria(stack: Stack) -> None:
    """The database, then the rules; alerts are asked for where Prometheus' would be."""
    (port,) = free_ports(1)
    database = f"http://127.0.0.1:{port}"
    words = [engine("victoria-metrics"), f"-promscrape.config={prometheus_yml(stack)}"]
    words += ["-promscrape.config.strictParse=false", f"-storageDataPath={stack.folder / 'victoria'}"]
    # Without the two it looks half a minute into the past, which is right for a cluster and slow for a test.
    words += [f"-httpListenAddr=127.0.0.1:{port}", "-search.latencyOffset=0s", "-search.disableCache"]
    query = urllib.parse.urlencode({"query": "preempt_exporter_ready == 1"})
    stack.start("victoria", words, lambda: b'"value"' in (get(f"{database}/api/v1/query?{query}") or b""))
    words = [engine("vmalert"), f"-rule={ROOT / 'rules'}/*.yml", f"-datasource.url={database}"]
    words += [f"-remoteWrite.url={database}", f"-notifier.url={stack.url('alertmanager')}"]
    words += ["-evaluationInterval=1s", "-rule.evalDelay=0s", "-external.label=cluster=main"]
    words += [f"-httpListenAddr=127.0.0.1:{stack.ports['prometheus']}"]
    stack.start("vmalert", words, lambda: get(f"{stack.url('prometheus')}/health") is not None)
