"""Which lane a job goes to: a decision table, first match wins, and every decision names its row.

Lanes stand in the operator's order of preference; the last one is the paid lane, which the table falls back to, those
before it are cheap lanes and are tried in turn. Where no earlier row decides, a lane that a job may not enter
(attempts used up, token budget spent, under an action, a checkpoint required that the job does not write) is passed
over; where the paid lane itself is passed over the job has failed.

Figures of a lane with too few completed jobs are not used and not guessed: the rows that need them do not match, the
decision says so (`too_little_telemetry`), and the required slack is what the operator configured, or unknown, and
then the cheap lane is not chosen.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from preempt_exporter.decide.admission import exceeds_fraction
from preempt_exporter.decide.break_even import LaneFigures
from preempt_exporter.decide.lane_action import forbids_routing
from preempt_exporter.settings import RoutingThresholds, Thresholds

Row = Literal[
    "not_idempotent",
    "deadline_under_a_minute",
    "queue_age_past_half_deadline",
    "short_deadline_without_checkpoint",
    "prompt_heavy_without_checkpoint",
    "rework_above_max",
    "interventions_above_max",
    "host_preempted_before",
    "slack_covers_required",
    "otherwise_paid",
    "no_lane_left",
]
PassedOver = Literal[
    "attempts_used_up", "lane_budget_spent", "lane_under_action", "checkpoint_required", "slack_below_required"
]

ROWS: tuple[tuple[Row, str, str], ...] = (
    ("not_idempotent", "the job is not idempotent", "neither lane, fix first"),
    ("deadline_under_a_minute", "its deadline is under a minute", "paid"),
    ("queue_age_past_half_deadline", "its queue age is past half the deadline", "paid"),
    ("short_deadline_without_checkpoint", "its deadline is under 30 minutes and it has no checkpoint", "paid"),
    ("prompt_heavy_without_checkpoint", "prompt over 4 times the remaining output, no checkpoint", "paid"),
    ("rework_above_max", "the lane's rework multiplier is above 1.5", "paid"),
    ("interventions_above_max", "the lane's interventions per 100 jobs are above 5", "paid"),
    ("host_preempted_before", "two preemptions are recorded on that host", "not that host"),
    ("slack_covers_required", "slack covers what is required and a checkpoint is there", "free"),
    ("otherwise_paid", "anything else", "paid"),
    ("no_lane_left", "no lane may take the job", "failed"),
)
"""The table for a reader: row, condition at the default thresholds, where the job goes."""

_ROWS_ABOUT_ENTERING: frozenset[Row] = frozenset({"host_preempted_before", "slack_covers_required", "otherwise_paid"})
"""What is asked once nothing speaks against the cheap lane: only then it matters whether the job may enter it."""


class RoutedJob(Struct, frozen=True, kw_only=True):
    """What the table knows of a job. None: unknown, and the rows that need it do not match."""

    job_id: str
    idempotent: bool
    checkpointed: bool = False
    """Whether it has, or will write, checkpoints that a restart resumes from."""
    deadline_ms: int | None = None
    """Duration from enqueue."""
    queue_age_ms: int = 0
    prompt_tokens: int | None = None
    remaining_output_tokens: int | None = None
    host: str | None = None
    """The host that it would run on."""

    @property
    def deadline_slack_s(self) -> float | None:
        """Deadline less queue age, in seconds."""
        return None if self.deadline_ms is None else (self.deadline_ms - self.queue_age_ms) / 1000


class RoutedLane(Struct, frozen=True, kw_only=True):
    """One lane as configured and as measured."""

    name: str
    max_attempts: int | None = None
    """Dispatches of one job in this lane, whatever their outcome; None: no limit."""
    checkpoint_required: bool = False
    budget_tokens: int | None = None
    """Tokens that all attempts in the lane may use together; None: no limit."""
    figures: LaneFigures | None = None
    """Measured; None: no attempt yet."""
    action: str | None = None
    """The action that the lane is under (`lane_action`); None: open."""
    preempts_by_host: Mapping[str, int] = {}


class RoutingPolicy(Struct, frozen=True, kw_only=True):
    """Where the operator draws the lines; the two `require_` fields are `router.admission` of `router.yml`."""

    thresholds: Thresholds = Thresholds()
    routing: RoutingThresholds = RoutingThresholds()
    require_slack_s: float | None = None
    """Slack that a cheap lane asks for at least; the larger of it and the measured one holds."""
    require_checkpoint: bool = True
    """Whether a cheap lane takes only jobs with a checkpoint."""


class JobHistory(Struct, frozen=True, kw_only=True):
    """A job's attempts in one lane so far; preemptions and failures are counted apart."""

    attempts: int = 0
    preempted: int = 0
    failed: int = 0


