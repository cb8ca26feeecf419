"""`POST /v1/events`: whole or not at all."""

from pathlib import Path

import pytest

from preempt_exporter.ledger.records import Attempt, Enqueue
from tests.control.running_control import control

ATTEMPT = (
    '{"job_id":"j","lane":"free","attempt":1,"enqueue_s":0,"start_s":1,"end_s":2,"outcome":"ok",'
    '"tokens_in":1,"tokens_out":2,"interventions":0}'
)
ENQUEUE = '{"event":"enqueue","task_id":"mine","ts_ms":5}'


def test_valid_lines_are_appended_in_order_each_with_an_id(tmp_path: Path) -> None:
    """BOM, CRLF and blank lines are taken as in a ledger; a last line needs no newline; ids that are given stay."""
    with control(tmp_path) as running:
        body = f'\ufeff{ATTEMPT}\r\n\n{ENQUEUE}\n{ENQUEUE[:-1]},"id":"h-1"}}'
        assert running.post("/v1/events", body.encode()).json == {"appended": 3}
        first, second, third = running.records()
        assert isinstance(first, Attempt)
        assert isinstance(second, Enqueue)
        assert first.id
        assert second.id
        assert third.id == "h-1"
        assert running.post("/v1/events", b"").json == {"appended": 0}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("{", "not_json"),
        ('{"event":"enqueue","ts_ms":5}', "missing_field"),
        ('{"event":"enqueue","task_id":"x","ts_ms":-5}', "out_of_range"),
        ('{"event":"lane_drain","lane":"free","action":"abandon_lane"}', "not_here"),
        ('{"event":"commit","run":"r","shard":"3","epoch":0,"tokens":5,"artifact_digest":"a","ts_ms":1}', "not_here"),
        ('{"event":"complete","task_id":"ours","ts_ms":5,"output_tokens":1,"restart_tokens":0}', "owned_task"),
        ('{"event":"enqueue","task_id":"y","ts_ms":5,"id":"gate-x-1"}', "reserved_id"),
    ],
)
def test_one_line_that_is_not_taken_refuses_all_with_its_number(tmp_path: Path, bad: str, reason: str) -> None:
    """Nothing of the body is appended; the problem names line and reason."""
    with control(tmp_path) as running:
        running.client.task("ours", "admit")
        answer = running.post("/v1/events", f"{ATTEMPT}\n\n{bad}\n{ENQUEUE}\n")
        assert answer.status == 422
        assert (answer.json["line"], answer.json["lines"][0]["reason"], answer.json["bad_lines"]) == (3, reason, 1)
        assert running.events() == ["admit"]


def test_a_key_makes_lines_without_ids_count_once(tmp_path: Path) -> None:
    """A harness that sends its lines again under the same key appends nothing."""
    with control(tmp_path) as running:
        for _ in range(2):
            assert running.post("/v1/events", ENQUEUE, Idempotency_Key="k").json == {"appended": 1}
        assert running.events() == ["enqueue"]


def test_lines_beyond_the_bound_are_refused(tmp_path: Path) -> None:
    """More than 8 MiB is 413 and nothing is appended."""
    with control(tmp_path) as running:
        assert running.post("/v1/events", (ENQUEUE + "\n").encode() * 200_000).status == 413
        assert running.events() == []
