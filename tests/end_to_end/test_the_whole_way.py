"""From a lost slot to a drained lane and back, through real processes with the shipped configurations."""

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tools.demo_stack import Stack, people, running_stack, start_batch, start_prometheus

from preempt_exporter.rules_pack.vocabulary import ACTIONS
from tests.end_to_end.victoria import start_victoria
from tests.running_exporter import PAST_NO_PROXY, told, wait_until

JOB = {"job_id": "next", "checkpointed": True, "deadline_ms": 36_000_000, "prompt_tokens": 10, "target_tokens": 100}
PREEMPTIONS_PER_HOUR = 3_000


def asked(stack: Stack, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """What the control service answers."""
    request = urllib.request.Request(
        f"{stack.url('control')}{path}",
        data=json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {stack.token()}"},
    )
    with PAST_NO_PROXY.open(request, timeout=30) as answer:
        answered: dict[str, Any] = json.load(answer)
    return answered


def admission(stack: Stack, task: str, lane: str) -> tuple[str, str | None]:
    """Outcome and reason of asking to start a task."""
    answer = asked(stack, f"/v1/tasks/{task}/admit", {"lane": lane, "run": "e2e"})
    return answer["outcome"], answer.get("reason")


def closed(stack: Stack) -> float:
    """1 while the exporter shows the free lane closed."""
    return stack.metric("preempt_lane_draining", 'lane="free"')


def reopened(stack: Stack) -> bool:
    """Resume the lane, as a person would, and see whether work is admitted: alerts under way may close it once more."""
    words = ["act", "resume", "--lane", "free", "--control", stack.url("control"), "--reason", "quiet again"]
    done = told(*words, "--token-file", f"{stack.ledger}.control-token")
    assert done.returncode == 0, done.stderr
    return admission(stack, "late", "free")[0] == "admitted"


@pytest.mark.parametrize("start_rules", [start_prometheus, start_victoria])
def test_a_lost_slot_drains_the_lane_and_a_person_opens_it_again(
    tmp_path: Path, start_rules: Callable[[Stack], None]
) -> None:
    """Preemption, exporter, rules, Alertmanager, webhook, control: the lane closes by itself, and only by itself."""
    heard: list[tuple[str, dict[str, Any]]] = []
    with (
        people(lambda receiver, payload: heard.append((receiver, payload))) as pager,
        running_stack(tmp_path, pager, start_rules) as stack,
    ):
        assert admission(stack, "before", "free") == ("admitted", None)
        assert asked(stack, "/v1/route", JOB)["lane"] == "free"
        assert closed(stack) == 0
        start_batch(stack, PREEMPTIONS_PER_HOUR)

        wait_until(lambda: closed(stack) == 1, lambda: f"not drained; {stack.firing()}; {stack.log('control')}")
        (first, *_) = [line for line in stack.drains() if line["lane"] == "free"]
        assert first["event"] == "lane_drain"
        assert first["action"] in ACTIONS
        assert stack.metric("preempt_events_total", 'event="preempt"', 'lane="free"') > 0
        assert first["reason"] in {labels["alertname"] for labels in stack.firing() if labels.get("lane") == "free"}

        assert admission(stack, "late", "free") == ("rejected", "drain_mode")
        assert asked(stack, "/v1/route", JOB)["lane"] == "paid"
        assert admission(stack, "elsewhere", "paid") == ("admitted", None)
        assert asked(stack, "/v1/tasks/before/complete", {"run": "e2e", "output_tokens": 5})["outcome"] == "recorded"
        rejected = ('lane="free"', 'reason="drain_mode"')
        wait_until(
            lambda: stack.metric("preempt_rejects_total", *rejected) > 1, lambda: "the batch itself is not rejected"
        )
        wait_until(
            lambda: any(alert["labels"].get("lane") == "free" for _, told in heard for alert in told["alerts"]),
            lambda: f"no person was told: {heard}",
        )

        stack.stop("drill")
        wait_until(lambda: reopened(stack), lambda: f"still closed: {stack.drains()}")
        wait_until(lambda: closed(stack) == 0, lambda: "the exporter still shows it closed")
        assert asked(stack, "/v1/route", JOB)["lane"] == "free"
        assert stack.drains()[-1]["event"] == "lane_resume"


def test_without_act_nothing_is_closed(tmp_path: Path) -> None:
    """The dry run is the default: the same alerts reach control, which says what it would do and does nothing."""
    with people(lambda receiver, payload: None) as pager, running_stack(tmp_path, pager, act=False) as stack:
        start_batch(stack, PREEMPTIONS_PER_HOUR)
        wait_until(lambda: "would_act" in stack.log("control"), lambda: stack.log("control"))
        assert closed(stack) == 0
        assert stack.drains() == []
