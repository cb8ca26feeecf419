"""What every decision is made of: an outcome with its line, a refusal, a lost reservation."""

from msgspec.structs import replace

from preempt_exporter.ledger.records import MAX_EXACT_INTEGER, Refuse, Release
from preempt_exporter.spend.requests import GrantRequest, Request
from preempt_exporter.spend.rows import Decision, EpochRow, EpochState, Outcome, RunRow, ShardView


def answer(
    request: Request,
    word: str,
    *,
    epoch: int,
    tokens: int | None = None,
    lease_expires_ms: int | None = None,
    index: int | None = None,
    shard_accepted: bool = False,
) -> Outcome:
    """What a request that was carried out is answered."""
    return Outcome(
        op=op_of(request),
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


def refused(request: Request, view: ShardView, reason: str, now_ms: int) -> Decision:
    """A refusal that changes nothing."""
    outcome, line = refusal(request, view, reason, now_ms)
    return Decision(outcome=outcome, run=view.run, lines=(line,))


def refusal(request: Request, view: ShardView, reason: str, now_ms: int) -> tuple[Outcome, Refuse]:
    """What a refused request is answered, and its line: who asked, and who holds the shard's newest epoch."""
    host = request.host or (view.target.host if view.target else None)
    epoch = None if isinstance(request, GrantRequest) else request.epoch
    tokens = getattr(request, "tokens", None)
    line = Refuse(
        run=request.run,
        shard=request.shard,
        ts_ms=now_ms,
        op=op_of(request),
        reason=reason,
        epoch=epoch,
        tokens=tokens,
        host=host,
    )
    outcome = Outcome(
        op=op_of(request),
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


def lose(run: RunRow, row: EpochRow, state: EpochState, reason: str, now_ms: int) -> tuple[RunRow, EpochRow, Release]:
    """End a live reservation without a commit: its tokens return, what it had used is burnt."""
    burned = row.checkpoint_tokens
    run = replace(
        run,
        reserved_tokens=run.reserved_tokens - row.tokens,
        burned_tokens=min(run.burned_tokens + (burned or 0), MAX_EXACT_INTEGER),
        charged_burned_tokens=min(run.charged_burned_tokens + chargeable_burn_tokens(row), MAX_EXACT_INTEGER),
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


def chargeable_burn_tokens(row: EpochRow) -> int:
    """What a lost reservation is charged with `charge_burned`: never more than was set aside for it.

    A worker that says it used more cannot be charged more, or the budget would overshoot after the fact.
    """
    return min(row.checkpoint_tokens or 0, row.tokens)


def lease_end(now_ms: int, lease_ms: int) -> int:
    """When a lease of `lease_ms` from now is over, as far as a ledger line can say it."""
    return min(now_ms + lease_ms, MAX_EXACT_INTEGER)


def was_committed(row: EpochRow) -> bool:
    """Whether the epoch was billed, compensated since or not."""
    return row.state in (EpochState.COMMITTED, EpochState.COMPENSATED)


def op_of(request: Request) -> str:
    """The operation's name, as in the ledger."""
    return str(request.__struct_config__.tag)
