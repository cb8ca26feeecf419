"""What is true of a scrape whatever the ledger says: names round-trip, numbers are exact, no series comes twice."""

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families

from preempt_exporter.metrics.text import number, sample
from preempt_exporter.settings import LaneSettings
from tests.metrics.scraping import Exporter

NOW_MS = 1_795_956_000_000

HOSTILE = ('a"b\n', "\\", "other", "default", " ", "\r", "}{", "# EOF\n", "\u2028", "\x00", "le", "\N{FIRE}", "\ufeff")
"""Names that break out of quotes, lines or sums."""


def fitting(max_bytes: int) -> st.SearchStrategy[str]:
    """Any text that JSON and the ledger's limits let through, hostile ones often."""
    text = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=max_bytes // 4)
    return st.sampled_from(HOSTILE) | text


names = fitting(256)
lanes = fitting(64)


@given(name=names, lane=lanes, run=names)
@example(name="\n", lane='a"b\n', run="\\n")
def test_any_name_comes_out_as_it_went_in(name: str, lane: str, run: str) -> None:
    """Task, lane and run of any text are the same text again after either parser."""
    line = {"event": "heartbeat", "task_id": name, "lane": lane, "run": run, "ts_ms": NOW_MS}
    samples = Exporter().read(json.dumps(line).encode(), NOW_MS).samples(NOW_MS)
    assert samples.labels_of("queue_age_ms") == [{"task_id": name, "lane": lane, "run": run}]
    assert samples.value("preempt_events_total", lane=lane, event="heartbeat") == 1
    assert samples.value("preempt_run_tasks", run=run, state="running") == 1


@given(st.floats() | st.integers(-(2**63), 2**63))
def test_numbers_are_exact(value: float) -> None:
    """A sample's text reads back as exactly the number; a whole number up to 2^63 shows all its digits."""
    if isinstance(value, int):
        assert number(value) == str(value)
        return
    for families in (text_families, openmetrics_families):
        text = f"# TYPE x gauge\n{sample('x', value)}\n# EOF\n"
        (read,) = (found.value for family in families(text) for found in family.samples)
        assert read == value or (read != read and value != value)


@given(st.integers(0, 2**53))
def test_token_counts_are_exact_text(tokens: int) -> None:
    """The largest counts that a ledger can hold are shown digit by digit, without an exponent."""
    line = {"event": "preempt", "task_id": "t", "ts_ms": NOW_MS, "wasted_tokens": tokens, "restart_tokens": tokens}
    exporter = Exporter().read(json.dumps(line | {"preempts": 1}).encode(), NOW_MS)
    assert f'restart_tokens{{task_id="t",lane="default"}} {tokens}\n' in exporter.text(NOW_MS)
    assert f'preempt_restart_tokens_total{{lane="default"}} {tokens}\n' in exporter.text(NOW_MS)


stamps_ms = st.integers(NOW_MS - 3 * 86_400_000, NOW_MS + 1000)
some_names = st.sampled_from((*HOSTILE, "", "t", 0, 7, "7"))
counts = st.sampled_from((0, 1, 840, 2**53))


@st.composite
def hostile_lines(draw: st.DrawFn) -> dict[str, Any]:
    """A line of any kind about few, hostile names, so that they meet."""
    kind = draw(st.sampled_from(sorted(FIELDS)))
    named = {name: draw(some_names) for name in ("task_id", "run", "lane", "shard", "job_id", "host")}
    line = {name: draw(values) for name, values in FIELDS[kind].items()}
    event = {} if kind == "attempt" else {"event": kind}
    return {**event, **named, "ts_ms": draw(stamps_ms), **line}


FIELDS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "enqueue": {"deadline_ms": counts, "task_budget": counts},
    "admit": {"queue_age_ms": counts, "deadline_slack_ms": counts, "preempts": counts},
    "reject": {"reason": some_names},
    "preempt": {"wasted_tokens": counts, "restart_tokens": counts, "preempts": counts},
    "drain": {"action": some_names},
    "complete": {"output_tokens": counts, "restart_tokens": counts},
    "run_open": {"budget_tokens": counts, "deadline_ms": counts, "tasks": counts},
    "run_close": {},
    "lane_drain": {"action": some_names},
    "commit": {"epoch": counts, "tokens": counts, "artifact_digest": some_names},
    "refuse": {"op": some_names, "reason": some_names},
    "attempt": {
        "attempt": st.just(1),
        "enqueue_s": counts,
        "start_s": counts,
        "end_s": counts,
        "outcome": some_names,
        "tokens_in": counts,
        "tokens_out": counts,
        "interventions": counts,
    },
}


@given(st.lists(hostile_lines(), max_size=30), st.sampled_from((0, 60_000, 7_200_000, 3 * 86_400_000)))
def test_no_scrape_holds_a_series_twice(lines: list[dict[str, Any]], later_ms: int) -> None:
    """Hostile names of tasks, lanes and runs, in lines of every kind, never give one series two samples."""
    exporter = Exporter(lanes=LaneSettings(names=("free", "other", 'a"b\n')))
    exporter.read("".join(json.dumps(line) + "\n" for line in lines).encode(), NOW_MS)
    exporter.samples(NOW_MS + later_ms)
