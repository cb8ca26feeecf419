"""Attempt lines: counters, histograms and the window of a lane (ledger.md 2)."""

from msgspec.structs import replace

from preempt_exporter.ledger.records import Attempt
from preempt_exporter.state.figures import Figures
from preempt_exporter.state.lane import remember_loss
from preempt_exporter.state.repeats import LedgerMemory, attempt_name
from preempt_exporter.state.totals import total

MAX_JOBS_PER_RUN = 1_000_000


def fold_attempt(figures: Figures, memory: LedgerMemory, attempt: Attempt, now_ms: int) -> None:
    """Count one attempt line, unless it is equal to one of its ledger's last ones: then only that it was a repeat.

    Durations below 0 (a clock that was set back) count as 0. A job counts as completed once among the ledger's
    remembered attempts, however often it succeeded.
    """
    name = attempt_name(attempt)
    if memory.knows_name(name):
        if memory.is_repeat(attempt, name):
            figures.counts.duplicates += 1
            return
        figures.counts.conflicting += 1
    moment_ms = attempt.ts_ms
    kept = attempt
    if moment_ms is not None and moment_ms > now_ms:
        figures.skew.record(moment_ms - now_ms, now_ms)
        moment_ms = now_ms
        kept = replace(attempt, ts_ms=now_ms)
    lane = figures.lane(attempt.lane)
    lane.attempts[attempt.outcome if attempt.outcome in ("ok", "preempted") else "failed"] += 1
    if attempt.tokens_in:
        lane.tokens_in = total(lane.tokens_in, attempt.tokens_in)
    if attempt.tokens_out:
        lane.tokens_out = total(lane.tokens_out, attempt.tokens_out)
    if attempt.interventions:
        lane.interventions = total(lane.interventions, attempt.interventions)
    lane.wait.observe(attempt.start_s - attempt.enqueue_s)
    lane.run.observe(attempt.end_s - attempt.start_s)
    lane.record_attempt(kept)
    if attempt.outcome == "preempted" and attempt.host and moment_ms is not None:
        remember_loss(lane.host_losses(attempt.host).attempts_ms, moment_ms)
    completes = attempt.outcome == "ok"
    if completes and not memory.knows_completed_job(name):
        lane.jobs_completed += 1
    memory.remember_attempt(attempt, name)
    if attempt.run is not None:
        run = figures.run(attempt.run, now_ms)
        seen_ms = now_ms if moment_ms is None else moment_ms
        run.touch(seen_ms, seen_ms)
        if completes and attempt.job_id not in run.jobs_completed:
            if len(run.jobs_completed) < MAX_JOBS_PER_RUN:
                run.jobs_completed.add(attempt.job_id)
            if moment_ms is not None:
                run.record_completion(moment_ms)
