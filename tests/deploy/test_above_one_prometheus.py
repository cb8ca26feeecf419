"""Federation and remote write: what leaves the Prometheus at the driver, and that single tasks do not."""

import json
import re
import subprocess
import urllib.parse
from pathlib import Path

import pytest
import yaml
from tools.demo_stack import Stack, get

from preempt_exporter.rules_pack.pack import rules_folder
from tests.rules_pack.real_prometheus import page_of, prometheus
from tests.running_exporter import told, wait_until

FOLDER = Path(__file__).parents[2] / "deploy" / "prometheus"


@pytest.mark.parametrize("name", ["federation.yml", "remote-write.yml"])
def test_promtool_takes_it(tmp_path: Path, name: str) -> None:
    """Prometheus reads the file, its rules included."""
    text = (FOLDER / name).read_text(encoding="utf-8").replace("rules.d", str(rules_folder()))
    (tmp_path / name).write_text(text, encoding="utf-8")
    done = subprocess.run(["promtool", "check", "config", tmp_path / name], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def names(url: str, matcher: str) -> set[str]:
    """The names of the series that match, now."""
    query = urllib.parse.urlencode({"query": f"count by (__name__) ({matcher})"})
    told = json.loads(get(f"{url}/api/v1/query?{query}") or b'{"data": {"result": []}}')
    return {series["metric"]["__name__"] for series in told["data"]["result"]}


def test_federation_takes_lanes_and_runs_and_no_task(tmp_path: Path) -> None:
    """A real Prometheus above a real one: every lane, run and recorded series is there, no series names a task."""
    scrape = tmp_path / "scrape.prom"
    ledger = tmp_path / "l.jsonl"
    for command in (
        ("drill", "live", "--ledger", ledger, "--seconds", "300", "--clock", "virtual", "--seed", "7"),
        ("drill", "fence", "--preemptions", "10", "--ledger", ledger),
        ("export", ledger, "--textfile", scrape),
    ):
        done = told(*command)
        assert done.returncode == 0, done.stderr
    with (
        page_of(scrape.read_text(encoding="utf-8")) as page,
        prometheus(tmp_path / "below", page, [f"{rules_folder()}/*.yml"]) as below,
    ):
        assert names(below, '{task_id!=""}')
        above = Stack(tmp_path)
        text = (FOLDER / "federation.yml").read_text(encoding="utf-8")
        text = re.sub(r"targets: \[.*\]", f"targets: ['{below.removeprefix('http://')}']", text)
        text = text.replace("_interval: 30s", "_interval: 1s")
        (tmp_path / "federation.yml").write_text(text, encoding="utf-8")
        words = [
            "prometheus",
            f"--config.file={tmp_path / 'federation.yml'}",
            f"--storage.tsdb.path={tmp_path / 'tsdb'}",
        ]
        words.append(f"--web.listen-address=127.0.0.1:{above.ports['prometheus']}")
        url = above.url("prometheus")
        try:
            above.start("prometheus", words, lambda: bool(names(url, '{__name__=~"preempt_.+"}')))
            of_the_exporter = "preempt_(ledger|state|exporter_build).*"
            wanted = names(below, f'{{__name__=~"preempt_.+",__name__!~"{of_the_exporter}",task_id=""}}')
            wanted |= names(below, '{__name__=~".+:preempt_.+"}')
            assert len(wanted) > 50
            missing = wanted

            def all_are_there() -> bool:
                nonlocal missing
                missing = wanted - names(url, '{__name__=~".+"}')
                return not missing

            wait_until(all_are_there, lambda: f"not federated: {missing}")
            assert names(url, '{task_id!=""}') == set()
        finally:
            above.stop("prometheus")


def test_nothing_is_recorded_above_that_comes_up_from_below() -> None:
    """What rules record below is federated; the same rules above would make every figure twice."""
    given = yaml.safe_load((FOLDER / "federation.yml").read_text(encoding="utf-8"))
    assert "rule_files" not in given
    (job,) = given["scrape_configs"]
    names_taken = [re.search(r'__name__=~"([^"]+)"', matcher) for matcher in job["params"]["match[]"]]
    for path in rules_folder().glob("*.yml"):
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]:
            for rule in group["rules"]:
                record = rule.get("record")
                assert record is None or any(taken and re.fullmatch(taken[1], record) for taken in names_taken), record


def test_remote_write_drops_tasks_and_keeps_the_rest() -> None:
    """The relabelling drops a series if and only if it names a task, or is Prometheus' own memory of alerts."""
    (target,) = yaml.safe_load((FOLDER / "remote-write.yml").read_text(encoding="utf-8"))["remote_write"]

    def is_dropped(labels: dict[str, str]) -> bool:
        return any(
            rule["action"] == "drop" and re.fullmatch(rule["regex"], labels.get(rule["source_labels"][0], ""))
            for rule in target["write_relabel_configs"]
        )

    assert is_dropped({"__name__": "queue_age_ms", "task_id": "a-17"})
    assert is_dropped({"__name__": "ALERTS_FOR_STATE", "alertname": "LaneReclaimed"})
    assert not is_dropped({"__name__": "preempt_tasks", "lane": "free"})
    assert not is_dropped({"__name__": "ALERTS", "alertname": "LaneReclaimed", "lane": "free"})
