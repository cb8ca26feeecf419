"""The one place that decides a spend request: which outcome, which rows change, which lines are written.

Pure: the rows are loaded, the time is an argument. Both stores call it inside their transaction, so that they cannot
differ. The order of the checks is that of the contract; the first that holds is the answer.

Why fencing looks at the highest epoch *granted*, not the highest committed: otherwise a worker that was presumed dead
may commit first and its replacement second, which makes two artifacts.
"""

from msgspec.structs import replace

from preempt_exporter.ledger.records import (
    MAX_EXACT_INTEGER,
    Commit,
    Compensate,
    Refuse,
    Release,
    Renew,
    Reserve,
    Resume,
    ShardCheckpoint,
    SpendEvent,
)
from preempt_exporter.spend.parts import cover_the_shard, read_shard_name
from preempt_exporter.spend.requests import (
    CheckpointRequest,
    CommitRequest,
    CompensateRequest,
    GrantRequest,
    ReleaseRequest,
    RenewRequest,
    Request,
    ReserveRequest,
    ResumeRequest,
)
from preempt_exporter.spend.rows import (
    CheckpointRow,
    Decision,
    EpochRow,
    EpochState,
    Outcome,
    Outside,
    RunPhase,
    RunRow,
    ShardView,
)


def decide(request: Request, view: ShardView, now_ms: int, outside: Outside) -> Decision:
    """Judge `request` at `now_ms` of the store's clock over the rows in `view`."""
    match request:
        case GrantRequest() | ReserveRequest():
            return _set_aside(request, view, now_ms, outside)
        case CommitRequest():
            return _commit(request, view, now_ms, outside)
        case CompensateRequest():
            return _compensate(request, view, now_ms)
        case _:
            return _use_lease(request, view, now_ms, outside)


def return_expired(run: RunRow, expired: tuple[EpochRow, ...], now_ms: int) -> tuple[RunRow, list[EpochRow], list[Release]]:
    """Give the budget back what expired reservations held; the run, the rows and the lines afterwards."""
    rows: list[EpochRow] = []
    lines: list[Release] = []
    for row in expired:
        run, lost, line = _lose(run, row, EpochState.LEASE_EXPIRED, "lease_expired", now_ms)
        rows.append(lost)
        lines.append(line)
    return run, rows, lines


def _set_aside(request: GrantRequest | ReserveRequest, view: ShardView, now_ms: int, outside: Outside) -> Decision:
    run, rows, returned = return_expired(view.run, view.expired, now_ms)
    lines: list[SpendEvent] = list(returned)
    ended = {(row.shard, row.epoch): row for row in rows}
    blocking = [row for row in view.blocking if (row.shard, row.epoch) not in ended]
    live = next((row for row in blocking if _is_live(row, request.shard)), None)
    highest = view.highest.epoch if view.highest else -1
    reason = _why_not_set_aside(request, view, run, blocking, highest, live, outside)
    if reason is not None:
        outcome, refusal = _refuse(request, view, reason, now_ms)
        return Decision(outcome=outcome, run=run, lines=(*lines, refusal), epochs=tuple(rows))
    if live is not None:
        run, lost, line = _lose(run, live, EpochState.SUPERSEDED, "superseded", now_ms)
        rows.append(lost)
        lines.append(line)
    granted = EpochRow(
        run=request.run,
        shard=request.shard,
        epoch=request.epoch if isinstance(request, ReserveRequest) else highest + 1,
        state=EpochState.RESERVED,
        tokens=request.tokens,
        lease_expires_ms=_lease_end(now_ms, request.lease_ms),
        input_digest=request.input_digest,
        host=request.host,
    )
    run = replace(run, reserved_tokens=run.reserved_tokens + request.tokens)
    reserve = Reserve(
        run=request.run,
        shard=request.shard,
        epoch=granted.epoch,
        ts_ms=now_ms,
        tokens=request.tokens,
        lease_expires_ms=granted.lease_expires_ms,
        input_digest=request.input_digest,
        host=request.host,
    )
    word = "RESERVED" if isinstance(request, ReserveRequest) else "GRANTED"
    outcome = _outcome(
        request, word, epoch=granted.epoch, tokens=request.tokens, lease_expires_ms=granted.lease_expires_ms
    )
    return Decision(outcome=outcome, run=run, lines=(*lines, reserve), epochs=(*rows, granted))


