import json

import httpx
import pytest

from preempt_exporter.web.overview import overview, tasks_within
from tests.web.running_server import FakeExposition, running, task


def ask(exposition: FakeExposition, limit: int | None = None, match: str = "") -> dict[str, object]:
    answer: dict[str, object] = json.loads(overview(exposition, limit=limit, match=match))
    return answer


def shown(answer: dict[str, object]) -> list[str]:
    tasks = answer["tasks"]
    assert isinstance(tasks, list)
    return [shown_task["task_id"] for shown_task in tasks]


def test_a_window_is_cut_from_the_middle() -> None:
    """Offset and limit together give the rows that are in view."""
    answer = json.loads(overview(FakeExposition(), offset=3, limit=2))
    assert shown(answer) == ["task-3", "task-4"]
    assert answer["tasks_offset"] == 3
    assert shown(json.loads(overview(FakeExposition(), offset=99, limit=2))) == []


def test_totals_cover_every_task_and_the_list_is_cut() -> None:
    """A limit shortens the list from the end that matters least, and no total."""
    exposition = FakeExposition()
    exposition.task_list = [
        task(0, state="running", deadline_slack_ms=-1, next_action="drain_and_reject", fits_one_more_preemption=False),
        task(1, state="queued", deadline_slack_ms=5),
        task(2, state="preempted", deadline_slack_ms=None, fits_one_more_preemption=None),
        task(3, state="drained", deadline_slack_ms=-9, fits_one_more_preemption=False),
    ]
    answer = ask(exposition, limit=2)
    assert shown(answer) == ["task-0", "task-1"]
    assert answer["tasks_total"] == answer["tasks_matching"] == 4
    assert answer["states"] == {"running": 1, "queued": 1, "preempted": 1, "drained": 1}
    assert answer["next_actions"] == {"drain_and_reject": 1, "none": 3}
    assert answer["past_deadline"] == 1, "ended tasks no longer wait"
    assert answer["cannot_absorb"] == 1


@pytest.mark.parametrize("match", ["TASK-7", "Spot-7", "run-7", "DRAINED"])
def test_a_match_is_looked_for_in_id_run_lane_and_state(match: str) -> None:
    """Case does not matter; what does not match is not listed but still counted."""
    exposition = FakeExposition()
    exposition.task_list = [task(1), task(7, lane="spot-7", run="run-7", state="drained")]
    answer = ask(exposition, match=match)
    assert shown(answer) == ["task-7"]
    assert (answer["tasks_total"], answer["tasks_matching"]) == (2, 1)


def test_tasks_without_run_or_slack_are_listed() -> None:
    """Null is a value that the ledger's tasks have."""
    exposition = FakeExposition()
    exposition.task_list = [task(1, run=None, deadline_slack_ms=None, restart_cost_ms=None)]
    assert shown(ask(exposition, match="task")) == ["task-1"]


def test_a_limit_cuts_the_list_and_nothing_else() -> None:
    """Objects pass through as they are, unknown fields included."""
    assert tasks_within(b'[{"a": 1.50, "b": "\\u00e9"}, {"a": 2}]', limit=1) == b'[{"a": 1.50, "b": "\\u00e9"}]'


@pytest.mark.parametrize(
    ("query", "count"),
    [("", 10), ("?limit=3", 3), ("?limit=0", 0), ("?limit=-1", 10), ("?limit=x", 10), ("?other=1", 10)],
)
def test_the_api_lists_tasks_least_slack_first(query: str, count: int) -> None:
    """`limit` is understood where it is a number, all else in the query is ignored."""
    with running(FakeExposition()) as server:
        answer = httpx.get(server.url + "/api/v1/tasks" + query)
    assert answer.headers["Content-Type"] == "application/json"
    assert [shown_task["task_id"] for shown_task in answer.json()] == [f"task-{number}" for number in range(count)]


def test_lanes_runs_and_health_are_passed_on_as_they_are() -> None:
    """The API adds nothing to what `report`, the run metrics and the reader say."""
    exposition = FakeExposition()
    exposition.lane_list = [{"lane": "free", "verdict": "TOO TIGHT"}]
    exposition.run_list = [{"run": "night", "tasks": {"running": 3}}]
    with running(exposition) as server, httpx.Client(base_url=server.url) as client:
        assert client.get("/api/v1/lanes").json() == exposition.lane_list
        assert client.get("/api/v1/runs").json() == exposition.run_list
        assert client.get("/api/v1/health").json() == exposition.health_object
        everything = client.get("/api/v1/overview?limit=1").json()
    assert everything["lanes"] == exposition.lane_list
    assert everything["runs"] == exposition.run_list
    assert everything["health"] == exposition.health_object
