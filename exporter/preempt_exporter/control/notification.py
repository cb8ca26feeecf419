"""What Alertmanager tells, and what the alerts of one notification ask for."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from preempt_exporter.control.actions import ActionName, ActRequest

Labels = dict[str, str]


class Alert(Struct, frozen=True, kw_only=True, rename="camel"):
    """One alert of a notification."""

    status: Literal["firing", "resolved"]
    labels: Labels
    starts_at: str = ""
    fingerprint: str = ""

    @property
    def episode(self) -> str:
        """The alert from the moment it began to fire."""
        return f"{self.fingerprint or sorted(self.labels.items())}@{self.starts_at}"


class Notification(Struct, frozen=True, kw_only=True, rename="camel"):
    """Alertmanager's payload, version 4."""

    group_key: Annotated[str, Meta(max_length=64 * 1024)]
    status: Literal["firing", "resolved"]
    alerts: tuple[Alert, ...]


Done = Literal[
    "acted",
    "would_act",
    "already",
    "acted_before",
    "resolved",
    "per_task",
    "alert_not_allowed",
    "action_not_allowed",
    "lane_not_allowed",
    "no_target",
    "rate_limited",
    "failed",
]


class WebhookEntry(Struct, frozen=True, kw_only=True):
    """What became of one target of a notification."""

    alert: str
    action: str
    outcome: Done
    lane: str | None = None
    run: str | None = None
    says: str = ""


class Target(Struct, frozen=True, kw_only=True):
    """What alerts of one notification ask for together."""

    alert: str
    action: str
    lane: str | None
    run: str | None
    per_task: bool

    @property
    def name(self) -> str:
        """The target's name within its group."""
        return msgspec.json.encode([self.alert, self.action, self.lane, self.run]).decode()

    @property
    def is_complete(self) -> bool:
        """Whether the labels name what the action is about."""
        if self.action == "stop_run":
            return self.run is not None
        return self.lane is not None or (self.action == "reclaim_lease" and self.run is not None)

    def entry(self, outcome: Done, says: str = "") -> WebhookEntry:
        """What became of it."""
        return WebhookEntry(
            alert=self.alert, action=self.action, lane=self.lane, run=self.run, outcome=outcome, says=says
        )

    def request(self, *, dry_run: bool) -> ActRequest:
        """The action on the one thing that it is about: the run for `stop_run`, the lane for a lane's action."""
        action: ActionName = msgspec.convert(self.action, ActionName)
        return ActRequest(
            action=action,
            lane=None if action == "stop_run" else self.lane,
            run=self.run if action in ("stop_run", "reclaim_lease") else None,
            by="alertmanager",
            reason=self.alert,
            dry_run=dry_run,
        )


def by_target(notification: Notification) -> dict[Target, list[Alert]]:
    """The alerts of a notification, by what they ask for and about what."""
    targets: dict[Target, list[Alert]] = {}
    for alert in notification.alerts:
        labels = alert.labels
        per_task = bool(labels.get("task_id"))
        target = Target(
            alert=labels.get("alertname", ""),
            action=labels.get("action", ""),
            lane=labels.get("lane") or None,
            run=labels.get("run") or None,
            per_task=per_task,
        )
        targets.setdefault(target, []).append(alert)
    return targets
