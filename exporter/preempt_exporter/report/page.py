"""The report as one self-contained HTML page: no script, no font, nothing from anywhere else."""

from collections.abc import Sequence
from html import escape

from preempt_exporter.decide.break_even import LaneAccumulator, SlackModel
from preempt_exporter.report.histogram import bars
from preempt_exporter.report.picture import histogram_svg, slack_svg
from preempt_exporter.report.row import ReportRow
from preempt_exporter.report.table import cells_of, columns_of

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --dim: #5d6b7c; --paper: #fff; --line: #d9dfe7; --panel: #f6f8fa;
  --wait: #d98b1f; --run: #2f6fb3; --margin: #8c98a8; --given: #147a4b; --tight: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6ebf2; --dim: #9aa8b8; --paper: #12161c; --line: #2c3541;
  --panel: #1a2029; --wait: #e7a94b; --run: #6aa5e6; --margin: #768394; --given: #4cc38a; --tight: #ff8a80; } }
body { margin: 2rem auto; max-width: 62rem; padding: 0 1rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin-bottom: .25rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p.note { color: var(--dim); margin: .25rem 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 1rem 0; }
th, td { padding: .35rem .65rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child, th.left, td.left { text-align: left; }
td.tight { color: var(--tight); font-weight: 600; } td.fits { color: var(--given); font-weight: 600; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); gap: 1rem; }
figure { margin: 0; padding: .75rem; background: var(--panel); border: 1px solid var(--line); border-radius: 6px; }
figcaption { color: var(--dim); font-size: .9rem; margin-bottom: .4rem; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
svg text.dim { fill: var(--dim); }
"""


def page_of(
    rows: Sequence[ReportRow], lanes: Sequence[LaneAccumulator], *, notes: Sequence[str], model: SlackModel
) -> str:
    """The whole page. `lanes` hold the durations of `rows`, in the same order; `notes` are sentences for its head."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>Break-even report</title><style>{_STYLE}</style></head><body>",
        "<h1>What rework costs, lane by lane</h1>",
        *(f'<p class="note">{escape(note)}</p>' for note in notes),
        _table(rows),
    ]
    if rows:
        parts += [
            "<h2>Slack: required against given</h2>",
            f"<figure><figcaption>{escape(_model_words(model))}</figcaption>{slack_svg(rows, model)}</figure>",
        ]
    for row, lane in zip(rows, lanes, strict=True):
        name = escape(row.figures.lane)
        parts += [
            f'<h2>Lane {name}: {row.figures.attempts} attempts</h2><div class="pair">',
            _figure(f"Wait before the start, p95 {row.figures.p95_wait_s:.0f} s", bars(lane.waits_s), "wait"),
            _figure(f"Run, p95 {row.figures.p95_run_s:.0f} s", bars(lane.runs_s), "run"),
            "</div>",
        ]
    return "\n".join([*parts, "</body></html>", ""])


def _table(rows: Sequence[ReportRow]) -> str:
    heads = columns_of(rows)
    with_money = "money/job" in heads
    lines = ['<div class="scroll"><table><thead><tr>']
    lines += [f'<th scope="col"{_left(head)}>{escape(head)}</th>' for head in heads]
    lines.append("</tr></thead><tbody>")
    for row in rows:
        lines.append("<tr>")
        for head, cell in zip(heads, cells_of(row, with_money=with_money), strict=True):
            kind = _left(head)
            if head == "verdict":
                kind = f' class="left {"fits" if row.verdict == "OK" else "tight"}"'
            lines.append(f"<td{kind}>{escape(cell)}</td>")
        lines.append("</tr>")
    return "".join([*lines, "</tbody></table></div>"])


def _left(head: str) -> str:
    return ' class="left"' if head in ("lane", "verdict") else ""


def _figure(caption: str, counts: Sequence[int], kind: str) -> str:
    return f"<figure><figcaption>{escape(caption)}</figcaption>{histogram_svg(counts, kind, caption)}</figure>"


def _model_words(model: SlackModel) -> str:
    if model == "requeue":
        return "rework x (p95 wait + p95 run) + margin: every further attempt waits again"
    return "p95 wait + rework x p95 run + margin"
