"""How long lanes make tasks wait and how fast they decode, measured from the gate's own lines."""

from array import array
from typing import TypeVar

from msgspec import Struct, field

from preempt_exporter.decide.break_even import p95
from preempt_exporter.decide.restart_cost import restart_cost_ms
from preempt_exporter.gate.life import Life

REMEMBERED = 1000
"""Waits and checkpoint steps that each lane is measured by."""

MAX_LANES = 1000

_Measured = TypeVar("_Measured")


class LaneRate(Struct):
    """One lane's newest waits (ms) and steps (tokens, ms)."""

    waits_ms: list[int] = field(default_factory=list)
    steps: list[tuple[int, int]] = field(default_factory=list)

    def p95_wait_s(self) -> float | None:
        """p95 of enqueue to first admit; None before the first."""
        return p95(array("d", self.waits_ms)) / 1000 if self.waits_ms else None

    def decode_tokens_per_s(self) -> float | None:
        """Tokens per second over the remembered checkpoint steps; None before the first."""
        milliseconds = sum(ms for _, ms in self.steps)
        return 1000 * sum(tokens for tokens, _ in self.steps) / milliseconds if milliseconds else None


class LaneRates(Struct):
    """The rates of every lane; lanes beyond a thousand are not measured."""

    lanes: dict[str, LaneRate] = field(default_factory=dict)

    def record_wait(self, lane: str, wait_ms: int) -> None:
        """A task of the lane was admitted for the first time `wait_ms` after its enqueue."""
        rate = self._lane(lane)
        if rate is not None:
            _remember(rate.waits_ms, max(0, wait_ms))

    def record_step(self, lane: str, tokens: int, elapsed_ms: int) -> None:
        """A checkpoint came `elapsed_ms` after the step began and gained `tokens`; anything not above 0 is no step."""
        rate = self._lane(lane)
        if rate is not None and tokens > 0 and elapsed_ms > 0:
            _remember(rate.steps, (tokens, elapsed_ms))

    def restart_cost_ms(self, life: Life, prefill_tokens_per_s: float | None) -> int | None:
        """Time to finish if the slot were lost now; None while a part is unknown."""
        rate = self.lanes.get(life.lane)
        if rate is None:
            return None
        return restart_cost_ms(
            p95_wait_s=rate.p95_wait_s(),
            prompt_tokens=life.prompt_tokens,
            target_tokens=life.target_tokens,
            checkpoint_tokens=life.checkpoint_tokens,
            decode_tokens_per_s=rate.decode_tokens_per_s(),
            prefill_tokens_per_s=prefill_tokens_per_s,
        )

    def _lane(self, name: str) -> LaneRate | None:
        rate = self.lanes.get(name)
        if rate is None and len(self.lanes) < MAX_LANES:
            rate = self.lanes[name] = LaneRate()
        return rate


def _remember(window: list[_Measured], value: _Measured) -> None:
    window.append(value)
    if len(window) > REMEMBERED:
        del window[0]
