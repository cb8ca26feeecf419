"""The status table, for eyes; programs read `--json`."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from preempt_exporter.printable import printable
from preempt_exporter.state.task_row import TaskRow

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

FITS = {True: "yes", False: "no", None: "unknown"}


def duration_text(ms: int | None) -> str:
    """Milliseconds in the two largest units that matter, the rest cut off; `-` for None."""
    if ms is None:
        return "-"
    sign, rest = ("-", -ms) if ms < 0 else ("", ms)
    if rest < SECOND_MS:
        return f"{sign}{rest}ms"
    if rest < MINUTE_MS:
        return f"{sign}{rest // 100 / 10:g}s"
    for unit, unit_name, smaller, smaller_name in (
        (DAY_MS, "d", HOUR_MS, "h"),
        (HOUR_MS, "h", MINUTE_MS, "m"),
        (MINUTE_MS, "m", SECOND_MS, "s"),
    ):
        if rest >= unit:
            return f"{sign}{rest // unit}{unit_name}{rest % unit // smaller:02d}{smaller_name}"
    raise AssertionError(rest)


def print_rows(rows: Sequence[TaskRow], console: Console | None = None) -> None:
    """One row per task, or that there is none."""
    print_table(rows_table(rows) if rows else "no tasks", console)


def print_table(table: Table | str, console: Console | None = None) -> None:
    """Whole and once; a pipe gets full width and no colour."""
    console = console or Console()
    if not console.is_terminal:
        console = Console(file=console.file, width=max(200, console.width), no_color=True)
    # Written here and not by rich, which makes an exit status of its own out of a reader that has gone.
    with console.capture() as captured:
        console.print(table)
    console.file.write(captured.get())


def rows_table(rows: Sequence[TaskRow]) -> Table:
    """One row per task."""
    with_run = any(row.run for row in rows)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("task", *(["run"] if with_run else []), "lane", "state", "action", "next action", "reason"):
        table.add_column(name, overflow="fold")
    for name in ("age", "slack", "restart tokens", "preempts", "fits one more"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        urgent = row.next_action != "none" or row.fits_one_more_preemption is False
        table.add_row(
            *(
                Text(printable(cell))
                for cell in (
                    row.task_id,
                    *([row.run or "-"] if with_run else []),
                    row.lane,
                    row.state,
                    row.action,
                    row.next_action,
                    row.reason or "-",
                    duration_text(row.queue_age_ms),
                    duration_text(row.deadline_slack_ms),
                    _of_budget(row),
                    str(row.preempts),
                    "-" if row.queue_age_ms is None else FITS[row.fits_one_more_preemption],
                )
            ),
            style="yellow" if urgent and row.queue_age_ms is not None else None,
        )
    return table


def _of_budget(row: TaskRow) -> str:
    return str(row.restart_tokens) if row.task_budget is None else f"{row.restart_tokens} of {row.task_budget}"
