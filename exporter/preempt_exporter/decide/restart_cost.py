"""What losing the slot now would cost a task: tokens to burn again, and time until it would be finished."""

from collections.abc import Callable

from preempt_exporter.ledger.records import MAX_EXACT_INTEGER


def lost_tokens(prompt_tokens: int | None, output_tokens: int, checkpoint_tokens: int) -> int | None:
    """Tokens that a preemption now would waste: max(prompt + output - checkpoint, 0); None while the prompt is unknown.

    `output_tokens` counts at least what was checkpointed: progress is never behind its own checkpoint.
    """
    if prompt_tokens is None:
        return None
    return max(prompt_tokens + max(output_tokens, checkpoint_tokens) - checkpoint_tokens, 0)


def output_at_checkpoint(output_tokens: int, last_checkpoint_tokens: int, checkpoint_tokens: int) -> int:
    """Output tokens known after a checkpoint of `checkpoint_tokens` that names no output itself.

    It may be behind the `output_tokens` that were reported meanwhile, which then stay. One behind the last checkpoint
    takes the output back with it.
    """
    if checkpoint_tokens < last_checkpoint_tokens:
        return checkpoint_tokens
    return max(output_tokens, checkpoint_tokens)


def restart_cost_ms(
    *,
    p95_wait_s: float | None,
    prompt_tokens: int | None,
    target_tokens: int | None,
    checkpoint_tokens: int,
    decode_tokens_per_s: float | None,
    prefill_tokens_per_s: float | None = None,
) -> int | None:
    """Time from losing the slot now to being finished, in whole milliseconds (nearest), or None while unknown.

    The lane's p95 wait, plus the prompt at the prefill rate, plus the target tokens left after the last checkpoint
    at the decode rate. A lane without a prefill rate reads prompts at its decode rate, which is pessimistic. A rate
    of 0 or below is no measurement and counts as unknown. A cost beyond 2^53 is 2^53.
    """
    cost_ms = restart_cost_in_lane(p95_wait_s, decode_tokens_per_s, prefill_tokens_per_s)
    return cost_ms(prompt_tokens, target_tokens, checkpoint_tokens)


RestartCost = Callable[[int | None, int | None, int], int | None]
"""From prompt, target and checkpoint tokens of a task to its cost of a restart in milliseconds; None: unknown."""


def restart_cost_in_lane(
    p95_wait_s: float | None, decode_tokens_per_s: float | None, prefill_tokens_per_s: float | None
) -> RestartCost:
    """`restart_cost_ms` of any task of a lane with these rates, for those who ask about thousands of tasks at once."""
    if p95_wait_s is None:
        return _unknown
    wait_s = max(p95_wait_s, 0.0)
    decode = _measured(decode_tokens_per_s)
    prefill = _measured(prefill_tokens_per_s) or decode

    def cost_ms(prompt_tokens: int | None, target_tokens: int | None, checkpoint_tokens: int) -> int | None:
        if prompt_tokens is None or target_tokens is None:
            return None
        rest_tokens = target_tokens - checkpoint_tokens
        # No tokens take no time, whatever the rate.
        if (prefill is None and prompt_tokens) or (decode is None and rest_tokens > 0):
            return None
        prompt_s = prompt_tokens / prefill if prefill is not None else 0.0
        rest_s = rest_tokens / decode if decode is not None and rest_tokens > 0 else 0.0
        cost_ms = 1000 * (wait_s + prompt_s + rest_s)
        return round(cost_ms) if cost_ms < MAX_EXACT_INTEGER else MAX_EXACT_INTEGER

    return cost_ms


def _unknown(prompt_tokens: int | None, target_tokens: int | None, checkpoint_tokens: int) -> None:
    return None


def _measured(tokens_per_s: float | None) -> float | None:
    return tokens_per_s if tokens_per_s is not None and tokens_per_s > 0 else None
