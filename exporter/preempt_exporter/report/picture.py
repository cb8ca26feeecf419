"""The report's pictures as inline SVG, coloured by the page's style."""

from collections.abc import Sequence
from html import escape

from preempt_exporter.decide.break_even import SlackModel
from preempt_exporter.report.histogram import bound_words
from preempt_exporter.report.row import ReportRow

_WIDTH = 900
_LABEL_WIDTH = 150
_ROW_HEIGHT = 46


def slack_svg(rows: Sequence[ReportRow], model: SlackModel) -> str:
    """A bar per lane, of wait, run and margin, against a line at the slack that is given."""
    given_s = rows[0].slack_s
    longest = max([given_s, *(row.figures.required_slack_s for row in rows)]) or 1.0
    scale = (_WIDTH - _LABEL_WIDTH - 90) / longest
    height = _ROW_HEIGHT * len(rows) + 52
    parts = [_open(_WIDTH, height, "Required slack of each lane against the slack that is given")]
    for index, row in enumerate(rows):
        parts += _slack_bar(row, model, scale, 30 + index * _ROW_HEIGHT)
    given_x = _LABEL_WIDTH + max(given_s, 0.0) * scale
    bottom = height - 24
    parts += [
        f'<line x1="{given_x:.1f}" y1="20" x2="{given_x:.1f}" y2="{bottom}" stroke="var(--given)" stroke-width="2"/>',
        f'<text x="{given_x:.1f}" y="14" text-anchor="{"end" if given_x > _WIDTH - 120 else "middle"}">'
        f"given {given_s:g} s</text>",
        *_legend(model, height - 8),
        "</svg>",
    ]
    return "".join(parts)


def histogram_svg(counts: Sequence[int], kind: str, title: str) -> str:
    """A bar per bound; `kind` is `wait` or `run` and picks the colour."""
    width, height, base = 440, 170, 130
    step = (width - 10) / len(counts)
    tallest = max(counts) or 1
    parts = [_open(width, height, title)]
    for index, count in enumerate(counts):
        x = 5 + index * step
        bar = (base - 22) * count / tallest
        words = bound_words(index)
        parts.append(
            f'<rect x="{x + 1:.1f}" y="{base - bar:.1f}" width="{step - 2:.1f}" height="{bar:.1f}" '
            f'fill="var(--{kind})"><title>up to {escape(words)}: {count}</title></rect>'
        )
        if count:
            parts.append(f'<text x="{x + step / 2:.1f}" y="{base - bar - 4:.1f}" text-anchor="middle">{count}</text>')
        if index % 2 == 0:
            at = f"{x + step / 2:.1f}"
            parts.append(f'<text class="dim" x="{at}" y="{base + 16}" text-anchor="middle">{escape(words)}</text>')
    parts.append(f'<line x1="5" y1="{base}" x2="{width - 5}" y2="{base}" stroke="var(--line)"/>')
    parts.append(f'<text class="dim" x="{width / 2:g}" y="{height - 6}" text-anchor="middle">up to</text></svg>')
    return "".join(parts)


def _slack_bar(row: ReportRow, model: SlackModel, scale: float, y: int) -> list[str]:
    figures = row.figures
    waits = figures.rework_multiplier if model == "requeue" else 1.0
    lengths_s = {
        "wait": waits * figures.p95_wait_s,
        "run": figures.rework_multiplier * figures.p95_run_s,
        "margin": row.margin_s,
    }
    name = figures.lane if len(figures.lane) <= 20 else figures.lane[:19] + "…"
    label = f'<text x="{_LABEL_WIDTH - 10}" y="{y + 17}" text-anchor="end">{escape(name)}</text>'
    parts = [f"<g><title>{escape(figures.lane)}</title>{label}</g>"]
    x = float(_LABEL_WIDTH)
    for kind, length_s in lengths_s.items():
        length = length_s * scale
        parts.append(
            f'<rect x="{x:.1f}" y="{y}" width="{length:.1f}" height="26" fill="var(--{kind})">'
            f"<title>{kind} {length_s:.0f} s</title></rect>"
        )
        x += length
    parts.append(f'<text x="{x + 6:.1f}" y="{y + 17}">{figures.required_slack_s:.0f} s</text>')
    return parts


def _legend(model: SlackModel, y: int) -> list[str]:
    parts = []
    wait = "rework x p95 wait" if model == "requeue" else "p95 wait"
    for index, (kind, words) in enumerate((("wait", wait), ("run", "rework x p95 run"), ("margin", "margin"))):
        x = _LABEL_WIDTH + index * 150
        parts.append(f'<rect x="{x}" y="{y - 10}" width="11" height="11" fill="var(--{kind})"/>')
        parts.append(f'<text class="dim" x="{x + 16}" y="{y}">{words}</text>')
    return parts


def _open(width: int, height: int, title: str) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}" '
        f'xmlns="http://www.w3.org/2000/svg">'
    )
