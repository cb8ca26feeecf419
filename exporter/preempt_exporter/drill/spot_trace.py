"""A recorded trace of spot capacity: how many instances there were, one count every `gap_seconds`.

The format of the traces that were published with "Can't Be Late" (NSDI 24): an object with `metadata.gap_seconds` and
`data`, a list of counts. A fall is a preemption.
"""

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from preempt_exporter.errors import UnreadableInput

Count = Annotated[int, Meta(ge=0, le=100_000)]


class _Metadata(Struct):
    gap_seconds: Annotated[float, Meta(gt=0)]


class _TraceFile(Struct):
    metadata: _Metadata
    data: Annotated[list[Count], Meta(min_length=1)]


class SpotTrace(Struct, frozen=True):
    """Counts of instances over time."""

    gap_s: float
    counts: list[int]

    @property
    def duration_s(self) -> float:
        """Seconds from the first count to the end of the last one's gap."""
        return self.gap_s * len(self.counts)

    def count_at(self, elapsed_s: float) -> int:
        """Instances `elapsed_s` seconds after the trace's beginning; beyond its end the last count holds."""
        return self.counts[min(max(0, int(elapsed_s / self.gap_s)), len(self.counts) - 1)]


def read_spot_trace(path: str) -> SpotTrace:
    """Read a trace file. Raises UnreadableInput that says what is wrong with it."""
    try:
        trace = msgspec.json.decode(Path(path).read_bytes(), type=_TraceFile)
    except OSError as error:
        raise UnreadableInput(path, error) from error
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise UnreadableInput(path, f"is no trace of counts: {error}") from error
    return SpotTrace(trace.metadata.gap_seconds, trace.data)
