"""What a fence drill came to, for somebody who reads of it for the first time; programs read `--json`."""

from collections.abc import Iterator

from preempt_exporter.drill.fence_report import FenceReport, FenceTerms


def in_words(report: FenceReport, terms: FenceTerms, seed: int) -> str:
    """A line for each thing that the drill judged, then what was refused, most often first."""
    return "\n".join((*_judged(report, terms, seed), *_refused(report)))


def _judged(report: FenceReport, terms: FenceTerms, seed: int) -> Iterator[str]:
    held = "the fence held" if report.ok else "THE FENCE DID NOT HOLD"
    yield f"{held}: seed {seed}, {report.preemptions} preemptions"
    due, cost = report.budget_tokens, terms.shards * terms.shard_tokens
    yield f"billed: {report.committed_tokens} tokens of the {cost} that {terms.shards} shards cost; the budget is {due}"
    if due < cost:
        yield f"the budget is too small for the shards, so no drill can end well: give --budget {cost} or more"
    wrong = {shard: count for shard, count in report.artifacts.items() if count != 1}
    accepted = ", ".join(f"{count} for shard {shard}" for shard, count in wrong.items())
    yield f"artifacts: {f'{accepted}, where one is right' if wrong else 'one accepted for each shard'}"
    yield f"reserved at the end: {report.reserved_tokens} tokens"
    yield f"burned: {report.burned_tokens} tokens of work lost with its lease; the budget is not charged for them"


def _refused(report: FenceReport) -> Iterator[str]:
    yield f"refused: {sum(report.refusals.values())} requests, by operation and reason"
    width = max((len(str(count)) for count in report.refusals.values()), default=0)
    for kind, count in sorted(report.refusals.items(), key=lambda item: -item[1]):
        yield f"  {count:>{width}}  {kind}"
    if report.unclassified:
        yield f"of them {report.unclassified} with an operation or reason that no contract knows"
