"""The drill: a lane is drained while a batch runs, with real processes and the literal curl of the docs."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.control.running_control import DEADLINE_S, control_process
from tests.running_exporter import serving, told

CURL = """curl -X POST localhost:8080/admin/drain -d '{"lane":"free"}'"""
ROUTER_YML = """\
router:
  lanes:
    - {name: free, max_attempts: 2, checkpoint: required, idempotency_key: "{{ job_id }}"}
    - {name: paid, idempotency_key: "{{ job_id }}"}
  admission: {require_slack_s: 60, require_checkpoint: true}
  thresholds: {completed_jobs_min: 1}
"""
JOB = '{"job_id":"next","checkpointed":true,"deadline_ms":36000000,"prompt_tokens":10,"target_tokens":100}'


class Worker:
    """A running worker process."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.started = self.hears()

    def hears(self) -> str:
        """The next answer that it got."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def reports(self, op: str) -> str:
        """Have it report, and tell what it was answered."""
        assert self.process.stdin is not None
        self.process.stdin.write(op + "\n")
        self.process.stdin.flush()
        return self.hears()


@contextmanager
def worker(url: str, task: str, lane: str = "free") -> Iterator[Worker]:
    """A worker that has asked to start; ended on the way out."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.control.batch_worker", url, task, lane],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Worker(process)
    finally:
        process.kill()
        process.communicate()


def run_in_shell(line: str) -> str:
    """What a person would have typed; its standard output."""
    done = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    return done.stdout


def test_a_lane_is_drained_while_a_batch_runs_and_comes_back(tmp_path: Path) -> None:
    """In flight finishes, nothing new is admitted, the router pays, `undone` lists what fell, `act resume` reopens."""
    assert shutil.which("curl"), "install Debian's package curl"
    ledger, router = tmp_path / "l.jsonl", tmp_path / "router.yml"
    router.write_text(ROUTER_YML, encoding="utf-8")
    ledger.touch()
    docs = (Path(__file__).parents[2] / "docs" / "control.md").read_text(encoding="utf-8")
    assert CURL in docs
    with (
        serving(ledger) as exporter,
        control_process(ledger, "--insecure-loopback", "--router.config", str(router)) as service,
    ):
        curl = CURL.replace("localhost:8080", service.url.removeprefix("http://").replace("127.0.0.1", "localhost"))
        route = f"{curl.split('/admin')[0]}/v1/route -d '{JOB}'"
        with worker(service.url, "finishes") as finishes, worker(service.url, "falls") as falls:
            assert (finishes.started, falls.started) == ("admitted", "admitted")
            assert falls.reports("checkpoint") == "recorded"
            assert json.loads(run_in_shell(route))["lane"] == "free"
            drained = json.loads(run_in_shell(curl))
            assert (drained["outcome"], drained["in_flight"]) == ("done", 2)
            exporter.wait_for_value(1.0, "preempt_lane_draining", lane="free")

            with worker(service.url, "new") as new:
                assert new.started == "rejected"
            with worker(service.url, "elsewhere", lane="paid") as elsewhere:
                assert elsewhere.started == "admitted"
                assert elsewhere.reports("complete") == "recorded"
            assert json.loads(run_in_shell(route))["lane"] == "paid"

            assert finishes.reports("complete") == "recorded"
            falls.process.kill()
            service.end()
        with control_process(
            ledger, "--insecure-loopback", "--router.config", str(router), address=re.sub("^http://", "", service.url)
        ) as again:
            run_in_shell(f'curl -X POST {again.url}/v1/tasks/falls/preempt -d \'{{"run":"night"}}\'')
            with worker(again.url, "falls") as replay:
                assert replay.started == "refused"
            assert json.loads(run_in_shell(f"curl {again.url}/admin/lanes"))["lanes"][0]["in_flight"] == 0

            undone = json.loads(told("undone", ledger, "--json").stdout)
            assert [(task["task_id"], task["state"]) for task in undone] == [("new", "rejected"), ("falls", "drained")]
            assert {task["reason"] for task in undone} == {"drain_mode"}

            resumed = told("act", "resume", "--lane", "free", "--control", again.url, "--reason", "quiet for an hour")
            assert (resumed.returncode, resumed.stdout) == (0, "resume lane free (0 in flight)\n")
            exporter.wait_for_value(0.0, "preempt_lane_draining", lane="free")
            with worker(again.url, "new") as new:
                assert new.started == "admitted"
            assert json.loads(run_in_shell(route))["lane"] == "free"
        assert '"reason":"quiet for an hour"' in ledger.read_text(encoding="utf-8")
