"""A lane's hosts, and how they are taken back: at a Poisson rate each, or as a recorded trace says."""

import random
from collections.abc import Iterable
from math import exp

from msgspec import Struct

from preempt_exporter.drill.spot_trace import SpotTrace

HOUR_S = 3600


class LivePlan(Struct, frozen=True, kw_only=True):
    """One lane of the live drill."""

    name: str
    hosts: int
    """Where a trace plays, the hosts for each instance that the trace counts."""
    slots_per_host: int
    share: float
    """Of the tasks that arrive."""
    preemptions_per_hour: float = 0.0
    """Of each host; one that is taken back is replaced at once."""
    trace: SpotTrace | None = None


class Hosts:
    """The hosts of one lane that are there now."""

    def __init__(self, plan: LivePlan, rng: random.Random) -> None:
        """All of them are there, or as many as the trace begins with."""
        self._plan = plan
        self._rng = rng
        self._there: list[int] = []
        self._fit_to(self._wanted(0.0))

    def names(self) -> list[str]:
        """Hosts that are there."""
        return [self._name(number) for number in self._there]

    def pass_time(self, elapsed_s: float, step_s: float) -> list[str]:
        """Move to `elapsed_s` after the beginning, `step_s` after the last move; the hosts that were taken back."""
        chance = 1 - exp(-self._plan.preemptions_per_hour * step_s / HOUR_S)
        lost = [number for number in self._there if chance and self._rng.random() < chance]
        lost += [number for number in self._fit_to(self._wanted(elapsed_s)) if number not in lost]
        return [self._name(number) for number in lost]

    def _wanted(self, elapsed_s: float) -> int:
        trace = self._plan.trace
        return self._plan.hosts if trace is None else self._plan.hosts * trace.count_at(elapsed_s)

    def _fit_to(self, wanted: int) -> list[int]:
        if wanted < len(self._there):
            lost = self._rng.sample(self._there, len(self._there) - wanted)
            self._there = [number for number in self._there if number not in lost]
            return lost
        free = (number for number in range(len(self._there) + wanted) if number not in self._there)
        self._there = sorted([*self._there, *_first(free, wanted - len(self._there))])
        return []

    def _name(self, number: int) -> str:
        return f"{self._plan.name}-{number}"


def _first(numbers: Iterable[int], count: int) -> list[int]:
    return [number for number, _ in zip(numbers, range(count), strict=False)]
