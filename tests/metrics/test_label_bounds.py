"""Label values are bounded: what exceeds the bound is `other`, in one series, whatever is really called so."""

import json
from typing import Any

from preempt_exporter.settings import LaneSettings
from preempt_exporter.state.lane import MAX_LANES
from preempt_exporter.state.run import MAX_LIVE_RUNS
from tests.metrics.scraping import Exporter, Samples

NOW_MS = 1_795_956_000_000


def heartbeat(task_id: str, **fields: Any) -> dict[str, Any]:
    return {"event": "heartbeat", "task_id": task_id, "ts_ms": NOW_MS, **fields}


def commit(run: str, tokens: int) -> dict[str, Any]:
    spent = {"event": "commit", "run": run, "shard": "1", "epoch": 0, "tokens": tokens, "artifact_digest": "d"}
    return spent | {"ts_ms": NOW_MS}


def scraped(*lines: dict[str, Any], lanes: LaneSettings | None = None, later_ms: int = 0) -> Samples:
    exporter = Exporter(lanes=lanes).read("".join(json.dumps(line) + "\n" for line in lines).encode(), NOW_MS)
    return exporter.samples(NOW_MS + later_ms)


def test_lanes_beyond_the_bound_are_other() -> None:
    """The first 100 lanes keep their names; tasks and counters of the rest are summed as `other`, none lost."""
    samples = scraped(*(heartbeat(f"t{index}", lane=f"lane{index}") for index in range(MAX_LANES + 30)))
    lanes = {labels["lane"] for labels in samples.labels_of("preempt_lane_draining")}
    assert lanes == {"other", *(f"lane{index}" for index in range(MAX_LANES))}
    assert samples.value("preempt_tasks", lane="other", state="running") == 30
    assert samples.value("preempt_events_total", lane="other", event="heartbeat") == 30
    assert samples.value("queue_age_ms", task_id=f"t{MAX_LANES}", lane="other") == 0
    assert len(samples.labels_of("queue_age_ms")) == MAX_LANES + 30


def test_a_lane_really_called_other() -> None:
    """It shares its series with the lanes beyond the bound, whether it came first or last."""
    many = [heartbeat(f"t{index}", lane=f"lane{index}") for index in range(MAX_LANES + 1)]
    for lines in ([heartbeat("o", lane="other"), *many], [*many, heartbeat("o", lane="other")]):
        samples = scraped(*lines)
        beyond = 3 - (lines[0]["lane"] != "other")  # `other` takes one of the names when it comes first
        assert samples.value("preempt_events_total", lane="other", event="heartbeat") == beyond


def test_runs_beyond_the_bound_are_other() -> None:
    """The first 100 live runs keep their names; tasks and spend of the rest are summed as `other`, none lost."""
    runs = [f"run{index}" for index in range(MAX_LIVE_RUNS + 20)]
    samples = scraped(*(heartbeat("t", run=run) for run in runs), *(commit(run, 10) for run in runs))
    shown = {labels["run"] for labels in samples.labels_of("preempt_spend_committed_tokens_total")}
    assert shown == {"other", *runs[:MAX_LIVE_RUNS]}
    assert samples.value("preempt_run_tasks", run="other", state="running") == 20
    assert samples.value("preempt_spend_committed_tokens_total", run="other") == 200
    assert len(samples.labels_of("queue_age_ms")) == MAX_LIVE_RUNS + 20, "a task keeps the run it belongs to"


def test_a_run_really_called_other() -> None:
    """It is summed with the runs beyond the bound: one series, nothing lost."""
    runs = [f"run{index}" for index in range(MAX_LIVE_RUNS + 2)]
    for order in (["other", *runs], [*runs, "other"]):
        samples = scraped(*(commit(run, 10) for run in order))
        assert samples.value("preempt_spend_committed_tokens_total", run="other") == 30


def test_what_other_counted_outlives_its_runs() -> None:
    """The counters of `other` do not fall when the runs behind them have left; its gauges leave."""
    runs = [f"run{index}" for index in range(MAX_LIVE_RUNS + 20)]
    samples = scraped(*(commit(run, 10) for run in runs), later_ms=25 * 3_600_000)
    assert samples.labels_of("preempt_spend_committed_tokens_total") == [{"run": "other"}]
    assert samples.value("preempt_spend_committed_tokens_total", run="other") == 200


def test_an_empty_run_is_no_run() -> None:
    """A task with `run` "" is the task without a run: one life, no `run` label."""
    samples = scraped(heartbeat("t", run=""), heartbeat("t"))
    assert samples.labels_of("queue_age_ms") == [{"task_id": "t", "lane": "default"}]
    assert not samples.labels_of("preempt_run_tasks")


def test_configured_lanes_are_there_from_the_first_scrape() -> None:
    """Every counter of a configured lane starts at 0 before any line is read; so do refusals and line errors."""
    samples = scraped(lanes=LaneSettings(names=("spot", 'a"b\n')))
    lanes = {labels["lane"] for labels in samples.labels_of("preempt_events_total")}
    assert lanes == {"spot", 'a"b\n'}
    assert samples.value("preempt_lane_attempts_total", lane="spot", outcome="preempted") == 0
    assert samples.value("preempt_lane_wait_seconds_bucket", lane="spot", le="+Inf") == 0
    assert samples.value("preempt_rejects_total", lane="spot", reason="queue_age") == 0
    assert samples.value("preempt_spend_refusals_total", op="commit", reason="STALE_EPOCH") == 0
    assert samples.value("preempt_ledger_line_errors_total", reason="not_json") == 0