def _why_not_set_aside(
    request: GrantRequest | ReserveRequest,
    view: ShardView,
    run: RunRow,
    blocking: list[EpochRow],
    highest: int,
    live: EpochRow | None,
    outside: Outside,
) -> str | None:
    if isinstance(request, ReserveRequest):
        if view.target is not None:
            return "ALREADY_COMMITTED" if _was_committed(view.target) else "ALREADY_RESERVED"
        if request.epoch < highest:
            return "STALE_EPOCH"
    name = read_shard_name(request.shard)
    in_the_way = [row for row in blocking if row.name.overlaps(name)]
    if any(row.state is EpochState.COMMITTED for row in in_the_way):
        return "SHARD_ACCEPTED"
    if any(row is not live or isinstance(request, GrantRequest) for row in in_the_way):
        return "ALREADY_RESERVED"
    if run.phase is not RunPhase.OPEN or run.stopped or outside.run_stopped:
        return "RUN_STOPPED"
    if _promised_tokens(run, less=live) + request.tokens > _ceiling_tokens(run):
        return "OVER_BUDGET"
    return None


def _use_lease(
    request: RenewRequest | CheckpointRequest | ResumeRequest | ReleaseRequest,
    view: ShardView,
    now_ms: int,
    outside: Outside,
) -> Decision:
    target = view.target
    if view.highest is not None and request.epoch < view.highest.epoch:
        return _refused(request, view, "STALE_EPOCH", now_ms)
    if target is not None and target.has_expired(now_ms):
        return _refused(request, view, "LEASE_EXPIRED", now_ms)
    if target is None or target.state is not EpochState.RESERVED:
        return _refused(request, view, "UNRESERVED_SPEND", now_ms)
    match request:
        case RenewRequest():
            return _renew(request, view, target, now_ms)
        case ReleaseRequest():
            run, lost, line = _lose(view.run, target, EpochState.CANCELLED, "cancelled", now_ms)
            outcome = _outcome(request, "RELEASED", epoch=request.epoch, tokens=target.tokens)
            return Decision(outcome=outcome, run=run, lines=(line,), epochs=(lost,))
        case _ if request.input_digest != target.input_digest:
            return _refused(request, view, "DIGEST_MISMATCH", now_ms)
        case CheckpointRequest():
            return _checkpoint(request, view, target, now_ms)
        case ResumeRequest():
            return _resume(request, view, target, now_ms, outside)


def _renew(request: RenewRequest, view: ShardView, target: EpochRow, now_ms: int) -> Decision:
    expires_ms = _lease_end(now_ms, request.lease_ms)
    line = Renew(
        run=request.run,
        shard=request.shard,
        epoch=request.epoch,
        ts_ms=now_ms,
        lease_expires_ms=expires_ms,
        host=request.host,
    )
    return Decision(
        outcome=_outcome(request, "RENEWED", epoch=request.epoch, lease_expires_ms=expires_ms),
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
        outcome=_outcome(request, "CHECKPOINTED", epoch=request.epoch, index=request.index, tokens=request.tokens),
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
        outcome=_outcome(request, "RESTART" if restarts else "RESUME", epoch=request.epoch, index=index),
        run=view.run,
        lines=(line,),
        discards_checkpoints=restarts,
    )


def _commit(request: CommitRequest, view: ShardView, now_ms: int, outside: Outside) -> Decision:
    target = view.target
    if target is not None and _was_committed(target):
        return _refused(request, view, "ALREADY_COMMITTED", now_ms)
    if view.highest is not None and request.epoch < view.highest.epoch:
        return _refused(request, view, "STALE_EPOCH", now_ms)
    if target is not None and target.has_expired(now_ms):
        return _refused(request, view, "LEASE_EXPIRED", now_ms)
    if target is None or target.state is not EpochState.RESERVED:
        return _refused(request, view, "UNRESERVED_SPEND", now_ms)
    if request.tokens > target.tokens or (request.settle == "exact" and request.tokens != target.tokens):
        return _refused(request, view, "UNRESERVED_SPEND", now_ms)
    if not request.artifact_digest or not outside.artifact_present:
        return _refused(request, view, "ARTIFACT_MISSING", now_ms)
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
    outcome = _outcome(
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


def _compensate(request: CompensateRequest, view: ShardView, now_ms: int) -> Decision:
    target = view.target
    if (
        target is None
        or target.state is not EpochState.COMMITTED
        or target.artifact_digest != request.artifact_digest
    ):
        return _refused(request, view, "UNRESERVED_SPEND", now_ms)
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
        outcome=_outcome(request, "COMPENSATED", epoch=request.epoch, tokens=target.tokens),
        run=replace(view.run, version=view.run.version + 1),
        lines=(line,),
        epochs=(replace(target, state=EpochState.COMPENSATED),),
    )


