"""What losing the slot now would cost a task: tokens to burn again, and time until it would be finished."""

from preempt_exporter.ledger.records import MAX_EXACT_INTEGER


def lost_tokens(prompt_tokens: int | None, output_tokens: int, checkpoint_tokens: int) -> int | None:
    """Tokens that a preemption now would waste: max(prompt + output - checkpoint, 0); None while the prompt is unknown.

    `output_tokens` counts at least what was checkpointed: progress is never behind its own checkpoint.
    """
    if prompt_tokens is None:
        return None
    return max(prompt_tokens + max(output_tokens, checkpoint_tokens) - checkpoint_tokens, 0)


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
    if p95_wait_s is None or prompt_tokens is None or target_tokens is None:
        return None
    decode = _measured(decode_tokens_per_s)
    prompt_s = _seconds_for(prompt_tokens, _measured(prefill_tokens_per_s) or decode)
    rest_s = _seconds_for(max(target_tokens - checkpoint_tokens, 0), decode)
    if prompt_s is None or rest_s is None:
        return None
    return round(min(1000 * (max(p95_wait_s, 0.0) + prompt_s + rest_s), MAX_EXACT_INTEGER))


def _measured(tokens_per_s: float | None) -> float | None:
    return tokens_per_s if tokens_per_s is not None and tokens_per_s > 0 else None


def _seconds_for(tokens: int, tokens_per_s: float | None) -> float | None:
    """No tokens take no time, whatever the rate; None where there are some and the rate is unknown."""
    if tokens == 0:
        return 0.0
    return None if tokens_per_s is None else tokens / tokens_per_s
