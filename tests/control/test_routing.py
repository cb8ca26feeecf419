"""`POST /v1/route`."""

from pathlib import Path

from preempt_exporter.router.router_yml import read_router_yml
from tests.control.running_control import control

ROUTER_YML = """\
router:
  lanes:
    - {name: free, max_attempts: 2, checkpoint: optional, idempotency_key: "{{ job_id }}"}
    - {name: paid, idempotency_key: "{{ job_id }}"}
  admission: {require_slack_s: 60, require_checkpoint: false}
"""
JOB = {"job_id": "j", "deadline_ms": 36_000_000, "checkpointed": True}
LOST = (
    '{"job_id":"j","lane":"free","attempt":%d,"enqueue_s":0,"start_s":1,"end_s":2,"outcome":"preempted",'
    '"tokens_in":1,"tokens_out":2,"interventions":0}\n'
)


def test_the_router_knows_the_ledger_and_obeys_the_switch_file(tmp_path: Path) -> None:
    """A job goes to the free lane until the lane is under an action, and for good once its attempts are used up."""
    (tmp_path / "router.yml").write_text(ROUTER_YML, encoding="utf-8")
    router = read_router_yml(str(tmp_path / "router.yml"), {})
    with control(tmp_path, router=router) as running:
        assert running.post("/v1/route", JOB).json["lane"] == "free"
        running.client.ask("POST", "/admin/act", {"action": "route_to_paid", "lane": "free"})
        assert running.post("/v1/route", JOB).json["lane"] == "paid"
        assert running.client.task("t", "admit", lane="free")["outcome"] == "admitted"
        running.client.ask("POST", "/admin/resume", {"lane": "free"})
        assert running.post("/v1/route", JOB).json["lane"] == "free"
        assert running.post("/v1/events", (LOST % 1) + (LOST % 2)).status == 200
        assert running.post("/v1/route", JOB).json["lane"] == "paid"
        assert running.post("/v1/route", JOB | {"job_id": "k"}).json["lane"] == "free"
        assert running.post("/v1/route", {"job_id": []}).status == 422


def test_a_service_without_a_router_says_so(tmp_path: Path) -> None:
    """404 with how to get one."""
    with control(tmp_path) as running:
        answer = running.post("/v1/route", JOB)
        assert (answer.status, "--router.config" in answer.json["detail"]) == (404, True)
