"""What a lane's attempts cost per completed job, and how much slack a job needs to risk the lane.

One definition for the `report` command (streaming) and for the exporter's window gauges (a window of attempts):

- Jobs are distinct (`run`, `job_id`); a job is completed once one of its attempts in the lane was `ok`.
- Wait is start - enqueue, run is end - start, of every attempt; a duration below 0 counts as 0.
- p95 is the value at index min(n-1, round_half_even(0.95 x (n-1))) of the sorted list.
- Divisions by completed jobs use max(1, completed).
- An attempt with an unknown token count (either direction) takes no part in token figures: neither its tokens nor,
  where nothing else is known of the job, the job. `unknown_token_attempts` says how many there were.
- Required slack = p95 wait + rework multiplier x p95 run + margin; in the `requeue` model each further attempt also
  pays the wait: rework multiplier x (p95 wait + p95 run) + margin. A p95 of a short history is optimistic.
"""

import heapq
from array import array
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from preempt_exporter.ledger.records import Attempt

SlackModel = Literal["once", "requeue"]
SlackVerdict = Literal["OK", "TOO TIGHT"]

_COMPLETED = 1
_TOKENS_KNOWN = 2


class LaneFigures(Struct, frozen=True, kw_only=True):
    """The break-even figures of one lane; fields up to `required_slack_s` are those of `report --json`."""

    lane: str
    completed: int
    """Distinct jobs with an `ok` attempt."""
    completion_rate: float
    """Completed jobs / distinct jobs."""
    rework_multiplier: float
    """Attempts / completed jobs; its inverse is attempt goodput."""
    s_per_completed_job: float
    """Run seconds of all attempts / completed jobs."""
    p95_wait_s: float
    p95_run_s: float
    tokens_per_completed_job: float | None
    """Tokens in and out of all attempts with known counts / completed jobs with any; None where none is known."""
    interventions_per_100: float
    """Interventions per 100 completed jobs."""
    required_slack_s: float

    jobs: int
    attempts: int
    preempted: int
    failed: int
    """Attempts that ended neither `ok` nor `preempted`."""
    interventions: int
    unknown_token_attempts: int
    tokens_in: int
    """Known input tokens of all attempts with known counts."""
    tokens_out: int
    rework_tokens_in: int
    """Those of attempts other than the first `ok` one of their job: what rework cost."""
    rework_tokens_out: int
    completed_with_known_tokens: int
    run_s: float
    """Run seconds of all attempts."""


def slack_verdict(required_slack_s: float, slack_s: float | None) -> SlackVerdict | None:
    """`OK` if the slack that is there covers what is required; None where no slack was given."""
    if slack_s is None:
        return None
    return "OK" if slack_s >= required_slack_s else "TOO TIGHT"


def required_slack_s(
    p95_wait_s: float, p95_run_s: float, rework_multiplier: float, margin_s: float, model: SlackModel = "once"
) -> float:
    """Seconds of slack that a job needs to risk the lane."""
    waits = max(rework_multiplier, 1.0) if model == "requeue" else 1.0
    return waits * p95_wait_s + rework_multiplier * p95_run_s + margin_s


def p95(values_s: "array[float]") -> float:
    """The value at index min(n-1, round_half_even(0.95 x (n-1))) of the sorted values; 0 of none.

    Keeps only the largest twentieth aside, so that a long history is not copied.
    """
    count = len(values_s)
    if not count:
        return 0.0
    index = min(count - 1, round(0.95 * (count - 1)))
    return heapq.nlargest(count - index, values_s)[-1]


class LaneAccumulator:
    """Adds up one lane's attempts as they stream by; keeps distinct jobs and two numbers per attempt, no rows."""

    def __init__(self, lane: str) -> None:
        """Start with nothing seen in `lane`."""
        self.lane = lane
        self.waits_s: array[float] = array("d")
        self.runs_s: array[float] = array("d")
        self._jobs_by_run: dict[str | None, dict[str, int]] = {}
        self._preempted = 0
        self._failed = 0
        self._interventions = 0
        self._unknown_tokens = 0
        self._tokens_in = 0
        self._tokens_out = 0
        self._rework_tokens_in = 0
        self._rework_tokens_out = 0

    def add(self, attempt: Attempt) -> None:
        """Count one attempt of this lane."""
        wait_s = attempt.start_s - attempt.enqueue_s
        run_s = attempt.end_s - attempt.start_s
        self.waits_s.append(wait_s if wait_s > 0 else 0.0)
        self.runs_s.append(run_s if run_s > 0 else 0.0)
        if attempt.interventions:
            self._interventions += attempt.interventions
        jobs = self._jobs_by_run.get(attempt.run)
        if jobs is None:
            jobs = self._jobs_by_run[attempt.run] = {}
        known = jobs.get(attempt.job_id, 0)
        completes = False
        if attempt.outcome == "ok":
            completes = not known & _COMPLETED
            known |= _COMPLETED
        elif attempt.outcome == "preempted":
            self._preempted += 1
        else:
            self._failed += 1
        tokens_in, tokens_out = attempt.tokens_in, attempt.tokens_out
        if tokens_in is None or tokens_out is None:
            self._unknown_tokens += 1
        else:
            known |= _TOKENS_KNOWN
            self._tokens_in += tokens_in
            self._tokens_out += tokens_out
            if not completes:
                self._rework_tokens_in += tokens_in
                self._rework_tokens_out += tokens_out
        jobs[attempt.job_id] = known

    def figures(self, *, margin_s: float, model: SlackModel = "once") -> LaneFigures:
        """The figures of all attempts added so far."""
        attempts = len(self.runs_s)
        states = [state for jobs in self._jobs_by_run.values() for state in jobs.values()]
        completed = sum(1 for state in states if state & _COMPLETED)
        with_tokens = sum(1 for state in states if state == _COMPLETED | _TOKENS_KNOWN)
        per_completed = max(1, completed)
        rework = attempts / per_completed
        wait_s, run_s, total_run_s = p95(self.waits_s), p95(self.runs_s), sum(self.runs_s)
        tokens_per_job = None
        if attempts > self._unknown_tokens:
            tokens_per_job = (self._tokens_in + self._tokens_out) / max(1, with_tokens)
        return LaneFigures(
            lane=self.lane,
            completed=completed,
            completion_rate=completed / max(1, len(states)),
            rework_multiplier=rework,
            s_per_completed_job=total_run_s / per_completed,
            p95_wait_s=wait_s,
            p95_run_s=run_s,
            tokens_per_completed_job=tokens_per_job,
            interventions_per_100=100 * self._interventions / per_completed,
            required_slack_s=required_slack_s(wait_s, run_s, rework, margin_s, model),
            jobs=len(states),
            attempts=attempts,
            preempted=self._preempted,
            failed=self._failed,
            interventions=self._interventions,
            unknown_token_attempts=self._unknown_tokens,
            tokens_in=self._tokens_in,
            tokens_out=self._tokens_out,
            rework_tokens_in=self._rework_tokens_in,
            rework_tokens_out=self._rework_tokens_out,
            completed_with_known_tokens=with_tokens,
            run_s=total_run_s,
        )


def lane_figures(lane: str, attempts: Iterable[Attempt], *, margin_s: float, model: SlackModel = "once") -> LaneFigures:
    """The figures of `attempts`, all of which are `lane`'s: the exporter's window gauges."""
    accumulator = LaneAccumulator(lane)
    for attempt in attempts:
        accumulator.add(attempt)
    return accumulator.figures(margin_s=margin_s, model=model)
