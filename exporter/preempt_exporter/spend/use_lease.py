"""`renew`, `checkpoint`, `resume`, `release`: what only the holder of a live lease may do."""

from msgspec.structs import replace

from preempt_exporter.ledger.records import Renew, Resume, ShardCheckpoint
from preempt_exporter.spend.answers import answer, lease_end, lose, refused
from preempt_exporter.spend.requests import CheckpointRequest, ReleaseRequest, RenewRequest, ResumeRequest
from preempt_exporter.spend.rows import CheckpointRow, Decision, EpochRow, EpochState, Outside, ShardView


def use_lease(
    request: RenewRequest | CheckpointRequest | ResumeRequest | ReleaseRequest,
    view: ShardView,
    now_ms: int,
    outside: Outside,
) -> Decision:
    """Judge what only a live, newest epoch may do; the input digest after that."""
    target = view.target
    if view.highest is not None and request.epoch < view.highest.epoch:
        return refused(request, view, "STALE_EPOCH", now_ms)
    if target is not None and target.has_expired(now_ms):
        return refused(request, view, "LEASE_EXPIRED", now_ms)
    if target is None or target.state is not EpochState.RESERVED:
        return refused(request, view, "UNRESERVED_SPEND", now_ms)
    match request:
        case RenewRequest():
            return _renew(request, view, target, now_ms)
        case ReleaseRequest():
            run, lost, line = lose(view.run, target, EpochState.CANCELLED, "cancelled", now_ms)
            outcome = answer(request, "RELEASED", epoch=request.epoch, tokens=target.tokens)
            return Decision(outcome=outcome, run=run, lines=(line,), epochs=(lost,))
        case _ if request.input_digest != target.input_digest:
            return refused(request, view, "DIGEST_MISMATCH", now_ms)
        case CheckpointRequest():
            return _checkpoint(request, view, target, now_ms)
        case ResumeRequest():
            return _resume(request, view, target, now_ms, outside)


def _renew(request: RenewRequest, view: ShardView, target: EpochRow, now_ms: int) -> Decision:
    expires_ms = lease_end(now_ms, request.lease_ms)
    line = Renew(
        run=request.run,
        shard=request.shard,
        epoch=request.epoch,
        ts_ms=now_ms,
        lease_expires_ms=expires_ms,
        host=request.host,
    )
    return Decision(
        outcome=answer(request, "RENEWED", epoch=request.epoch, lease_expires_ms=expires_ms),
        run=view.run,
        lines=(line,),
        epochs=(replace(target, lease_expires_ms=expires_ms),),
    )


def _checkpoint(request: CheckpointRequest, view: ShardView, target: EpochRow, now_ms: int) -> Decision:
    row = CheckpointRow(
        sequence=view.checkpoints[0].sequence + 1 if view.checkpoints else 0,
        epoch=request.epoch,
        index=request.index,
        tokens=request.tokens,
        input_digest=request.input_digest,
        payload_digest=request.payload_digest,
    )
    line = ShardCheckpoint(
        run=request.run,
        shard=request.shard,
        epoch=request.epoch,
        ts_ms=now_ms,
        index=request.index,
        tokens=request.tokens,
        input_digest=request.input_digest,
        host=request.host,
    )
    return Decision(
        outcome=answer(request, "CHECKPOINTED", epoch=request.epoch, index=request.index, tokens=request.tokens),
        run=view.run,
        lines=(line,),
        epochs=(replace(target, checkpoint_tokens=request.tokens),),
        checkpoint=row,
    )


def _resume(request: ResumeRequest, view: ShardView, target: EpochRow, now_ms: int, outside: Outside) -> Decision:
    newest = next((row for row in view.checkpoints if row.sequence not in outside.torn_checkpoints), None)
    restarts = newest is not None and newest.input_digest != target.input_digest
    index = 0 if newest is None or restarts else newest.index
    line = Resume(
        run=request.run, shard=request.shard, epoch=request.epoch, ts_ms=now_ms, index=index, host=request.host
    )
    return Decision(
        outcome=answer(request, "RESTART" if restarts else "RESUME", epoch=request.epoch, index=index),
        run=view.run,
        lines=(line,),
        discards_checkpoints=restarts,
    )
