"""Which tasks have series, when they leave, and that ages are those of the scrape's own moment."""

import json
from typing import Any

import pytest

from preempt_exporter.settings import TaskSettings
from tests.metrics.scraping import Exporter, Samples

T0_MS = 1_795_956_000_000
MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
DEADLINE_MS = 100 * MINUTE_MS

LIVE_ONLY = ("queue_age_ms", "deadline_slack_ms", "deadline_ms", "preempt_task_restart_cost_ms")
TOTALS = ("restart_tokens", "preempts", "checkpoint_tokens", "task_budget")

Line = dict[str, Any]


def enqueue(task_id: str, at_ms: int = 0, **fields: Any) -> Line:
    given = {"deadline_ms": DEADLINE_MS, "task_budget": 1000, "prompt_tokens": 10, "target_tokens": 10}
    return {"event": "enqueue", "task_id": task_id, "ts_ms": T0_MS + at_ms, **given, **fields}


def event(name: str, task_id: str, at_ms: int, **fields: Any) -> Line:
    return {"event": name, "task_id": task_id, "ts_ms": T0_MS + at_ms, **fields}


def preempt(task_id: str, at_ms: int, tokens: int = 840) -> Line:
    return event("preempt", task_id, at_ms, wasted_tokens=tokens, restart_tokens=tokens, preempts=1)


def drain(task_id: str, at_ms: int) -> Line:
    return event("drain", task_id, at_ms, action="fail_task_not_replay")


class Told(Exporter):
    """An exporter that is told lines as dicts, a moment at a time."""

    def tell(self, *lines: Line, at_ms: int = 0) -> "Told":
        self.read("".join(json.dumps(line) + "\n" for line in lines).encode(), T0_MS + at_ms)
        return self

    def at(self, at_ms: int) -> Samples:
        return self.samples(T0_MS + at_ms)

    def shown(self, at_ms: int) -> set[str]:
        """Which tasks have series."""
        return {labels["task_id"] for labels in self.at(at_ms).labels_of("restart_tokens")}


def series_of(samples: Samples, task_id: str) -> set[str]:
    """The sample names that a task has."""
    return {name for name, labels in samples if ("task_id", task_id) in labels}


def told(**settings: Any) -> Told:
    return Told(TaskSettings(**{"series_of_worst": None, **settings}))


def test_ages_are_of_the_scrape() -> None:
    """Between two scrapes without a line, age grows and slack falls by exactly the milliseconds between them."""
    exporter = told().tell(enqueue("t"))
    for at_ms in (0, 1, 12_345, DEADLINE_MS, DEADLINE_MS + 1):
        samples = exporter.at(at_ms)
        assert samples.value("queue_age_ms", task_id="t", lane="default") == at_ms
        assert samples.value("deadline_slack_ms", task_id="t", lane="default") == DEADLINE_MS - at_ms
        assert samples.value("deadline_ms", task_id="t", lane="default") == DEADLINE_MS
    assert exporter.at(-5).value("queue_age_ms", task_id="t", lane="default") == 0, "never below 0"


def test_what_a_rule_compares_has_the_same_labels() -> None:
    """Budget, deadline and totals of a task carry one label set, so that rules match them one to one."""
    samples = told().tell(enqueue("t", lane="spot", run="night")).at(0)
    sets = [samples.labels_of(name) for name in (*TOTALS, *LIVE_ONLY[:3])]
    assert sets == [[{"task_id": "t", "lane": "spot", "run": "night"}]] * len(sets)


@pytest.mark.parametrize(
    "ending", [drain("t", 60_000), event("reject", "t", 60_000, reason="queue_age")], ids=["drained", "rejected"]
)
def test_totals_linger_after_the_end(ending: Line) -> None:
    """Ages leave with the end; totals stay until exactly `linger` after the end's own stamp, then leave too."""
    exporter = told(linger_ms=5 * MINUTE_MS).tell(enqueue("t"), preempt("t", 1000), ending, at_ms=MINUTE_MS)
    assert series_of(exporter.at(MINUTE_MS), "t") == {*TOTALS}
    assert exporter.at(6 * MINUTE_MS).value("restart_tokens", task_id="t", lane="default") == 840
    assert series_of(exporter.at(6 * MINUTE_MS), "t") == {*TOTALS}
    assert series_of(exporter.at(6 * MINUTE_MS + 1), "t") == set()


def test_completed_tasks_leave_at_once() -> None:
    """After `complete` no series of the task is left, whatever the linger."""
    done = event("complete", "t", 1000, output_tokens=10, restart_tokens=0)
    assert series_of(told(linger_ms=DAY_MS).tell(enqueue("t"), done, at_ms=1000).at(1000), "t") == set()


def test_an_abandoned_task_stops_ageing_and_revives() -> None:
    """Silent past deadline and patience it keeps only totals, then leaves; a later line brings it back as it was."""
    exporter = told(abandon_after_ms=10 * MINUTE_MS, linger_ms=MINUTE_MS).tell(enqueue("t"), preempt("t", 1000))
    abandoned_ms = DEADLINE_MS + 10 * MINUTE_MS
    assert "queue_age_ms" in series_of(exporter.at(abandoned_ms), "t")
    assert series_of(exporter.at(abandoned_ms + 1), "t") == {*TOTALS}
    assert series_of(exporter.at(abandoned_ms + MINUTE_MS + 1), "t") == set()
    late_ms = abandoned_ms + 2 * MINUTE_MS
    exporter.tell(event("heartbeat", "t", late_ms), at_ms=late_ms)
    assert exporter.at(late_ms).value("queue_age_ms", task_id="t", lane="default") == late_ms


