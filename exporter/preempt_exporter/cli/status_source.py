"""Where `status` has its rows from: ledgers read once, ledgers followed, or a running exporter."""

from argparse import Namespace
from collections.abc import Sequence
from typing import Protocol

import msgspec
from msgspec import Struct

from preempt_exporter.cli.decoding import chunk_decoder
from preempt_exporter.cli.exporter_client import fetch
from preempt_exporter.cli.folding import fold_ledgers
from preempt_exporter.cli.status_explain import Explained
from preempt_exporter.clock import Clock
from preempt_exporter.config import Config
from preempt_exporter.decide.cadence import mean_time_between_preemptions_s
from preempt_exporter.errors import UnreadableInput, UsageError
from preempt_exporter.state.rates import LaneMeasurements
from preempt_exporter.state.survey import NO_RATES
from preempt_exporter.state.task_row import TaskRow, evidence_of, task_rows
from preempt_exporter.state.watched import Watched
from preempt_exporter.tail.follow import Tail

READ_BYTES = 1 << 23


class RowSource(Protocol):
    """Gives the rows as they are at a moment."""

    def rows(self, now_ms: int) -> list[TaskRow]:
        """Least slack first. Raises `UnreadableInput`."""
        ...


class LedgerRows:
    """Rows of folded ledgers."""

    def __init__(self, watched: Watched, config: Config) -> None:
        """`watched` may grow between two looks."""
        self.watched = watched
        self._thresholds = config.thresholds()
        self._measurements = LaneMeasurements(watched.lanes, self._thresholds)

    def rows(self, now_ms: int) -> list[TaskRow]:
        """As of `now_ms`."""
        watched = self.watched
        return task_rows(watched.figures, watched.tasks, self._thresholds, self._measurements, now_ms)

    def explained(self, task_id: str, run: str | None, checkpoint_cost_s: float | None, now_ms: int) -> list[Explained]:
        """What the rows of that id were computed from, one for each run that has it (or for `run` alone)."""
        found, figures = [], self.watched.figures
        for row in self.rows(now_ms):
            if row.task_id != task_id or (run is not None and row.run != run):
                continue
            life = figures.runs[row.run].lives[row.task_id]
            lane = figures.lanes.get(life.lane)
            rates = NO_RATES if lane is None else self._measurements.rates(lane, now_ms)
            window = None if lane is None else self._measurements.window_figures(lane, now_ms)
            mean_s = None
            if window is not None:
                run_s = window.s_per_completed_job * max(1, window.completed)
                mean_s = mean_time_between_preemptions_s(run_s, window.preempted)
            found.append(
                Explained(
                    row=row,
                    life=life,
                    evidence=evidence_of(life, figures, rates, now_ms),
                    thresholds=self._thresholds,
                    rates=rates,
                    mean_time_between_preemptions_s=mean_s,
                    checkpoint_cost_s=checkpoint_cost_s,
                )
            )
        return found


class FollowedRows(LedgerRows):
    """Rows of ledgers that go on being written: each look reads what is new."""

    def __init__(self, patterns: Sequence[str], config: Config, clock: Clock) -> None:
        """The ledgers need not exist yet."""
        super().__init__(Watched(config.tasks(), config.lane_settings()), config)
        self._tail = Tail(list(patterns), clock=clock)
        self._decode = chunk_decoder(config)

    def rows(self, now_ms: int) -> list[TaskRow]:
        """Read to the end of what there is, then look."""
        self._tail.scan()
        while True:
            for chunk in self._tail.read(READ_BYTES):
                records = self._decode(chunk).records
                self.watched.fold(records, chunk.ledger, now_ms)
            if not self._tail.has_more():
                break
        self.watched.expire(now_ms)
        return super().rows(now_ms)

    def close(self) -> None:
        """Let go of the files."""
        self._tail.close()


class ExporterRows(Struct, frozen=True):
    """Rows of a running exporter."""

    url: str

    def rows(self, now_ms: int) -> list[TaskRow]:
        """As of the exporter's own now."""
        address = self.url.rstrip("/") + "/api/v1/tasks"
        try:
            return msgspec.json.decode(fetch(address), type=list[TaskRow])
        except msgspec.DecodeError as error:
            raise UnreadableInput(
                address, f"not an exporter's answer: {error}; give the address that 'serve' names in its log"
            ) from error


def folded_rows(patterns: Sequence[str], config: Config, now_ms: int) -> LedgerRows:
    """The whole history of the ledgers, read once. Raises `UnreadableInput` for a named path that is not there."""
    return LedgerRows(fold_ledgers(patterns, config, now_ms), config)


def refuse_contradictions(args: Namespace) -> None:
    """Raises UsageError for flags that do not go together."""
    if args.url and args.ledgers:
        raise UsageError("give either LEDGER or --url, not both")
    if args.url and args.explain is not None:
        raise UsageError("--explain needs the ledger's lines: give LEDGER instead of --url")
    if args.url and args.now_ms is not None:
        raise UsageError("an exporter tells of now: --now-ms goes with LEDGER, not with --url")
    if args.explain is None and (args.run_name is not None or args.checkpoint_cost is not None):
        raise UsageError("--run and --checkpoint-cost go with --explain: they choose no rows")
    if args.live and (args.json or args.explain is not None or args.now_ms is not None):
        raise UsageError("--live redraws a table of now: it goes with neither --json, --explain nor --now-ms")
    if args.explain is not None and (args.json or args.pairs):
        raise UsageError("--explain is text about one task: it goes with neither --json nor --pairs")
