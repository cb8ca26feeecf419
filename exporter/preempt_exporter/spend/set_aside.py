"""`grant` and `reserve`: tokens are set aside under a lease, or why not."""

from msgspec.structs import replace

from preempt_exporter.ledger.records import MAX_EXACT_INTEGER, Release, Reserve, SpendEvent
from preempt_exporter.spend.answers import answer, chargeable_burn_tokens, lease_end, lose, refusal, was_committed
from preempt_exporter.spend.parts import read_shard_name
from preempt_exporter.spend.requests import GrantRequest, ReserveRequest
from preempt_exporter.spend.rows import Decision, EpochRow, EpochState, Outside, RunPhase, RunRow, ShardView


def return_expired(
    run: RunRow, expired: tuple[EpochRow, ...], now_ms: int
) -> tuple[RunRow, list[EpochRow], list[Release]]:
    """Give the budget back what expired reservations held; the run, the rows and the lines afterwards."""
    rows: list[EpochRow] = []
    lines: list[Release] = []
    for row in expired:
        run, lost, line = lose(run, row, EpochState.LEASE_EXPIRED, "lease_expired", now_ms)
        rows.append(lost)
        lines.append(line)
    return run, rows, lines


def set_aside(request: GrantRequest | ReserveRequest, view: ShardView, now_ms: int, outside: Outside) -> Decision:
    """Return what has expired, then reserve; a lower live reservation of the shard gives way to a higher epoch."""
    run, rows, returned = return_expired(view.run, view.expired, now_ms)
    lines: list[SpendEvent] = list(returned)
    ended = {(row.shard, row.epoch): row for row in rows}
    blocking = [row for row in view.blocking if (row.shard, row.epoch) not in ended]
    live = next((row for row in blocking if _is_live(row, request.shard)), None)
    highest = view.highest.epoch if view.highest else -1
    reason = _why_not_set_aside(request, view, run, blocking=blocking, live=live, outside=outside)
    if reason is not None:
        outcome, refuse = refusal(request, view, reason, now_ms)
        return Decision(outcome=outcome, run=run, lines=(*lines, refuse), epochs=tuple(rows))
    if live is not None:
        run, lost, line = lose(run, live, EpochState.SUPERSEDED, "superseded", now_ms)
        rows.append(lost)
        lines.append(line)
    granted = EpochRow(
        run=request.run,
        shard=request.shard,
        epoch=request.epoch if isinstance(request, ReserveRequest) else highest + 1,
        state=EpochState.RESERVED,
        tokens=request.tokens,
        lease_expires_ms=lease_end(now_ms, request.lease_ms),
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
    outcome = answer(
        request, word, epoch=granted.epoch, tokens=request.tokens, lease_expires_ms=granted.lease_expires_ms
    )
    return Decision(outcome=outcome, run=run, lines=(*lines, reserve), epochs=(*rows, granted))


def _why_not_set_aside(
    request: GrantRequest | ReserveRequest,
    view: ShardView,
    run: RunRow,
    *,
    blocking: list[EpochRow],
    live: EpochRow | None,
    outside: Outside,
) -> str | None:
    if isinstance(request, ReserveRequest):
        if view.target is not None:
            return "ALREADY_COMMITTED" if was_committed(view.target) else "ALREADY_RESERVED"
        if view.highest is not None and request.epoch < view.highest.epoch:
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


def _promised_tokens(run: RunRow, *, less: EpochRow | None) -> int:
    promised = run.committed_tokens + run.reserved_tokens - (less.tokens if less else 0)
    if run.charge_burned:
        promised += run.charged_burned_tokens + (chargeable_burn_tokens(less) if less else 0)
    return promised


def _ceiling_tokens(run: RunRow) -> int:
    # Without a budget the ledger's own largest count is the ceiling: a total past it could not be written down.
    return MAX_EXACT_INTEGER if run.budget_tokens is None else run.budget_tokens


def _is_live(row: EpochRow, shard: str) -> bool:
    return row.shard == shard and row.state is EpochState.RESERVED
