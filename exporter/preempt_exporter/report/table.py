"""The report as a table for a terminal or a pipe."""

from collections.abc import Sequence

from rich import box
from rich.table import Table

from preempt_exporter.report.row import ReportRow


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
        f"{figures.rework_multiplier:.2f}",
        f"{figures.s_per_completed_job:.0f}",
        f"{figures.p95_wait_s:.0f} s",
        _or_unknown(figures.tokens_per_completed_job, 0),
        f"{figures.required_slack_s:.0f} s",
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
        table.add_row(*cells_of(row, with_money=with_money), style="red" if row.verdict == "TOO TIGHT" else "")
    return table


def _or_unknown(value: float | None, decimals: int) -> str:
    return "?" if value is None else f"{value:.{decimals}f}"
