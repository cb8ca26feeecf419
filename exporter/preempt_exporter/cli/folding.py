"""What commands that fold whole ledgers share: which ledgers, and one pass over them."""

import os
from collections.abc import Sequence

from preempt_exporter.config import Config
from preempt_exporter.errors import UsageError
from preempt_exporter.ledger.decode import decode_chunk
from preempt_exporter.state.watched import Watched
from preempt_exporter.tail.batch import read_batch


def ledgers_of(named: Sequence[str]) -> list[str]:
    """The ledgers named on the command line, else the environment's; `UsageError` where there is neither."""
    ledgers = list(named) or [path for path in [os.environ.get("LEDGER_PATH", "")] if path]
    if not ledgers:
        raise UsageError("no LEDGER given: name a file, folder or glob, or set LEDGER_PATH")
    return ledgers


def fold_ledgers(patterns: Sequence[str], config: Config, now_ms: int) -> Watched:
    """Read the whole history of the ledgers as of `now_ms`; bad lines are counted in the figures.

    `UnreadableInput` for a named path that is not there.
    """
    watched = Watched(config.tasks(), config.lane_settings())
    counts = watched.figures.counts
    for chunk in read_batch(patterns):
        decoded = decode_chunk(chunk.data, at_file_start=chunk.offset == 0)
        counts.lines += decoded.lines
        for bad in decoded.bad:
            counts.errors[bad.reason] += 1
        watched.fold(decoded.records, chunk.ledger, now_ms)
    return watched
