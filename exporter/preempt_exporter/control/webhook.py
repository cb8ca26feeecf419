"""`POST /alertmanager`: what firing alerts on lanes and runs ask for, within an allow-list and a rate, once per group.

An alert is acted on once while it fires: what is remembered of a group are its alerts and when each began. Repeated
notifications change nothing, a group that fires anew acts anew, and nothing is undone by itself after `resolved`.
"""

import logging
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from preempt_exporter.clock import Clock
from preempt_exporter.control.actions import AUTOMATIC, ActAnswer, Actions, ActRequest
from preempt_exporter.control.desk import Desk
from preempt_exporter.control.doors import WEBHOOK_PATH
from preempt_exporter.control.notification import Alert, Done, Notification, Target, WebhookEntry, by_target
from preempt_exporter.control.operations import Operation
from preempt_exporter.control.problems import Problem
from preempt_exporter.errors import PreemptExporterError, StoreUnavailable
from preempt_exporter.settings import HOUR_MS

_log = logging.getLogger(__name__)

MOST_BYTES = 4 << 20
REMEMBERED_MS = 30 * 24 * HOUR_MS

LANE_AND_RUN_ALERTS = (
    "HostPreemptedTwice",
    "LaneInterventionsHigh",
    "LanePreemptBudgetSpent",
    "LaneQueueAgeHalfDeadline",
    "LaneReclaimed",
    "LaneRestartCannotFinish",
    "LaneRestartTokensBeatSlack",
    "LaneReworkHigh",
    "LaneSlackExhausted",
    "LaneTooTight",
    "LeasesOverdue",
    "RunWillMissHandover",
    "SpendAtCeiling",
    "SpendNearCeiling",
    "TasksSilent",
    "WorkDropped",
)
"""The pack's alerts on lanes and runs whose action a machine can carry out."""


class WebhookRules(Struct, frozen=True, kw_only=True):
    """What may be done without a person."""

    acts: bool = False
    """False: a dry run, which only says what it would do."""
    alerts: frozenset[str] = frozenset(LANE_AND_RUN_ALERTS)
    actions: frozenset[str] = frozenset(AUTOMATIC)
    lanes: frozenset[str] | None = None
    """None: every lane."""
    most_per_hour: int = 10


class WebhookAnswer(Struct, frozen=True, kw_only=True):
    """What was done, an entry per alert name, action and target."""

    dry_run: bool
    results: tuple[WebhookEntry, ...]

    @property
    def try_again(self) -> bool:
        """Whether Alertmanager should send the notification again: something was left undone that may yet be done."""
        return any(entry.outcome in ("rate_limited", "failed") for entry in self.results)


