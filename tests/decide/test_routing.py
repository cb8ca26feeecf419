"""The routing table: every row on both sides, first match wins, every decision named."""

import pytest
from msgspec.structs import replace

from preempt_exporter.decide.break_even import LaneFigures, lane_figures
from preempt_exporter.decide.routing import (
    ROWS,
    JobHistory,
    RoutedJob,
    RoutedLane,
    RoutingDecision,
    RoutingPolicy,
    route_job,
)
from preempt_exporter.ledger.records import Attempt

HOUR_MS = 3_600_000


def measured(jobs: int = 20, **changes: object) -> LaneFigures:
    """A healthy lane: `jobs` jobs of 10 s wait, 100 s run, required slack 410 s."""
    attempts = [
        Attempt(
            job_id=str(n),
            lane="free",
            attempt=1,
            enqueue_s=0,
            start_s=10,
            end_s=110,
            outcome="ok",
            tokens_in=100,
            tokens_out=10,
            interventions=0,
        )
        for n in range(jobs)
    ]
    return replace(lane_figures("free", attempts, margin_s=300), **changes)


FREE = RoutedLane(name="free", figures=measured())
PAID = RoutedLane(name="paid")
JOB = RoutedJob(job_id="j", idempotent=True, checkpointed=True, deadline_ms=4 * HOUR_MS)
BARE = replace(JOB, checkpointed=False)


def route(
    job: RoutedJob = JOB,
    lanes: tuple[RoutedLane, ...] = (FREE, PAID),
    history: dict[str, JobHistory] | None = None,
    **policy: object,
) -> RoutingDecision:
    """Ask the table with a healthy free lane and a paid one."""
    return route_job(job, lanes, history or {}, RoutingPolicy(**policy))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("job", "lane", "row"),
    [
        (replace(JOB, idempotent=False), None, "not_idempotent"),
        (replace(JOB, deadline_ms=59_999), "paid", "deadline_under_a_minute"),
        (replace(JOB, deadline_ms=60_000), "paid", "otherwise_paid"),
        (replace(JOB, queue_age_ms=2 * HOUR_MS + 1), "paid", "queue_age_past_half_deadline"),
        (replace(JOB, queue_age_ms=2 * HOUR_MS), "free", "slack_covers_required"),
        (replace(BARE, deadline_ms=1_799_999), "paid", "short_deadline_without_checkpoint"),
        (replace(BARE, deadline_ms=1_800_000), "paid", "otherwise_paid"),
        (replace(JOB, deadline_ms=1_799_999), "free", "slack_covers_required"),
        (
            replace(BARE, prompt_tokens=401, remaining_output_tokens=100),
            "paid",
            "prompt_heavy_without_checkpoint",
        ),
        (replace(BARE, prompt_tokens=400, remaining_output_tokens=100), "paid", "otherwise_paid"),
        (replace(JOB, prompt_tokens=401, remaining_output_tokens=100), "free", "slack_covers_required"),
        (replace(JOB, deadline_ms=410_000), "free", "slack_covers_required"),
        (replace(JOB, deadline_ms=409_999), "paid", "otherwise_paid"),
        (replace(JOB, deadline_ms=None), "paid", "otherwise_paid"),
    ],
)
def test_rows_that_the_job_decides(job: RoutedJob, lane: str | None, row: str) -> None:
    """Each condition on both sides of its boundary."""
    decision = route(job)
    assert (decision.lane, decision.row) == (lane, row)


@pytest.mark.parametrize(
    ("changes", "lane", "row"),
    [
        ({"rework_multiplier": 1.5}, "free", "slack_covers_required"),
        ({"rework_multiplier": 1.501}, "paid", "rework_above_max"),
        ({"interventions_per_100": 5.0}, "free", "slack_covers_required"),
        ({"interventions_per_100": 5.01}, "paid", "interventions_above_max"),
    ],
)
def test_rows_that_the_lane_decides(changes: dict[str, object], lane: str, row: str) -> None:
    """Rework and interventions are judged against their maximum, which itself is allowed."""
    decision = route(lanes=(replace(FREE, figures=measured(**changes)), PAID))  # type: ignore[arg-type]
    assert (decision.lane, decision.row) == (lane, row)


