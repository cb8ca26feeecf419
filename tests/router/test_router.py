"""The router with telemetry: history, lanes under an action, hosts, idempotency."""

import pytest

from preempt_exporter.decide.routing import RoutingPolicy
from preempt_exporter.errors import UsageError
from preempt_exporter.ledger.records import Attempt
from preempt_exporter.router.job_request import JobRequest, job_from_json
from preempt_exporter.router.router import Router
from preempt_exporter.router.router_yml import LaneConfig, RouterConfig

CONFIG = RouterConfig(
    lanes=(
        LaneConfig(name="free", max_attempts=2, idempotency_key="{{ job_id }}"),
        LaneConfig(name="paid", idempotency_key="{{ job_id }}"),
    ),
    policy=RoutingPolicy(require_slack_s=60.0),
)
JOB = JobRequest(job_id="j", checkpointed=True, deadline_ms=3_600_000)


def attempt(job_id: str, outcome: str = "ok", lane: str = "free", number: int = 1, run: str | None = None) -> Attempt:
    """An attempt of 10 s wait and 100 s run."""
    return Attempt(
        job_id=job_id,
        lane=lane,
        attempt=number,
        enqueue_s=0,
        start_s=10,
        end_s=110,
        outcome=outcome,
        tokens_in=1,
        tokens_out=1,
        interventions=0,
        run=run,
    )


def test_a_job_whose_attempts_are_used_up_goes_to_the_next_lane() -> None:
    """Preemptions and failures are counted apart, and both are dispatches; another run's job is another job."""
    router = Router(CONFIG)
    router.add_all([attempt("j", "preempted"), attempt("j", "oom", number=2), attempt("j", "ok", run="r2")])
    decision = router.route(JOB, now_ms=0)
    assert (decision.lane, decision.passed_over) == ("paid", {"free": "attempts_used_up"})
    history = router.history_of(JOB)["free"]
    assert (history.attempts, history.preempted, history.failed) == (2, 1, 1)
    assert (
        router.route(JobRequest(job_id="j", run="r2", checkpointed=True, deadline_ms=3_600_000), now_ms=0).lane
        == "free"
    )


def test_measured_rework_turns_jobs_away() -> None:
    """20 completed jobs with 31 attempts: rework 1.55."""
    router = Router(CONFIG)
    router.add_all(attempt(str(n)) for n in range(20))
    router.add_all(attempt(str(n), "preempted", number=2) for n in range(10))
    assert router.route(JOB, now_ms=0).row == "slack_covers_required"
    router.add(attempt("10", "preempted", number=2))
    assert router.route(JOB, now_ms=0).row == "rework_above_max"


def test_a_lane_under_an_action_is_not_chosen() -> None:
    """`abandon_lane` on the cheap lane sends jobs to the paid one."""
    decision = Router(CONFIG).route(JOB, now_ms=0, lane_actions={"free": "abandon_lane"})
    assert (decision.lane, decision.passed_over) == ("paid", {"free": "lane_under_action"})


def test_a_host_with_two_preemptions_is_avoided() -> None:
    """The count comes from the telemetry."""
    job = JobRequest(job_id="j", checkpointed=True, deadline_ms=3_600_000, host="h1")
    decision = Router(CONFIG).route(job, now_ms=0, preempts_by_host={"h1": 2})
    assert (decision.row, decision.avoid_host) == ("host_preempted_before", "h1")


def test_lanes_with_keys_make_jobs_idempotent_unless_they_say_no() -> None:
    """One lane's key goes along to the others; without any key a job must say that it is idempotent itself."""
    bare = RouterConfig(lanes=(LaneConfig(name="free"), LaneConfig(name="paid")), policy=CONFIG.policy)
    assert Router(bare).route(JOB, now_ms=0).row == "not_idempotent"
    yes = JobRequest(job_id="j", idempotent=True, checkpointed=True, deadline_ms=3_600_000)
    assert Router(bare).route(yes, now_ms=0).lane == "free"
    one = RouterConfig(
        lanes=(LaneConfig(name="free", idempotency_key="k-{{ job_id }}"), LaneConfig(name="paid")), policy=CONFIG.policy
    )
    assert Router(one).route(JOB, now_ms=0).lane == "free"
    assert (one.idempotency_key_for("j", None), bare.idempotency_key_for("j", None)) == ("k-j", None)
    no = JobRequest(job_id="j", idempotent=False, checkpointed=True, deadline_ms=3_600_000)
    assert Router(CONFIG).route(no, now_ms=0).row == "not_idempotent"


def test_attempts_in_other_lanes_are_passed_by() -> None:
    """Telemetry of a lane that is not configured changes nothing."""
    router = Router(CONFIG)
    router.add(attempt("j", "preempted", lane="elsewhere"))
    assert router.history_of(JOB) == {}


def test_a_job_is_read_from_json() -> None:
    """Numbers become names, age comes from the moment of enqueue, unknown fields are named."""
    job, ignored = job_from_json(
        '{"job_id": 17, "run": 3, "enqueued_ms": 1000, "target_tokens": 200, "checkpoint_tokens": 50, "size": "small"}'
    )
    assert (job.job_name, job.run_name, list(ignored)) == ("17", "3", ["size"])
    routed = job.as_routed_job(lanes_give_keys=True, now_ms=3000)
    assert (routed.queue_age_ms, routed.remaining_output_tokens, routed.checkpointed) == (2000, 150, True)
    assert job.as_routed_job(lanes_give_keys=True, now_ms=0).queue_age_ms == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"job_id": null}',
        '{"job_id": ""}',
        '{"job_id": "j", "deadline_ms": -1}',
        '{"job_id": "j", "host": 3}',
    ],
)
def test_what_is_no_job_is_refused(text: str) -> None:
    """One sentence that lists the fields."""
    with pytest.raises(UsageError, match="fields are job_id"):
        job_from_json(text)