class RoutingDecision(Struct, frozen=True, kw_only=True):
    """Where a job goes and why."""

    lane: str | None
    """None: nowhere, by the row's reason."""
    row: Row
    reason: str
    """One sentence with the numbers that decided."""
    avoid_host: str | None = None
    """The job must not run on this host."""
    required_slack_s: float | None = None
    """The larger of the configured and the measured slack of the cheap lane looked at; None: neither is known."""
    too_little_telemetry: bool = False
    passed_over: dict[str, PassedOver | Row] = {}
    """Lanes before the chosen one (or all of them), each with what turned the job away."""


def route_job(
    job: RoutedJob,
    lanes: Sequence[RoutedLane],
    history: Mapping[str, JobHistory],
    policy: RoutingPolicy,
) -> RoutingDecision:
    """Ask the table. `lanes` in order of preference, at least one, the paid one last; `history`: the job's, by lane."""
    if not job.idempotent:
        reason = f"{job.job_id} is not idempotent: a replay would repeat its side effects; give it an idempotency key"
        return RoutingDecision(lane=None, row="not_idempotent", reason=reason)
    passed_over: dict[str, PassedOver | Row] = {}
    turned_away: _CheapAnswer | None = None
    said_too_little = False
    for lane in lanes[:-1]:
        answer = _ask_about_cheap_lane(job, lane, policy)
        barred = _why_barred(job, lane, history.get(lane.name, JobHistory()))
        if barred is not None and answer.row in _ROWS_ABOUT_ENTERING:
            passed_over[lane.name] = barred
            continue
        said_too_little = said_too_little or answer.too_little_telemetry
        if answer.takes_it:
            return RoutingDecision(
                lane=lane.name,
                row=answer.row,
                reason=answer.reason,
                avoid_host=answer.avoid_host,
                required_slack_s=answer.required_slack_s,
                too_little_telemetry=answer.too_little_telemetry,
                passed_over=passed_over,
            )
        passed_over[lane.name] = "slack_below_required" if answer.row == "otherwise_paid" else answer.row
        turned_away = turned_away or answer
    paid = lanes[-1]
    barred = _why_barred(job, paid, history.get(paid.name, JobHistory()), is_paid=True)
    if barred is not None:
        passed_over[paid.name] = barred
        reason = "no lane may take the job: " + ", ".join(f"{name}: {why}" for name, why in passed_over.items())
        return RoutingDecision(lane=None, row="no_lane_left", reason=reason, passed_over=passed_over)
    if turned_away is None:
        why = ", ".join(f"{name}: {word}" for name, word in passed_over.items()) or "it is the only lane"
        return RoutingDecision(lane=paid.name, row="otherwise_paid", reason=why, passed_over=passed_over)
    return RoutingDecision(
        lane=paid.name,
        row=turned_away.row,
        reason=turned_away.reason,
        avoid_host=turned_away.avoid_host,
        required_slack_s=turned_away.required_slack_s,
        too_little_telemetry=said_too_little,
        passed_over=passed_over,
    )


class _CheapAnswer(Struct, frozen=True, kw_only=True):
    takes_it: bool
    row: Row
    reason: str
    avoid_host: str | None = None
    required_slack_s: float | None = None
    too_little_telemetry: bool = False


def _why_barred(job: RoutedJob, lane: RoutedLane, history: JobHistory, *, is_paid: bool = False) -> PassedOver | None:
    if forbids_routing(lane.action, paid=is_paid):
        return "lane_under_action"
    if lane.max_attempts is not None and history.attempts >= lane.max_attempts:
        return "attempts_used_up"
    if lane.budget_tokens is not None:
        used = lane.figures.tokens_in + lane.figures.tokens_out if lane.figures else 0
        expected = (job.prompt_tokens or 0) + (job.remaining_output_tokens or 0)
        # An attempt uses something, also where nobody knows how much.
        if used + max(expected, 1) > lane.budget_tokens:
            return "lane_budget_spent"
    if lane.checkpoint_required and not job.checkpointed:
        return "checkpoint_required"
    return None


