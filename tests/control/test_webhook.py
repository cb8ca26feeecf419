"""`POST /alertmanager`: what a firing alert may have done, and how often."""

import json
from pathlib import Path
from typing import Any

import pytest

from preempt_exporter.clock import FixedClock
from preempt_exporter.control.actions import AUTOMATIC
from preempt_exporter.control.webhook import LANE_AND_RUN_ALERTS, WebhookRules
from preempt_exporter.gate.switches import SwitchFile
from preempt_exporter.ledger.records import LaneDrain
from preempt_exporter.rules_pack.pack import rule_files
from preempt_exporter.rules_pack.rule_file import read_rules
from tests.control.running_control import WEBHOOK_TOKEN, RunningControl, control
from tests.rules_pack.real_alertmanager import alertmanager
from tests.running_exporter import wait_until

ACTS = WebhookRules(acts=True)
START_MS = 1_800_000_000_000


def alert(name: str = "LaneReclaimed", action: str = "abandon_lane", **labels: str) -> dict[str, Any]:
    """One firing alert as Alertmanager tells it."""
    status, starts = labels.pop("status", "firing"), labels.pop("starts", "2026-11-29T01:00:00Z")
    given = {"alertname": name, "action": action, "severity": "page", "cluster": "eu", "lane": "free", **labels}
    kept = {label: value for label, value in given.items() if value}
    return {
        "status": status,
        "labels": kept,
        "annotations": {"summary": "x"},
        "startsAt": starts,
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "",
        "fingerprint": str(hash(tuple(sorted(kept.items())))),
    }


def notify(running: RunningControl, *alerts: dict[str, Any], group: str = "g", status: int = 200) -> list[str]:
    """Send a notification; the outcomes."""
    body = {
        "version": "4",
        "groupKey": group,
        "truncatedAlerts": 0,
        "status": "firing" if any(a["status"] == "firing" for a in alerts) else "resolved",
        "receiver": "control",
        "groupLabels": {},
        "commonLabels": {},
        "commonAnnotations": {},
        "externalURL": "",
        "alerts": alerts,
    }
    answer = running.request("POST", "/alertmanager", json.dumps(body), token=WEBHOOK_TOKEN)
    assert answer.status == status, answer.body
    return [entry["outcome"] for entry in answer.json["results"]]


def lanes(running: RunningControl) -> dict[str, str]:
    """Lanes under an action."""
    return SwitchFile(running.ledger).read().lane_actions()


def test_it_is_a_dry_run_until_it_is_told_to_act(tmp_path: Path) -> None:
    """Without `--act` it says what it would do and does nothing, each time anew."""
    with control(tmp_path) as running:
        assert notify(running, alert()) == ["would_act"]
        assert notify(running, alert()) == ["would_act"]
        assert running.events() == []


def test_a_group_is_acted_on_once_while_it_fires(tmp_path: Path) -> None:
    """Repeats, a later alert of the same target and a restart act no more; who and why are on the ledger."""
    with control(tmp_path, webhook=ACTS) as running:
        assert notify(running, alert()) == ["acted"]
        [line] = running.records()
        assert isinstance(line, LaneDrain)
        assert (line.lane, line.action) == ("free", "abandon_lane")
        assert (line.by, line.reason) == ("alertmanager", "LaneReclaimed")
        running.client.ask("POST", "/admin/resume", {"lane": "free"})
        assert notify(running, alert(), alert(host="h2", starts="2026-11-29T02:00:00Z")) == ["acted_before"]
    with control(tmp_path, webhook=ACTS) as again:
        assert notify(again, alert(host="h2", starts="2026-11-29T02:00:00Z")) == ["acted_before"]
        assert lanes(again) == {}


def test_a_group_that_fires_anew_acts_anew_and_nothing_is_undone_by_itself(tmp_path: Path) -> None:
    """`resolved` changes no switch; after it, or with a new beginning, the alert acts again."""
    with control(tmp_path, webhook=ACTS) as running:
        assert notify(running, alert()) == ["acted"]
        assert notify(running, alert(status="resolved")) == ["resolved"]
        assert lanes(running) == {"free": "abandon_lane"}
        running.client.ask("POST", "/admin/resume", {"lane": "free"})
        assert notify(running, alert(starts="2026-11-29T03:00:00Z")) == ["acted"]
        assert lanes(running) == {"free": "abandon_lane"}


