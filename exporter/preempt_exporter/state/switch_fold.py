"""Run and lane events: who opened, closed, stopped or drained what (ledger.md 3)."""

from preempt_exporter.ledger.records import (
    LaneDrain,
    LaneResume,
    Mode,
    RunClose,
    RunOpen,
    RunResume,
    RunStop,
    SwitchEvent,
)
from preempt_exporter.state.figures import Figures
from preempt_exporter.state.run import Run
from preempt_exporter.state.spend_fold import accept_newly_covered


def fold_switch(figures: Figures, event: SwitchEvent, now_ms: int) -> None:
    """Apply one run, lane or mode event, read at `now_ms`; a missing or future `ts_ms` counts as that moment."""
    moment_ms = now_ms if event.ts_ms is None else min(event.ts_ms, now_ms)
    match event:
        case LaneDrain():
            lane = figures.lane(event.lane)
            lane.draining, lane.action = True, event.action
        case LaneResume():
            lane = figures.lane(event.lane)
            lane.draining, lane.action = False, None
        case Mode():
            figures.mode = event.mode
        case RunOpen() | RunClose() | RunStop() | RunResume():
            run = figures.run(event.run, now_ms)
            run.touch(moment_ms, moment_ms)
            _fold_run(figures, run, event, moment_ms)


def _fold_run(figures: Figures, run: Run, event: RunOpen | RunClose | RunStop | RunResume, moment_ms: int) -> None:
    match event:
        case RunOpen():
            _open(figures, run, event, moment_ms)
        case RunClose():
            run.closed_ms = moment_ms
        case RunStop():
            run.stopped = True
        case RunResume():
            run.stopped = False


def _open(figures: Figures, run: Run, event: RunOpen, moment_ms: int) -> None:
    """A later `run_open` changes only what it names; its deadline counts from the first one."""
    run.closed_ms = None
    if run.opened_ms is None:
        run.opened_ms = moment_ms
    if event.budget_tokens is not None:
        run.budget_tokens = event.budget_tokens
    if event.deadline_ms is not None:
        run.deadline_at_ms = run.opened_ms + event.deadline_ms
    if event.tasks is not None:
        run.tasks = event.tasks
    if event.cases_per_shard is not None and event.cases_per_shard != run.cases_per_shard:
        run.cases_per_shard = event.cases_per_shard
        accept_newly_covered(figures, run, moment_ms)