def _ask_about_cheap_lane(job: RoutedJob, lane: RoutedLane, policy: RoutingPolicy) -> _CheapAnswer:
    routing = policy.routing
    completed = lane.figures.completed if lane.figures else 0
    figures = lane.figures if completed >= routing.completed_jobs_min else None
    few = "" if figures else f"; too little telemetry: {completed} of {routing.completed_jobs_min} completed jobs"
    known = [s for s in (policy.require_slack_s, figures.required_slack_s if figures else None) if s is not None]
    required_s = max(known, default=None)

    def answer(row: Row, reason: str, *, takes_it: bool = False, avoid_host: str | None = None) -> _CheapAnswer:
        return _CheapAnswer(
            takes_it=takes_it,
            row=row,
            reason=f"{lane.name}: {reason}{few}",
            avoid_host=avoid_host,
            required_slack_s=required_s,
            too_little_telemetry=figures is None,
        )

    turned_away = _row_of_job(job, policy.thresholds, routing) or _row_of_figures(figures, policy.thresholds)
    if turned_away is not None:
        return answer(*turned_away)
    slack_s = job.deadline_slack_s
    checkpoint_is_there = job.checkpointed or not policy.require_checkpoint
    fits = slack_s is not None and required_s is not None and slack_s >= required_s and checkpoint_is_there
    slack_words = f"slack {_s(slack_s)}, required {_s(required_s)}, checkpoint {'yes' if job.checkpointed else 'no'}"
    preempts = lane.preempts_by_host.get(job.host, 0) if job.host is not None else 0
    if preempts >= routing.host_preempts_max:
        reason = f"{preempts} preemptions recorded on host {job.host}, not that host; {slack_words}"
        return answer("host_preempted_before", reason, takes_it=fits, avoid_host=job.host)
    if fits:
        return answer("slack_covers_required", slack_words, takes_it=True)
    return answer("otherwise_paid", slack_words)


def _row_of_job(job: RoutedJob, thresholds: Thresholds, routing: RoutingThresholds) -> tuple[Row, str] | None:
    """The first row that the job alone decides, with its numbers."""
    deadline_s = None if job.deadline_ms is None else job.deadline_ms / 1000
    if deadline_s is not None and deadline_s < routing.paid_below_deadline_s:
        return "deadline_under_a_minute", f"deadline {_s(deadline_s)} < {_s(routing.paid_below_deadline_s)}"
    if exceeds_fraction(job.queue_age_ms, thresholds.queue_age_frac, job.deadline_ms):
        words = f"queue age {_s(job.queue_age_ms / 1000)} > {thresholds.queue_age_frac:g} x deadline {_s(deadline_s)}"
        return "queue_age_past_half_deadline", words
    if job.checkpointed:
        return None
    if deadline_s is not None and deadline_s < routing.checkpoint_below_deadline_s:
        words = f"no checkpoint and deadline {_s(deadline_s)} < {_s(routing.checkpoint_below_deadline_s)}"
        return "short_deadline_without_checkpoint", words
    if job.prompt_tokens is not None and job.remaining_output_tokens is not None:
        bound = routing.prompt_to_output_max * job.remaining_output_tokens
        if job.prompt_tokens > bound:
            words = f"no checkpoint and {job.prompt_tokens} prompt tokens > {bound:.10g}"
            return "prompt_heavy_without_checkpoint", words
    return None


def _row_of_figures(figures: LaneFigures | None, thresholds: Thresholds) -> tuple[Row, str] | None:
    """The first row that the lane's measurements decide, with its numbers."""
    if figures is None:
        return None
    if figures.rework_multiplier > thresholds.rework_max:
        return "rework_above_max", f"rework {figures.rework_multiplier:.3g} > {thresholds.rework_max:g}"
    if figures.interventions_per_100 > thresholds.interventions_per_100_max:
        words = f"{figures.interventions_per_100:.3g} interventions per 100 jobs"
        return "interventions_above_max", f"{words} > {thresholds.interventions_per_100_max:g}"
    return None


def _s(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"{seconds:.10g} s"
