"""Time as an argument: rooms take a `Clock`, tests hand in one that they move themselves."""

import time
from typing import Protocol


class Clock(Protocol):
    """Where a room gets the time from."""

    def now_ms(self) -> int:
        """Unix time in whole milliseconds."""
        ...

    def monotonic_s(self) -> float:
        """Seconds on a clock that never goes back, for timeouts and cadence only."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now_ms(self) -> int:
        """Unix time in whole milliseconds."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """Seconds on the machine's monotonic clock."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait for `seconds`, between two looks at a condition."""
        time.sleep(seconds)


class FixedClock:
    """A clock that moves only when told to: `status --now-ms`, event-order drills and tests use it."""

    def __init__(self, now_ms: int) -> None:
        """Start at `now_ms`, Unix milliseconds."""
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """Unix time in whole milliseconds, as last set."""
        return self._now_ms

    def monotonic_s(self) -> float:
        """The same moment in seconds."""
        return self._now_ms / 1000

    def advance(self, ms: int) -> None:
        """Move forward by `ms` milliseconds."""
        self._now_ms += ms
