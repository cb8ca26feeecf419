"""`commit` and `compensate`: an artifact is accepted and billed, or taken back."""

from msgspec.structs import replace

from preempt_exporter.ledger.records import Commit, Compensate
from preempt_exporter.spend.answers import answer, refused, was_committed
from preempt_exporter.spend.parts import cover_the_shard
from preempt_exporter.spend.requests import CommitRequest, CompensateRequest
from preempt_exporter.spend.rows import Decision, EpochRow, EpochState, Outside, ShardView


def commit(request: CommitRequest, view: ShardView, now_ms: int, outside: Outside) -> Decision:
    """Accept the artifact and bill it; what `at_most` did not use returns to the budget."""
    target = view.target
    if target is not None and was_committed(target):
        return refused(request, view, "ALREADY_COMMITTED", now_ms)
    if view.highest is not None and request.epoch < view.highest.epoch:
        return refused(request, view, "STALE_EPOCH", now_ms)
    if target is not None and target.has_expired(now_ms):
        return refused(request, view, "LEASE_EXPIRED", now_ms)
    if target is None or target.state is not EpochState.RESERVED:
        return refused(request, view, "UNRESERVED_SPEND", now_ms)
    if request.tokens > target.tokens or (request.settle == "exact" and request.tokens != target.tokens):
        return refused(request, view, "UNRESERVED_SPEND", now_ms)
    if not request.artifact_digest or not outside.artifact_present:
        return refused(request, view, "ARTIFACT_MISSING", now_ms)
    committed = replace(
        target, state=EpochState.COMMITTED, tokens=request.tokens, artifact_digest=request.artifact_digest
    )
    run = replace(
        view.run,
        reserved_tokens=view.run.reserved_tokens - target.tokens,
        committed_tokens=view.run.committed_tokens + request.tokens,
        version=view.run.version + 1,
    )
    line = Commit(
        run=request.run,
        shard=request.shard,
        epoch=request.epoch,
        ts_ms=now_ms,
        tokens=request.tokens,
        artifact_digest=request.artifact_digest,
        host=request.host,
    )
    accepted = [row for row in view.blocking if row.state is EpochState.COMMITTED]
    outcome = answer(
        request,
        "COMMITTED",
        epoch=request.epoch,
        tokens=request.tokens,
        shard_accepted=is_accepted([*accepted, committed], view.run.cases_per_shard),
    )
    return Decision(outcome=outcome, run=run, lines=(line,), epochs=(committed,))


def is_accepted(accepted: list[EpochRow], cases_per_shard: int | None) -> bool:
    """Whether the accepted epochs of one shard and its parts make the whole shard accepted."""
    parts = [row.name.cases for row in accepted]
    if None in parts:
        return True
    return cases_per_shard is not None and cover_the_shard([part for part in parts if part], cases_per_shard)


def compensate(request: CompensateRequest, view: ShardView, now_ms: int) -> Decision:
    """Take back an accepted artifact: its tokens stay committed, the shard can be granted again."""
    target = view.target
    if target is None or target.state is not EpochState.COMMITTED or target.artifact_digest != request.artifact_digest:
        return refused(request, view, "UNRESERVED_SPEND", now_ms)
    line = Compensate(
        run=request.run,
        shard=request.shard,
        epoch=request.epoch,
        ts_ms=now_ms,
        artifact_digest=request.artifact_digest,
        reason=request.reason,
        host=request.host,
    )
    return Decision(
        outcome=answer(request, "COMPENSATED", epoch=request.epoch, tokens=target.tokens),
        run=replace(view.run, version=view.run.version + 1),
        lines=(line,),
        epochs=(replace(target, state=EpochState.COMPENSATED),),
    )
