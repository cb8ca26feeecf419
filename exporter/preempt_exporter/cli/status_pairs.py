"""`status --pairs`: queue age against restart tokens, task by task: who waits, who burns, who does both."""

from collections.abc import Sequence

from msgspec import Struct
from rich.table import Table
from rich.text import Text

from preempt_exporter.cli.status_table import duration_text
from preempt_exporter.decide.admission import exceeds_fraction
from preempt_exporter.printable import printable
from preempt_exporter.settings import Thresholds
from preempt_exporter.state.task_row import TaskRow


class Pair(Struct, frozen=True, kw_only=True):
    """One live task's two evils."""

    task_id: str
    run: str | None
    lane: str
    queue_age_ms: int
    queue_age_ratio: float | None
    """Queue age / deadline; None while the deadline is unknown or 0."""
    restart_tokens: int
    restart_ratio: float | None
    """Restart tokens / budget; None while the budget is unknown or 0."""
    past: str
    """Which thresholds are passed: `both`, `queue_age`, `restart_tokens` or `none`."""


def pairs_of(rows: Sequence[TaskRow], thresholds: Thresholds) -> list[Pair]:
    """A pair for every live task, those past both thresholds first, then by the larger ratio."""
    pairs = []
    for row in rows:
        if row.queue_age_ms is None:
            continue
        old = exceeds_fraction(row.queue_age_ms, thresholds.queue_age_frac, row.deadline_ms)
        burnt = exceeds_fraction(row.restart_tokens, thresholds.restart_frac, row.task_budget)
        pairs.append(
            Pair(
                task_id=row.task_id,
                run=row.run,
                lane=row.lane,
                queue_age_ms=row.queue_age_ms,
                queue_age_ratio=row.queue_age_ms / row.deadline_ms if row.deadline_ms else None,
                restart_tokens=row.restart_tokens,
                restart_ratio=row.restart_tokens / row.task_budget if row.task_budget else None,
                past="both" if old and burnt else "queue_age" if old else "restart_tokens" if burnt else "none",
            )
        )
    order = {"both": 0, "restart_tokens": 1, "queue_age": 2, "none": 3}
    pairs.sort(key=lambda pair: (order[pair.past], -max(pair.queue_age_ratio or 0, pair.restart_ratio or 0)))
    return pairs


def pairs_table(pairs: Sequence[Pair]) -> Table:
    """The pairs, for eyes."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("task", "run", "lane"):
        table.add_column(name, overflow="fold")
    for name in ("queue age", "of deadline", "restart tokens", "of budget"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("past", no_wrap=True)
    for pair in pairs:
        cells = (
            pair.task_id,
            pair.run or "-",
            pair.lane,
            duration_text(pair.queue_age_ms),
            _percent(pair.queue_age_ratio),
            str(pair.restart_tokens),
            _percent(pair.restart_ratio),
            pair.past,
        )
        table.add_row(*(Text(printable(cell)) for cell in cells), style="yellow" if pair.past != "none" else None)
    return table


def _percent(ratio: float | None) -> str:
    return "-" if ratio is None else f"{100 * ratio:.0f} %"