def test_earlier_rows_win() -> None:
    """A job and a lane with every fault are told the first one, then the next."""
    bad_lane = replace(FREE, figures=measured(rework_multiplier=9.0, interventions_per_100=99.0))
    job = replace(
        BARE,
        idempotent=False,
        deadline_ms=1_000,
        queue_age_ms=999_999,
        prompt_tokens=999,
        remaining_output_tokens=1,
    )
    heal: list[tuple[dict[str, object], str]] = [
        ({}, "not_idempotent"),
        ({"idempotent": True}, "deadline_under_a_minute"),
        ({"deadline_ms": 1_700_000}, "queue_age_past_half_deadline"),
        ({"queue_age_ms": 0}, "short_deadline_without_checkpoint"),
        ({"deadline_ms": HOUR_MS}, "prompt_heavy_without_checkpoint"),
        ({"prompt_tokens": 1}, "rework_above_max"),
    ]
    for change, row in heal:
        job = replace(job, **change)
        assert route(job, (bad_lane, PAID)).row == row
    calmer = replace(FREE, figures=measured(interventions_per_100=99.0))
    assert route(job, (calmer, PAID)).row == "interventions_above_max"


def test_a_host_that_preempted_twice_is_avoided() -> None:
    """The host is named; where the job goes follows from the slack, on another host."""
    lane = replace(FREE, preempts_by_host={"h1": 2, "h2": 1})
    avoided = route(replace(JOB, host="h1"), (lane, PAID))
    assert (avoided.row, avoided.avoid_host, avoided.lane) == ("host_preempted_before", "h1", "free")
    tight = route(replace(JOB, host="h1", deadline_ms=100_000), (lane, PAID))
    assert (tight.row, tight.avoid_host, tight.lane) == ("host_preempted_before", "h1", "paid")
    assert route(replace(JOB, host="h2"), (lane, PAID)).row == "slack_covers_required"


def test_the_larger_of_configured_and_measured_slack_holds() -> None:
    """A configured 9000 s beats the measured 410 s, and a configured 1 s does not lower it."""
    two_hours = replace(JOB, deadline_ms=2 * HOUR_MS)
    assert route(two_hours, require_slack_s=7200.0).lane == "free"
    assert route(two_hours, require_slack_s=7201.0).lane == "paid"
    assert route(replace(JOB, deadline_ms=409_999), require_slack_s=1.0).lane == "paid"


def test_too_little_telemetry_is_said_and_never_guessed_over() -> None:
    """19 completed jobs: their rework is not believed, the configured slack alone decides, without it paid."""
    few = replace(FREE, figures=measured(19, rework_multiplier=9.0))
    unknown = route(lanes=(few, PAID))
    assert (unknown.lane, unknown.row, unknown.too_little_telemetry) == ("paid", "otherwise_paid", True)
    assert "19 of 20 completed jobs" in unknown.reason
    configured = route(lanes=(few, PAID), require_slack_s=60.0)
    assert (configured.lane, configured.too_little_telemetry, configured.required_slack_s) == ("free", True, 60.0)
    assert "too little telemetry" not in route().reason


@pytest.mark.parametrize(
    ("lane", "history", "job", "why"),
    [
        (replace(FREE, max_attempts=2), JobHistory(attempts=2, preempted=1, failed=1), JOB, "attempts_used_up"),
        (replace(FREE, budget_tokens=2199), JobHistory(), JOB, "lane_budget_spent"),
        (
            replace(FREE, budget_tokens=2300),
            JobHistory(),
            replace(JOB, prompt_tokens=100, remaining_output_tokens=1),
            "lane_budget_spent",
        ),
        (replace(FREE, budget_tokens=2200), JobHistory(), JOB, "lane_budget_spent"),
        (RoutedLane(name="free", max_attempts=0), JobHistory(), JOB, "attempts_used_up"),
        (RoutedLane(name="free", budget_tokens=0), JobHistory(), JOB, "lane_budget_spent"),
        (replace(FREE, action="drain_and_reject"), JobHistory(), JOB, "lane_under_action"),
        (replace(FREE, checkpoint_required=True), JobHistory(), BARE, "checkpoint_required"),
    ],
)
def test_a_lane_that_may_not_take_the_job_is_passed_over(
    lane: RoutedLane, history: JobHistory, job: RoutedJob, why: str
) -> None:
    """The job goes to the next lane and the decision says what turned it away."""
    decision = route(job, (lane, PAID), {"free": history})
    assert (decision.lane, decision.passed_over) == ("paid", {"free": why})