def _lose(run: RunRow, row: EpochRow, state: EpochState, reason: str, now_ms: int) -> tuple[RunRow, EpochRow, Release]:
    burned = row.checkpoint_tokens
    run = replace(
        run,
        reserved_tokens=run.reserved_tokens - row.tokens,
        burned_tokens=run.burned_tokens + (burned or 0),
        charged_burned_tokens=run.charged_burned_tokens + _chargeable_burn_tokens(row),
    )
    line = Release(
        run=row.run,
        shard=row.shard,
        epoch=row.epoch,
        ts_ms=now_ms,
        tokens=row.tokens,
        reason=reason,
        burned_tokens=burned,
        host=row.host,
    )
    return run, replace(row, state=state), line


def _promised_tokens(run: RunRow, *, less: EpochRow | None) -> int:
    promised = run.committed_tokens + run.reserved_tokens - (less.tokens if less else 0)
    if run.charge_burned:
        promised += run.charged_burned_tokens + (_chargeable_burn_tokens(less) if less else 0)
    return promised


def _chargeable_burn_tokens(row: EpochRow) -> int:
    # A worker that says it used more than was set aside cannot be charged more than that: the budget would overshoot.
    return min(row.checkpoint_tokens or 0, row.tokens)


def _ceiling_tokens(run: RunRow) -> int:
    # Without a budget the ledger's own largest count is the ceiling: a total past it could not be written down.
    return MAX_EXACT_INTEGER if run.budget_tokens is None else run.budget_tokens


def _lease_end(now_ms: int, lease_ms: int) -> int:
    return min(now_ms + lease_ms, MAX_EXACT_INTEGER)


def _is_live(row: EpochRow, shard: str) -> bool:
    return row.shard == shard and row.state is EpochState.RESERVED


def _was_committed(row: EpochRow) -> bool:
    return row.state in (EpochState.COMMITTED, EpochState.COMPENSATED)


def _refused(request: Request, view: ShardView, reason: str, now_ms: int) -> Decision:
    outcome, line = _refuse(request, view, reason, now_ms)
    return Decision(outcome=outcome, run=view.run, lines=(line,))


def _refuse(request: Request, view: ShardView, reason: str, now_ms: int) -> tuple[Outcome, Refuse]:
    host = request.host or (view.target.host if view.target else None)
    epoch = None if isinstance(request, GrantRequest) else request.epoch
    tokens = getattr(request, "tokens", None)
    line = Refuse(
        run=request.run,
        shard=request.shard,
        ts_ms=now_ms,
        op=_op(request),
        reason=reason,
        epoch=epoch,
        tokens=tokens,
        host=host,
    )
    outcome = Outcome(
        op=_op(request),
        run=request.run,
        shard=request.shard,
        outcome=reason,
        refused=True,
        epoch=epoch,
        tokens=tokens,
        host=host,
        holder_epoch=view.highest.epoch if view.highest else None,
        holder_host=view.highest.host if view.highest else None,
    )
    return outcome, line


def _outcome(
    request: Request,
    word: str,
    *,
    epoch: int,
    tokens: int | None = None,
    lease_expires_ms: int | None = None,
    index: int | None = None,
    shard_accepted: bool = False,
) -> Outcome:
    return Outcome(
        op=_op(request),
        run=request.run,
        shard=request.shard,
        outcome=word,
        epoch=epoch,
        tokens=tokens,
        lease_expires_ms=lease_expires_ms,
        index=index,
        host=request.host,
        shard_accepted=shard_accepted,
    )


def _op(request: Request) -> str:
    return str(request.__struct_config__.tag)
