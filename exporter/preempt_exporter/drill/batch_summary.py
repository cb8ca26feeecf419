"""What a batch came to, counted from its state: preemptions and failures apart, and every failed job by name."""

from msgspec import Struct

from preempt_exporter.drill.batch_state import DONE, FAILED, BatchState


class FailedJob(Struct, frozen=True, kw_only=True):
    """A job that no lane takes any more."""

    job_id: str
    reason: str


class BatchSummary(Struct, frozen=True, kw_only=True):
    """`drill batch --json`."""

    run: str
    jobs: int
    done: int
    left: int
    """Jobs that are neither done nor failed: `--resume` goes on with them."""
    attempts: int
    preempted_attempts: int
    failed_attempts: int
    attempts_by_lane: dict[str, int]
    resumed_attempts: int
    """Attempts that went on at a checkpoint instead of from the start."""
    side_effects: int
    replays_refused: int
    """How often a side effect was asked for that had happened before."""
    failed: list[FailedJob]


def summary_of(state: BatchState) -> BatchSummary:
    """Count."""
    with state.database.reading() as connection:
        jobs = connection.execute("SELECT job_id, state, reason FROM jobs ORDER BY position").fetchall()
        attempts = connection.execute("SELECT lane, outcome, resumed_at_bytes FROM attempts").fetchall()
        asked = connection.execute("SELECT COALESCE(SUM(asked), 0) FROM keys").fetchone()[0]
        effects = connection.execute("SELECT COUNT(*) FROM effects").fetchone()[0]
    by_lane: dict[str, int] = {}
    for attempt in attempts:
        by_lane[attempt["lane"]] = by_lane.get(attempt["lane"], 0) + 1
    done = sum(job["state"] == DONE for job in jobs)
    failed = [FailedJob(job_id=job["job_id"], reason=job["reason"]) for job in jobs if job["state"] == FAILED]
    return BatchSummary(
        run=state.run or "",
        jobs=len(jobs),
        done=done,
        left=len(jobs) - done - len(failed),
        attempts=len(attempts),
        preempted_attempts=sum(attempt["outcome"] == "preempted" for attempt in attempts),
        failed_attempts=sum(attempt["outcome"] == "failed" for attempt in attempts),
        attempts_by_lane=by_lane,
        resumed_attempts=sum((attempt["resumed_at_bytes"] or 0) > 0 for attempt in attempts),
        side_effects=effects,
        replays_refused=asked - effects,
        failed=failed,
    )


def in_words(summary: BatchSummary) -> str:
    """The same for a person."""
    lanes = ", ".join(f"{lane} {count}" for lane, count in summary.attempts_by_lane.items()) or "none"
    lines = [
        f"jobs: {summary.jobs}, {summary.done} done, {len(summary.failed)} failed, {summary.left} left",
        f"attempts: {summary.attempts} ({lanes}), {summary.preempted_attempts} preempted, "
        f"{summary.failed_attempts} failed, {summary.resumed_attempts} went on at a checkpoint",
        f"side effects: {summary.side_effects}, {summary.replays_refused} replays refused",
        *(f"failed: {job.job_id}: {job.reason}" for job in summary.failed),
    ]
    return "\n".join(lines)
