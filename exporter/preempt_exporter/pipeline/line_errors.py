"""Says that lines were bad without letting them flood the log."""

import logging

from preempt_exporter.clock import Clock
from preempt_exporter.ledger.decode import BadLine

log = logging.getLogger("preempt_exporter")

QUIET_S = 60.0
MAX_REMEMBERED = 10_000


class LineErrorLog:
    """Logs a bad line with file and byte offset, at most once a minute per file and reason."""

    def __init__(self, clock: Clock) -> None:
        """`clock` says how much later it is."""
        self._clock = clock
        self._said: dict[tuple[str, str], float] = {}

    def say(self, path: str, chunk_offset: int, bad: list[BadLine]) -> None:
        """`chunk_offset` is where in the file the chunk began that `bad` offsets count from."""
        now_s = self._clock.monotonic_s()
        for line in bad:
            key = (path, line.reason)
            said_s = self._said.get(key)
            if said_s is not None and now_s - said_s < QUIET_S:
                continue
            if len(self._said) >= MAX_REMEMBERED:
                self._said.clear()
            self._said[key] = now_s
            log.warning(
                "%s: byte %d: bad line (%s): %s; skipped", path, chunk_offset + line.offset, line.reason, line.detail
            )