@pytest.mark.parametrize(
    ("given", "outcome"),
    [
        (alert("RestartTokensBeatSlack", "drain_and_reject", task_id="t"), "per_task"),
        (alert("LaneReclaimed", "abandon_lane", task_id="t"), "per_task"),
        (alert("SomebodysAlert"), "alert_not_allowed"),
        (alert(action="fix_idempotency"), "action_not_allowed"),
        (alert(action="resume"), "action_not_allowed"),
        (alert(action="mode"), "action_not_allowed"),
        (alert(action="route_to_paid"), "action_not_allowed"),
        (alert(lane="paid"), "lane_not_allowed"),
        (alert(lane=""), "no_target"),
        (alert("SpendAtCeiling", "stop_run", lane=""), "no_target"),
        (alert("SpendAtCeiling", "stop_run", lane="", run="r"), "acted"),
        (alert("TasksSilent", "reclaim_lease"), "acted"),
    ],
)
def test_only_what_is_on_the_allow_list_is_done(tmp_path: Path, given: dict[str, Any], outcome: str) -> None:
    """Names, actions and lanes are listed; an alert on a task never acts, whatever it is called."""
    rules = WebhookRules(acts=True, lanes=frozenset({"free"}), actions=frozenset(AUTOMATIC) - {"route_to_paid"})
    with control(tmp_path, webhook=rules) as running:
        assert notify(running, given) == [outcome]
        assert bool(running.events()) == (outcome == "acted" and given["labels"]["action"] == "stop_run")


def test_a_lane_is_never_opened_wider_by_an_alert(tmp_path: Path) -> None:
    """A weaker action on a lane that is under a stronger one changes nothing, and a resumed lane stays open."""
    with control(tmp_path, webhook=ACTS) as running:
        assert notify(running, alert()) == ["acted"]
        weaker = alert("LaneQueueAgeHalfDeadline", "reject_enqueue")
        assert notify(running, weaker, group="h") == ["already"]
        assert lanes(running) == {"free": "abandon_lane"}
        running.client.ask("POST", "/admin/resume", {"lane": "free"})
        assert notify(running, weaker, group="h") == ["acted_before"]
        assert lanes(running) == {}


def test_the_rate_is_bounded_over_a_restart_too(tmp_path: Path) -> None:
    """Three an hour: the fourth is 429, so that Alertmanager tries again, and acts once the hour has passed."""
    clock = FixedClock(START_MS)
    rules = WebhookRules(acts=True, most_per_hour=3)
    storm = [alert(lane=f"l{number}") for number in range(4)]
    with control(tmp_path, clock=clock, webhook=rules) as running:
        assert notify(running, *storm, status=429) == ["acted", "acted", "acted", "rate_limited"]
    with control(tmp_path, clock=clock, webhook=rules) as running:
        clock.advance(3_600_000 - 1)
        assert notify(running, *storm, status=429)[-1] == "rate_limited"
        clock.advance(1)
        assert notify(running, *storm) == ["acted_before"] * 3 + ["acted"]


def test_the_allow_list_is_the_pack_s_alerts_on_lanes_and_runs() -> None:
    """Every alert of the pack whose action a machine can carry out and that is about no task, and no other."""
    alerts = [rule for rule in read_rules(rule_files()) if rule.is_alert]
    automatic = {rule.name for rule in alerts if rule.labels["action"] in AUTOMATIC}
    of_tasks = {rule.name for rule in alerts if "$labels.task_id" in str(rule.annotations)}
    assert set(LANE_AND_RUN_ALERTS) == automatic - of_tasks


def test_a_real_alertmanager_has_a_lane_abandoned(tmp_path: Path) -> None:
    """With the shipped configuration: one line for the lane's alert, none for those of its tasks."""
    with control(tmp_path, webhook=ACTS) as running:
        (tmp_path / "am").mkdir()
        told = alertmanager(tmp_path / "am", control_url=f"{running.url}/alertmanager", control_token=WEBHOOK_TOKEN)
        with told as real:
            of_a_task = {"alertname": "RestartTokensBeatSlack", "severity": "page", "action": "drain_and_reject"}
            real.fire(
                *(of_a_task | {"lane": "paid", "task_id": f"t{n}"} for n in range(5)),
                {"alertname": "LaneReclaimed", "severity": "page", "action": "abandon_lane", "lane": "free"},
            )
            wait_until(lambda: running.events() != [], lambda: "nothing came")
            real.fire({"alertname": "LeasesOverdue", "severity": "ticket", "action": "reclaim_lease", "run": "r"})
            real.listener.wait_until_quiet(at_least=2, quiet_s=4)
            assert running.events() == ["lane_drain"]
            assert lanes(running) == {"free": "abandon_lane"}
