"""Every query of every panel has an answer on a real Prometheus that scrapes a real exporter on the drills' ledgers."""

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dashboards.generate import FILE
from dashboards.lint import panels

from preempt_exporter.rules_pack.pack import rules_folder
from tests.rules_pack.real_prometheus import prometheus
from tests.running_exporter import COMMAND, clean_environment, serving, told, wait_until

BOARD = json.loads(FILE.read_text(encoding="utf-8"))


@contextmanager
def drilled(folder: Path) -> Iterator[Path]:
    """A ledger with the past of three drills, and one of them going on."""
    ledger = folder / "attempts.jsonl"
    live = ["drill", "live", "--ledger", ledger, "--run", "night-42", "--seed", "7"]
    opened = ["run_open", "run=night-42", "tasks=100000", "deadline_ms=3600000"]
    for command in (
        [*live, "--seconds", "600", "--clock", "virtual"],
        ["drill", "fence", "--preemptions", "40", "--ledger", ledger, "--seed", "3"],
        ["drill", "batch", "--jobs", folder / "jobs.jsonl", "--telemetry", folder / "batch.jsonl", "--count", "30"],
    ):
        done = told(*command)
        assert done.returncode == 0, done.stderr
    done = told("emit", *opened, environ={"LEDGER_PATH": str(ledger)})
    assert done.returncode == 0, done.stderr
    words = [*COMMAND, *map(str, [*live[:-1], "8"]), "--arrivals-per-s", "6"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, env=clean_environment())
    try:
        yield ledger
    finally:
        process.terminate()
        process.wait(30)


def asked(expression: str) -> str:
    """A panel's expression as Grafana sends it with everything chosen."""
    for variable in BOARD["templating"]["list"]:
        expression = expression.replace(f"${variable['name']}", variable.get("allValue", ""))
    return expression.replace("$__rate_interval", "1m")


def answers(url: str, expression: str) -> int:
    """How many series an expression has now."""
    query = urllib.parse.urlencode({"query": asked(expression)})
    with urllib.request.urlopen(f"{url}/api/v1/query?{query}", timeout=10) as answer:
        return len(json.load(answer)["data"]["result"])


def test_every_query_has_data(tmp_path: Path) -> None:
    """No panel is empty, and no query of it, while the drills run and the rules are loaded."""
    expressions = {
        (panel["title"], at): target["expr"] for panel in panels(BOARD) for at, target in enumerate(panel["targets"])
    }
    assert len(expressions) > 50
    with drilled(tmp_path) as ledger, serving(ledger, tmp_path / "batch.jsonl") as exporter:
        exporter.wait_until_ready()
        target = exporter.url.removeprefix("http://")
        with prometheus(tmp_path / "prometheus", target, [f"{rules_folder()}/*.yml"]) as url:
            empty = dict(expressions)

            def all_have_data() -> bool:
                nonlocal empty
                empty = {place: text for place, text in empty.items() if answers(url, text) == 0}
                return not empty

            wait_until(all_have_data, lambda: "no data: " + "\n".join(f"{p}: {asked(t)}" for p, t in empty.items()))
