"""`status --explain TASK`: the arithmetic behind a row, in words and numbers."""

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from preempt_exporter.cli.status_table import duration_text
from preempt_exporter.decide.admission import (
    TaskEvidence,
    admission_verdict,
    preempts_are_used_up,
    queue_age_is_over,
    restart_tokens_are_over,
)
from preempt_exporter.decide.cadence import CheckpointCadence, checkpoint_cadence
from preempt_exporter.decide.restart_cost import lost_tokens
from preempt_exporter.printable import printable
from preempt_exporter.settings import Thresholds
from preempt_exporter.state.life import ABANDONED, COMPLETE, DRAINED, REJECTED, Life
from preempt_exporter.state.rates import LaneRates
from preempt_exporter.state.task_row import TaskRow

HOW_IT_ENDED = {
    REJECTED: "its last decision was to reject",
    DRAINED: "it was drained, so that nothing of it is replayed",
    COMPLETE: "its work is done",
    ABANDONED: "it counts as abandoned, since no line of it came for too long",
}


class Explained(Struct, frozen=True, kw_only=True):
    """Everything that one row was computed from."""

    row: TaskRow
    life: Life
    evidence: TaskEvidence
    thresholds: Thresholds
    rates: LaneRates
    mean_time_between_preemptions_s: float | None
    """Of the lane's attempts in its window; None while none was preempted."""
    checkpoint_cost_s: float | None
    """As the operator says it; None: unknown."""


def explanation(what: Explained) -> list[str]:
    """Lines of text, one step of the arithmetic each."""
    row = what.row
    lines = [f"task {printable(row.task_id)}, run {printable(row.run or '-')}, lane {printable(row.lane)}: {row.state}"]
    if row.queue_age_ms is None:
        lines.append(f"ended: it no longer waits; {HOW_IT_ENDED[row.state]}{_for_which_reason(row)}")
    else:
        lines += _ages(what)
        lines.append(_restart_cost(what))
        lines.append(_one_more_preemption(what))
    lines += _thresholds(what)
    if row.queue_age_ms is not None:
        lines.append(_next_start(what))
        lines.append(_checkpoints(what))
    lines.append(f"next action: {row.next_action}")
    return lines


def _for_which_reason(row: TaskRow) -> str:
    if row.reason is None:
        return ""
    return f"{'' if row.state == REJECTED else '; its last reject was'} for {printable(row.reason)}"


def _ages(what: Explained) -> Iterator[str]:
    age_ms, deadline_ms, slack_ms = what.evidence.queue_age_ms, what.evidence.deadline_ms, what.row.deadline_slack_ms
    yield f"queue age: now less enqueue at {what.life.enqueued_ms} = {_ms(age_ms)}"
    if deadline_ms is None:
        yield "deadline slack: unknown, since no line gives a deadline (and there is no DEADLINE_MS)"
    else:
        yield f"deadline slack: deadline {_ms(deadline_ms)} - queue age {_ms(age_ms)} = {_ms(slack_ms)}"


def _restart_cost(what: Explained) -> str:
    life, rates, cost_ms = what.life, what.rates, what.evidence.restart_cost_ms
    if cost_ms is None:
        unknown = [
            word
            for word, value in (
                ("the lane's wait (no attempt line and no admission yet)", rates.wait_p95_s),
                ("the lane's decode rate (no checkpoint step yet)", rates.decode_tokens_per_s),
                ("the task's prompt_tokens", life.prompt_tokens),
                ("the task's target_tokens", life.target_tokens),
            )
            if value is None
        ]
        return f"restart cost: unknown, for want of {'; '.join(unknown)}"
    decode = rates.decode_tokens_per_s or 0.0
    prefill, of_what = rates.prefill_tokens_per_s or decode, "prefill" if rates.prefill_tokens_per_s else "decode"
    left = max((life.target_tokens or 0) - life.checkpoint_tokens, 0)
    return (
        f"restart cost: p95 wait {rates.wait_p95_s:.3g} s"
        f" + prompt {life.prompt_tokens} tokens / {prefill:.4g} a second ({of_what} rate)"
        f" + {left} tokens left after checkpoint {life.checkpoint_tokens} / {decode:.4g} a second (decode rate)"
        f" = {_ms(cost_ms)}"
    )


