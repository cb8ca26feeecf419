"""The report as a table for a terminal or a pipe."""

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from preempt_exporter.printable import printable
from preempt_exporter.report.row import ReportRow

WRITTEN_OUT_BELOW = 1e12


def columns_of(rows: Sequence[ReportRow]) -> tuple[str, ...]:
    """Column heads; money only where a lane has a price."""
    heads = ("lane", "done", "rework", "s/job", "p95 wait", "tok/job", "need", "verdict")
    return (*heads, "money/job", "of it rework") if any(row.price for row in rows) else heads


def cells_of(row: ReportRow, *, with_money: bool) -> tuple[str, ...]:
    """One lane's cells in the order of the heads: seconds without decimals, `?` for what is unknown."""
    figures = row.figures
    cells = (
        figures.lane,
        str(figures.completed),
        _number(figures.rework_multiplier, 2),
        _number(figures.s_per_completed_job, 0),
        f"{_number(figures.p95_wait_s, 0)} s",
        _or_unknown(figures.tokens_per_completed_job, 0),
        f"{_number(figures.required_slack_s, 0)} s",
        row.verdict,
    )
    if not with_money:
        return cells
    return (*cells, _or_unknown(row.money_per_completed_job, 4), _or_unknown(row.rework_money_per_completed_job, 4))


def table_of(rows: Sequence[ReportRow]) -> Table:
    """A rich table; numbers to the right, a tight lane in red where there is colour."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    heads = columns_of(rows)
    for head in heads:
        table.add_column(head, justify="left" if head in ("lane", "verdict") else "right", no_wrap=True)
    with_money = "money/job" in heads
    for row in rows:
        cells = (Text(printable(cell)) for cell in cells_of(row, with_money=with_money))
        table.add_row(*cells, style="red" if row.verdict == "TOO TIGHT" else "")
    return table


def _number(value: float, decimals: int) -> str:
    """Digits as long as a reader can count them, then the order of magnitude."""
    return f"{value:.{decimals}f}" if abs(value) < WRITTEN_OUT_BELOW else f"{value:.3e}"


def _or_unknown(value: float | None, decimals: int) -> str:
    return "?" if value is None else _number(value, decimals)