@pytest.mark.parametrize(
    ("job", "row"),
    [
        (replace(BARE, deadline_ms=59_999), "deadline_under_a_minute"),
        (replace(BARE, deadline_ms=1_799_999), "short_deadline_without_checkpoint"),
        (replace(BARE, prompt_tokens=401, remaining_output_tokens=100), "prompt_heavy_without_checkpoint"),
        (BARE, "otherwise_paid"),
    ],
)
def test_the_first_row_that_matches_is_named_even_where_the_lane_would_not_take_the_job(
    job: RoutedJob, row: str
) -> None:
    """A lane that requires checkpoints, whose attempts are used up too: the table's order holds all the same."""
    lane = replace(FREE, checkpoint_required=True, max_attempts=1)
    assert route(job, (lane, PAID), {"free": JobHistory(attempts=1)}).row == row


@pytest.mark.parametrize(("action", "lane"), [("route_to_paid", "paid"), ("abandon_lane", None)])
def test_sending_the_paid_lanes_jobs_to_the_paid_lane_fails_none(action: str, lane: str | None) -> None:
    """An alert may ask for `route_to_paid` of any lane: of the paid one it asks for nothing, other actions close it."""
    decision = route(replace(JOB, deadline_ms=30_000), (FREE, replace(PAID, action=action)))
    assert decision.lane == lane
    assert route(lanes=(replace(PAID, action=action),)).lane == lane


def test_a_lane_at_the_edge_of_its_limits_still_takes_the_job() -> None:
    """One attempt left, and a budget that the job spends to the last token."""
    lane = replace(FREE, max_attempts=2, budget_tokens=2301)
    job = replace(JOB, prompt_tokens=100, remaining_output_tokens=1)
    assert route(job, (lane, PAID), {"free": JobHistory(attempts=1, preempted=1)}).lane == "free"


def test_a_job_without_any_lane_left_has_failed() -> None:
    """Attempts used up everywhere: no lane, the row says so and both lanes are listed."""
    used = {"free": JobHistory(attempts=2), "paid": JobHistory(attempts=3)}
    decision = route(JOB, (replace(FREE, max_attempts=2), replace(PAID, max_attempts=3)), used)
    assert (decision.lane, decision.row) == (None, "no_lane_left")
    assert decision.passed_over == {"free": "attempts_used_up", "paid": "attempts_used_up"}


def test_cheap_lanes_are_tried_in_order() -> None:
    """The second cheap lane takes what the first one's rework turned away."""
    bad = RoutedLane(name="spot-a", figures=measured(rework_multiplier=2.0))
    good = RoutedLane(name="spot-b", figures=measured())
    decision = route(JOB, (bad, good, PAID))
    assert (decision.lane, decision.row, decision.passed_over) == (
        "spot-b",
        "slack_covers_required",
        {"spot-a": "rework_above_max"},
    )


def test_without_checkpoint_the_cheap_lane_opens_only_by_configuration() -> None:
    """`require_checkpoint: false` lets a job without checkpoint in where slack covers."""
    assert route(BARE).lane == "paid"
    assert route(BARE, require_checkpoint=False).lane == "free"


def test_a_single_lane_is_the_paid_lane() -> None:
    """With one lane configured every idempotent job goes there."""
    assert (route(JOB, (PAID,)).lane, route(JOB, (PAID,)).row) == ("paid", "otherwise_paid")


def test_the_printed_table_has_each_row_once() -> None:
    """What a reader is shown names the rows that decisions name."""
    names = [row for row, _, _ in ROWS]
    assert len(names) == len(set(names))
    assert {"not_idempotent", "otherwise_paid", "no_lane_left", "host_preempted_before"} <= set(names)