def test_none_shows_no_task_but_the_sums() -> None:
    """`none`: no task has series, and the lane's sums still count every one."""
    samples = told(series_of_worst=0).tell(enqueue("a"), enqueue("b")).at(0)
    assert not samples.labels_of("queue_age_ms")
    assert samples.value("preempt_tasks", lane="default", state="queued") == 2


def test_all_shows_every_task() -> None:
    """`all`: every live task has series."""
    exporter = told(series_of_worst=None).tell(*(enqueue(f"t{index}") for index in range(1500)))
    assert len(exporter.shown(0)) == 1500


def test_worst_shows_those_past_a_threshold_then_the_least_slack() -> None:
    """`worst:3` of six: the one past a threshold although it has most slack, then the two with the least slack."""
    slack = [enqueue(f"t{minutes}", deadline_ms=minutes * MINUTE_MS) for minutes in (50, 40, 30, 20, 10)]
    exporter = told(series_of_worst=3).tell(*slack, enqueue("beaten", deadline_ms=DAY_MS), preempt("beaten", 0))
    assert exporter.shown(0) == {"beaten", "t10", "t20"}
    assert exporter.at(0).value("preempt_tasks", lane="default", state="queued") == 5, "sums cover all"


def test_a_task_drained_over_budget_ranks_before_calm_ones() -> None:
    """An ended task that beat a threshold is shown before live ones that passed none, so that its alert can fire."""
    exporter = told(series_of_worst=2).tell(*(enqueue(f"t{index}", index) for index in range(9)))
    exporter.tell(preempt("t8", 100), drain("t8", 100), at_ms=100)
    assert exporter.shown(100) == {"t8", "t0"}


def test_a_newcomer_at_the_edge_does_not_push_a_series_out() -> None:
    """A task that ranks a little before the last one shown waits; one far worse gets its series at once."""
    exporter = told(series_of_worst=20)
    exporter.tell(*(enqueue(f"t{index:02d}", deadline_ms=DEADLINE_MS + index * 1000) for index in range(30)))
    shown = exporter.shown(0)
    assert shown == {f"t{index:02d}" for index in range(20)}
    exporter.tell(enqueue("edge", deadline_ms=DEADLINE_MS + 18_500))
    assert exporter.shown(0) == shown, "19th in rank, yet not shown: t19 is only one place too low"
    exporter.tell(enqueue("worst", deadline_ms=DEADLINE_MS - 1))
    assert exporter.shown(0) == (shown | {"worst"}) - {"t19"}
    exporter.tell(*(enqueue(f"more{index}", deadline_ms=DEADLINE_MS - index) for index in range(20)))
    assert "t19" not in exporter.shown(0), "once far out of rank it goes"
    assert "worst" in exporter.shown(0)


def test_two_tasks_that_trade_places_keep_their_series() -> None:
    """`worst:1` of two tasks whose slacks overtake each other shows the same one throughout."""
    exporter = told(series_of_worst=1).tell(
        enqueue("a", deadline_ms=DEADLINE_MS), enqueue("b", deadline_ms=DEADLINE_MS + 1)
    )
    assert exporter.shown(0) == {"a"}
    for round_ in range(4):
        leader = "ab"[round_ % 2]
        exporter.tell(enqueue(leader, deadline_ms=DEADLINE_MS + 10 + round_))
        assert exporter.shown(0) == {"a"}


def test_never_more_than_asked_for() -> None:
    """`worst:N` shows N tasks and no more, from one scrape to the next, while tasks come and go."""
    exporter = told(series_of_worst=10)
    for batch in range(12):
        exporter.tell(*(enqueue(f"{batch}-{index}", batch, deadline_ms=DEADLINE_MS - batch) for index in range(4)))
        exporter.tell(preempt(f"{batch}-0", batch), drain(f"{batch}-1", batch))
        assert len(exporter.shown(batch)) == min(10, 4 * (batch + 1))


def test_the_limit_takes_ended_tasks_first() -> None:
    """Beyond `limit`, ended lives go before live ones, then those with the most slack; lost sight is counted."""
    exporter = told(limit=3).tell(enqueue("ended"), drain("ended", 1), at_ms=1)
    exporter.tell(*(enqueue(f"t{minutes}", 1, deadline_ms=minutes * MINUTE_MS) for minutes in (30, 10, 20)), at_ms=1)
    assert exporter.shown(1) == {"t10", "t20", "t30"}
    exporter.tell(enqueue("t5", 2, deadline_ms=5 * MINUTE_MS), at_ms=2)
    assert exporter.shown(2) == {"t5", "t10", "t20"}
    samples = exporter.at(2)
    assert samples.value("preempt_tasks_evicted_total") == 2
    assert samples.value("preempt_events_total", lane="default", event="enqueue") == 5, "counters do not fall"