def _one_more_preemption(what: Explained) -> str:
    life, evidence = what.life, what.evidence
    lost = lost_tokens(life.prompt_tokens, life.output_tokens, life.checkpoint_tokens)
    fits = what.row.fits_one_more_preemption
    if fits is None or lost is None:
        return "one more preemption: unknown whether it can be absorbed, since slack, restart cost or prompt is unknown"
    slack_ms, cost_ms = evidence.deadline_slack_ms, evidence.restart_cost_ms
    after = replace(evidence, preempts=evidence.preempts + 1, restart_tokens=evidence.restart_tokens + lost)
    sign = ">=" if (slack_ms or 0) >= (cost_ms or 0) else "<"
    return (
        f"one more preemption: slack {_ms(slack_ms)} {sign} restart cost {_ms(cost_ms)}; it would waste"
        f" prompt {life.prompt_tokens} + output {max(life.output_tokens, life.checkpoint_tokens)}"
        f" - checkpoint {life.checkpoint_tokens} = {lost} tokens, and the policy would then say"
        f" {admission_verdict(after, what.thresholds).verdict}: it can{'' if fits else 'not'} be absorbed"
    )


def _thresholds(what: Explained) -> Iterator[str]:
    evidence, thresholds = what.evidence, what.thresholds
    if what.row.queue_age_ms is not None and evidence.deadline_ms is not None:
        limit_ms = thresholds.queue_age_frac * evidence.deadline_ms
        yield (
            f"queue age {_ms(evidence.queue_age_ms)} {_sign(queue_age_is_over(evidence, thresholds))}"
            f" {thresholds.queue_age_frac:g} x deadline = {_ms(round(limit_ms))}"
        )
    if evidence.task_budget is None:
        yield f"restart tokens {evidence.restart_tokens}; no budget is known to hold them against"
    else:
        limit = thresholds.restart_frac * evidence.task_budget
        yield (
            f"restart tokens {evidence.restart_tokens} {_sign(restart_tokens_are_over(evidence, thresholds))}"
            f" {thresholds.restart_frac:g} x budget {evidence.task_budget} = {limit:g}"
        )
    sign = ">=" if preempts_are_used_up(evidence, thresholds) else "<"
    yield f"preempts {evidence.preempts} {sign} max {thresholds.max_preempts}"


def _next_start(what: Explained) -> str:
    verdict = admission_verdict(what.evidence, what.thresholds).verdict
    return f"a start now, from this state, would be told: {verdict}"


def _checkpoints(what: Explained) -> str:
    cost_s = what.checkpoint_cost_s
    if cost_s is None:
        return "checkpoint every: unknown; say what one costs with --checkpoint-cost, such as 5s"
    cadence = checkpoint_cadence(
        mean_time_between_preemptions_s=what.mean_time_between_preemptions_s,
        checkpoint_cost_s=cost_s,
        deadline_slack_ms=what.evidence.deadline_slack_ms,
        restart_cost_ms=what.evidence.restart_cost_ms,
    )
    if cadence is None:
        return "checkpoint every: unknown: the lane has no preempted attempt, and slack or restart cost is unknown"
    optimum = _optimum(what, cadence, cost_s)
    if cadence.interval_s == 0:
        return f"checkpoint every: {_why_no_interval(what, cadence, cost_s)}; {optimum}"
    capped = "; capped so that one loss fits the slack" if cadence.capped_by_slack else ""
    return f"checkpoint every: {cadence.interval_s:.4g} s ({optimum}{capped})"


def _optimum(what: Explained, cadence: CheckpointCadence, cost_s: float) -> str:
    if cadence.young_daly_s is None:
        return "no preempted attempt in the lane's window"
    mean_s = what.mean_time_between_preemptions_s
    return f"Young/Daly sqrt(2 x {mean_s:.4g} s between preemptions x {cost_s:g} s) = {cadence.young_daly_s:.4g} s"


def _why_no_interval(what: Explained, cadence: CheckpointCadence, cost_s: float) -> str:
    if not cadence.capped_by_slack:
        return "as often as you like, since one is said to cost nothing"
    return (
        f"no interval lets one loss fit: slack {_ms(what.evidence.deadline_slack_ms)}"
        f" <= restart cost {_ms(what.evidence.restart_cost_ms)} + {cost_s:g} s for the checkpoint"
    )


def _sign(over: bool) -> str:
    return ">" if over else "<="


def _ms(ms: int | None) -> str:
    return duration_text(ms)