class Webhook:
    """Judges notifications, and remembers in SQLite what it acted on, so that a restart acts on nothing twice."""

    def __init__(self, path: Path, actions: Actions, rules: WebhookRules, clock: Clock) -> None:
        """Open or make the file. Raises `StoreUnavailable`."""
        self._actions = actions
        self._rules = rules
        self._clock = clock
        self._one_at_a_time = threading.Lock()
        try:
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS episodes (group_key TEXT, target TEXT, episode TEXT, seen_ms INTEGER, "
                "PRIMARY KEY (group_key, target, episode)) WITHOUT ROWID"
            )
            self._connection.execute("CREATE TABLE IF NOT EXISTS acted (at_ms INTEGER)")
        except sqlite3.Error as error:
            raise StoreUnavailable(f"{path}: {error}") from error

    def receive(self, notification: Notification) -> WebhookAnswer:
        """Act on what may be acted on. Raises `StoreUnavailable` where what was done cannot be remembered."""
        with self._one_at_a_time:
            try:
                entries = [
                    self._judge(notification, target, alerts) for target, alerts in by_target(notification).items()
                ]
            except sqlite3.Error as error:
                raise StoreUnavailable(f"what was acted on cannot be remembered: {error}; nothing was done") from error
        for entry in entries:
            _log.info("alertmanager: %s %s: %s %s", entry.alert, entry.action, entry.outcome, entry.says)
        return WebhookAnswer(dry_run=not self._rules.acts, results=tuple(entries))

    def close(self) -> None:
        """Let go of the file."""
        with self._one_at_a_time:
            self._connection.close()

    def _judge(self, notification: Notification, target: Target, alerts: Sequence[Alert]) -> WebhookEntry:
        firing = [alert for alert in alerts if alert.status == "firing"]
        if not firing:
            self._forget(notification.group_key, target)
            return target.entry("resolved", "nothing is undone by itself: act resume is a person's decision")
        refusal = self._why_not(target)
        if refusal is not None:
            return target.entry(refusal)
        now_ms = self._clock.now_ms()
        episodes = {alert.episode for alert in firing}
        if self._acted_in_same_episode(notification.group_key, target, episodes):
            self._remember(notification.group_key, target, episodes, now_ms)
            return target.entry("acted_before")
        request = target.request(dry_run=not self._rules.acts)
        try:
            covered = request.action != "reclaim_lease" and self._actions.is_covered(request)
        except PreemptExporterError as error:
            return target.entry("failed", str(error))
        if covered:
            # What a person resumes from here on stays open, as if the alert had acted itself.
            if self._rules.acts:
                self._remember(notification.group_key, target, episodes, now_ms)
            return target.entry("already", "it is under this action, or a stronger one")
        if self._rules.acts and self._acted_last_hour(now_ms) >= self._rules.most_per_hour:
            return target.entry("rate_limited", f"{self._rules.most_per_hour} actions within an hour: ask a person")
        return self._act(notification.group_key, target, request, episodes, now_ms)

    def _act(
        self, group_key: str, target: Target, request: ActRequest, episodes: set[str], now_ms: int
    ) -> WebhookEntry:
        try:
            answer: ActAnswer = self._actions.carry_out(request)
        except PreemptExporterError as error:
            return target.entry("failed", str(error))
        if self._rules.acts:
            self._connection.execute("INSERT INTO acted VALUES (?)", (now_ms,))
            self._remember(group_key, target, episodes, now_ms)
        return target.entry("acted" if self._rules.acts else "would_act", answer.says)

    def _why_not(self, target: Target) -> Done | None:
        if target.per_task:
            return "per_task"
        if target.alert not in self._rules.alerts:
            return "alert_not_allowed"
        if target.action not in self._rules.actions or target.action not in AUTOMATIC:
            return "action_not_allowed"
        if not target.is_complete:
            return "no_target"
        if target.lane is not None and self._rules.lanes is not None and target.lane not in self._rules.lanes:
            return "lane_not_allowed"
        return None

    def _acted_in_same_episode(self, group_key: str, target: Target, episodes: set[str]) -> bool:
        rows = self._connection.execute(
            "SELECT episode FROM episodes WHERE group_key = ? AND target = ?", (group_key, target.name)
        )
        return not episodes.isdisjoint(row[0] for row in rows)

    def _remember(self, group_key: str, target: Target, episodes: set[str], now_ms: int) -> None:
        self._connection.executemany(
            "INSERT OR REPLACE INTO episodes VALUES (?, ?, ?, ?)",
            [(group_key, target.name, episode, now_ms) for episode in episodes],
        )
        self._connection.execute("DELETE FROM episodes WHERE seen_ms < ?", (now_ms - REMEMBERED_MS,))
        self._connection.execute("DELETE FROM acted WHERE at_ms < ?", (now_ms - HOUR_MS,))

    def _forget(self, group_key: str, target: Target) -> None:
        self._connection.execute("DELETE FROM episodes WHERE group_key = ? AND target = ?", (group_key, target.name))

    def _acted_last_hour(self, now_ms: int) -> int:
        found = self._connection.execute("SELECT count(*) FROM acted WHERE at_ms > ?", (now_ms - HOUR_MS,)).fetchone()
        return int(found[0])


def webhook_operation(webhook: Webhook) -> Operation:
    """The operation that hands notifications to `webhook`."""

    def receive(desk: Desk, names: Mapping[str, str], notification: Notification) -> WebhookAnswer:
        answer = webhook.receive(notification)
        if answer.try_again:
            members = msgspec.to_builtins(answer)
            raise Problem(429, "not all of it was done: see results", headers={"Retry-After": "60"}, more=members)
        return answer

    return Operation(
        method="POST",
        path=WEBHOOK_PATH,
        summary="Alertmanager's webhook: acts on allow-listed alerts on lanes and runs, once per group",
        takes=Notification,
        answers=WebhookAnswer,
        carry_out=receive,
        most_bytes=MOST_BYTES,
        refusals=(429,),
        webhook=True,
    )
