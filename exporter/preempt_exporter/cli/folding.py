"""What commands that fold whole ledgers share: which ledgers, and one pass over them."""

import os
from collections.abc import Sequence

from preempt_exporter import __version__
from preempt_exporter.cli.decoding import begin_counting_ignored, chunk_decoder
from preempt_exporter.config import Config
from preempt_exporter.errors import UsageError
from preempt_exporter.metrics.scrape import Scrape
from preempt_exporter.metrics.self_samples import Reading
from preempt_exporter.state.watched import Watched
from preempt_exporter.tail.batch import Consumed, read_batch


def ledgers_of(named: Sequence[str]) -> list[str]:
    """The ledgers named on the command line, else the environment's; `UsageError` where there is neither.

    An empty name is refused too: as a path it would mean the working directory.
    """
    ledgers = list(named) or [path for path in [os.environ.get("LEDGER_PATH", "")] if path]
    if not ledgers:
        raise UsageError("no LEDGER given: name a file, folder or glob, or set LEDGER_PATH")
    if "" in ledgers:
        raise UsageError("a LEDGER is empty, perhaps a variable that is not set: name a file, folder or glob")
    return ledgers


def fold_ledgers(patterns: Sequence[str], config: Config, now_ms: int, *, pending_too: bool = True) -> Watched:
    """Read the whole history of the ledgers as of `now_ms`; bytes, lines and bad lines are counted in the figures.

    Without `pending_too` a last line that has no end yet is left out, as an exporter leaves it that follows the file.
    `UnreadableInput` for a named path that is not there.
    """
    consumed = Consumed()
    decode = chunk_decoder(config)
    watched = Watched(config.tasks(), config.lane_settings())
    begin_counting_ignored(watched.figures, config)
    counts = watched.figures.counts
    for chunk in read_batch(patterns, pending_too=pending_too, consumed=consumed):
        decoded = decode(chunk)
        counts.lines += decoded.lines
        if counts.ignored is not None:
            counts.ignored += decoded.ignored
        for bad in decoded.bad:
            counts.errors[bad.reason] += 1
        watched.fold(decoded.records, chunk.ledger, now_ms)
    counts.bytes = consumed.bytes
    return watched


def cold_scrape(patterns: Sequence[str], config: Config, now_ms: int) -> str:
    """What a scrape would say that had read all of the ledgers just now, in the text format."""
    watched = fold_ledgers(patterns, config, now_ms, pending_too=False)
    reading = Reading(ready=True, bytes_read=watched.figures.counts.bytes)
    return Scrape(watched, config.thresholds(), __version__).text(reading, now_ms, openmetrics=False)
