"""`/v1/tasks` over a real socket."""

from pathlib import Path

import pytest

from preempt_exporter.errors import UsageError
from preempt_exporter.ledger.records import Admit, Enqueue, Preempt
from preempt_exporter.ledger.writer import LedgerWriter
from tests.control.running_control import control


def test_a_life_from_enqueue_to_complete_is_on_the_ledger(tmp_path: Path) -> None:
    """Each step is answered with its outcome and stands on the ledger; waste and totals are the gate's."""
    with control(tmp_path) as running:
        task = running.client.task
        assert task("t", "enqueue", lane="free", run="r", prompt_tokens=100, target_tokens=50)["outcome"] == "queued"
        admitted = task("t", "admit", run="r")
        assert (admitted["outcome"], admitted["verdict"], admitted["reason"]) == ("admitted", "admit", None)
        assert task("t", "heartbeat", run="r", output_tokens=5, next_within_ms=60_000)["outcome"] == "recorded"
        assert task("t", "checkpoint", run="r", checkpoint_tokens=20, input_digest="a")["checkpoint_tokens"] == 20
        lost = running.post("/v1/tasks/t/preempt", {"run": "r"}).json
        assert (lost["outcome"], lost["wasted_tokens"], lost["preempts"]) == ("recorded", 100, 1)
        assert task("t", "admit", run="r")["checkpoint_tokens"] == 20
        assert task("t", "complete", run="r", output_tokens=50)["state"] == "complete"
        assert running.events() == [
            "enqueue",
            "admit",
            "heartbeat",
            "checkpoint",
            "preempt",
            "admit",
            "complete",
        ]


def test_rejections_and_refusals_are_answers(tmp_path: Path) -> None:
    """A reject, a worker that lost its slot and an unknown task are all 200 with a reason."""
    with control(tmp_path) as running:
        late = running.post("/v1/tasks/t/admit", {"deadline_ms": 10, "enqueued_ms": 1})
        assert (late.status, late.json["verdict"], late.json["reason"]) == (200, "reject_slack_zero", "slack_zero")
        assert running.post("/v1/tasks/t/heartbeat").json["reason"] == "not_running"
        assert running.post("/v1/tasks/nobody/complete").json["reason"] == "unknown_task"


def test_a_task_that_another_enqueued_is_refused(tmp_path: Path) -> None:
    """A life that `run` or a harness began on the same ledger is not the service's to move."""
    with control(tmp_path) as running:
        with LedgerWriter(running.ledger) as other:
            other.append(Enqueue(task_id="t", ts_ms=1_900_000_000_000, id="run-1-0", deadline_ms=10**9))
        assert running.post("/v1/tasks/t/admit").json["reason"] == "not_owner"


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/v1/tasks/a%2Fb/admit", (None, "a/b")),
        ("/v1/tasks/a/b/admit", (None, "a/b")),
        ("/v1/tasks/%C3%A9%20x/admit", (None, "é x")),
        ("/v1/tasks/7/admit", ("5", "7")),
    ],
)
def test_names_come_from_the_path_as_they_were_sent(tmp_path: Path, path: str, key: tuple[str | None, str]) -> None:
    """Escapes belong to the name; an integer `run` is its decimal string."""
    with control(tmp_path) as running:
        body = {} if key[0] is None else {"run": int(key[0])}
        assert running.post(path, body).json["outcome"] == "admitted"
        [admit] = [record for record in running.records() if isinstance(record, Admit)]
        assert (admit.run, admit.task_id) == key


@pytest.mark.parametrize(
    ("path", "body", "status", "word"),
    [
        ("/v1/tasks/t/admit", "{", 400, "not JSON"),
        ("/v1/tasks/t/admit", '"x"', 422, "object"),
        ("/v1/tasks/t/admit", '{"deadline_ms": -1}', 422, "deadline_ms"),
        ("/v1/tasks/t/admit", '{"deadline_ms": 1.5}', 422, "deadline_ms"),
        ("/v1/tasks/t/admit", '{"lane": 5}', 422, "lane"),
        ("/v1/tasks/t/checkpoint", "{}", 422, "checkpoint_tokens"),
        ("/v1/tasks/t/drain", '{"action": "foo"}', 422, "action"),
        ("/v1/tasks/%ff/admit", "{}", 400, "UTF-8"),
        ("/v1/tasks/" + "x" * 257 + "/admit", "{}", 422, "task_id"),
        ("/v1/tasks/t/dance", "{}", 404, "openapi"),
        ("/v1/tasks/t/admit", "[" * 100_000, 413, "65536"),
        ("/v1/tasks/t/admit", "[" * 50_000, 400, "JSON"),
    ],
)
def test_what_is_no_request_is_a_problem_object(tmp_path: Path, path: str, body: str, status: int, word: str) -> None:
    """A wrong request gets RFC 9457's object that names what is wrong, and nothing is written."""
    with control(tmp_path) as running:
        answer = running.post(path, body)
        assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json")
        assert answer.json["status"] == status
        assert word in answer.json["detail"]
        assert running.events() == []


def test_floats_with_whole_values_and_empty_names_are_read_as_the_ledger_reads_them(tmp_path: Path) -> None:
    """`5e3` is 5000, an empty lane or run is none; form-encoded content is JSON all the same."""
    with control(tmp_path) as running:
        form = {"Content_Type": "application/x-www-form-urlencoded"}
        running.post("/v1/tasks/t/admit", '{"deadline_ms": 5e3, "lane": "", "run": ""}', **form)
        [admit] = running.records()
        assert isinstance(admit, Admit)
        assert (admit.deadline_ms, admit.lane, admit.run) == (5000, "default", None)


def test_a_service_that_starts_again_knows_its_tasks(tmp_path: Path) -> None:
    """Totals of a preempted task outlive the process."""
    with control(tmp_path) as running:
        running.client.task("t", "admit", prompt_tokens=10)
        running.client.task("t", "preempt")
    with control(tmp_path) as again:
        assert again.client.task("t", "admit")["preempts"] == 1
        assert sum(isinstance(record, Preempt) for record in again.records()) == 1


def test_one_service_per_ledger(tmp_path: Path) -> None:
    """A second service on the ledger is told who is in the way."""
    with control(tmp_path), pytest.raises(UsageError, match=r"control service runs on .* already"), control(tmp_path):
        pass
