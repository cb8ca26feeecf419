"""What `drill fence` says at its end, and whether the fence held."""

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from preempt_exporter.ledger.records import (
    REFUSAL_OPS,
    REFUSAL_REASONS,
    Commit,
    Compensate,
    Record,
    Refuse,
)
from preempt_exporter.spend.rows import RunSummary


class FenceTerms(Struct, frozen=True, kw_only=True):
    """What is drilled: `shards` of `cases` each, `tokens_per_case`, against `budget_tokens`."""

    preemptions: int = 500
    shards: int = 4
    cases: int = 50
    tokens_per_case: int = 37
    budget_tokens: int = 7400

    @property
    def shard_tokens(self) -> int:
        """What one shard costs."""
        return self.cases * self.tokens_per_case

    @property
    def shard_names(self) -> tuple[str, ...]:
        """Their names: 0, 1, …"""
        return tuple(map(str, range(self.shards)))


class FenceReport(Struct, frozen=True, kw_only=True):
    """The one object that the drill ends with."""

    preemptions: int
    budget_tokens: int
    committed_tokens: int
    burned_tokens: int
    reserved_tokens: int
    artifacts: dict[str, int]
    """Accepted artifacts by shard, from the ledger's lines: 1 each."""
    refusals: dict[str, int]
    """By `op/reason`, from the ledger's lines."""
    unclassified: int
    """Refusals outside the contract's closed sets: 0."""
    ok: bool


def report_on(
    terms: FenceTerms, summary: RunSummary, lines: Iterable[Record], *, preemptions: int, held: bool
) -> FenceReport:
    """Judge a finished drill by the store's totals and, independently, by the ledger's lines.

    `ok`: every shard has exactly one artifact and is billed once, nothing is left reserved, the budget was never
    overshot (`held`), as many preemptions as asked for were delivered, and store and ledger agree.
    """
    seen: set[str] = set()
    artifacts: Counter[str] = Counter(dict.fromkeys(terms.shard_names, 0))
    refusals: Counter[str] = Counter()
    committed_tokens = unclassified = 0
    for line in lines:
        if line.id is None or line.id in seen:
            continue
        seen.add(line.id)
        match line:
            case Commit():
                artifacts[line.shard] += 1
                committed_tokens += line.tokens
            case Compensate():
                artifacts[line.shard] -= 1
            case Refuse():
                refusals[f"{line.op}/{line.reason}"] += 1
                unclassified += line.op not in REFUSAL_OPS or line.reason not in REFUSAL_REASONS
    run = summary.run
    ok = (
        held
        and unclassified == 0
        and preemptions == terms.preemptions
        and artifacts == dict.fromkeys(terms.shard_names, 1)
        and summary.accepted_shards == tuple(sorted(terms.shard_names))
        and committed_tokens == run.committed_tokens == terms.shards * terms.shard_tokens
        and run.committed_tokens <= terms.budget_tokens
        and run.reserved_tokens == summary.leases_open == 0
    )
    return FenceReport(
        preemptions=preemptions,
        budget_tokens=terms.budget_tokens,
        committed_tokens=run.committed_tokens,
        burned_tokens=run.burned_tokens,
        reserved_tokens=run.reserved_tokens,
        artifacts=dict(artifacts),
        refusals=dict(sorted(refusals.items())),
        unclassified=unclassified,
        ok=ok,
    )
