"""What losing the slot would cost, in tokens and in time."""

import pytest

from preempt_exporter.decide.restart_cost import lost_tokens, output_at_checkpoint, restart_cost_ms


def cost(**changes: float | None) -> int | None:
    """A task of 800 prompt and 200 target tokens at 100 tokens/s in a lane with 10 s of wait."""
    arguments: dict[str, float | None] = {
        "p95_wait_s": 10.0,
        "prompt_tokens": 800,
        "target_tokens": 200,
        "checkpoint_tokens": 0,
        "decode_tokens_per_s": 100.0,
    }
    return restart_cost_ms(**(arguments | changes))  # type: ignore[arg-type]


def test_restart_cost_is_wait_plus_prefill_plus_what_is_left_to_decode() -> None:
    """10 s wait, 800 tokens at the decode rate, 200 left; a prefill rate and a checkpoint shorten it."""
    assert cost() == 10_000 + 8_000 + 2_000
    assert cost(prefill_tokens_per_s=1000.0) == 10_000 + 800 + 2_000
    assert cost(checkpoint_tokens=150) == 10_000 + 8_000 + 500
    assert cost(checkpoint_tokens=500) == 10_000 + 8_000


@pytest.mark.parametrize("missing", ["p95_wait_s", "prompt_tokens", "target_tokens", "decode_tokens_per_s"])
def test_restart_cost_is_unknown_while_a_part_is(missing: str) -> None:
    """No part is guessed."""
    assert cost(**{missing: None}) is None


def test_a_rate_of_zero_is_no_measurement() -> None:
    """A stalled lane has no decode rate, and a zero prefill rate falls back to the decode rate."""
    assert cost(decode_tokens_per_s=0.0) is None
    assert cost(prefill_tokens_per_s=0.0) == cost()


def test_lost_tokens_are_prompt_and_progress_since_the_checkpoint() -> None:
    """The drill's 800 + 40 - 0 is 840; progress never lies behind its own checkpoint; no prompt, no number."""
    assert lost_tokens(800, 40, 0) == 840
    assert lost_tokens(800, 140, 100) == 840
    assert lost_tokens(800, 0, 100) == 800
    assert lost_tokens(0, 0, 0) == 0
    assert lost_tokens(None, 40, 0) is None


def test_a_rate_next_to_nothing_costs_the_most_that_can_be_said() -> None:
    """No overflow, whatever the configured prefill rate."""
    cost_ms = restart_cost_ms(
        p95_wait_s=0.0,
        prompt_tokens=2**53,
        target_tokens=0,
        checkpoint_tokens=0,
        decode_tokens_per_s=1.0,
        prefill_tokens_per_s=1e-300,
    )
    assert cost_ms == 2**53


@pytest.mark.parametrize(
    ("reported", "last", "now", "known"),
    [(40, 0, 30, 40), (40, 0, 50, 50), (40, 30, 30, 40), (40, 30, 29, 29), (20, 30, 31, 31)],
)
def test_a_checkpoint_takes_output_back_only_behind_its_own_last(
    reported: int, last: int, now: int, known: int
) -> None:
    """Behind what heartbeats reported it is late; behind the last checkpoint, work was lost."""
    assert output_at_checkpoint(reported, last, now) == known
