"""What is forgotten, and when: the task limit, runs that have left, and ledgers that are gone."""

import heapq
from collections.abc import Collection

from preempt_exporter.settings import LaneSettings, TaskSettings
from preempt_exporter.state.figures import Figures
from preempt_exporter.state.life import Life
from preempt_exporter.state.run import MAX_LIVE_RUNS, Run

MAX_RUNS_KEPT = 10_000
ENDS_SLACK = 10_000
"""How many ends of lives that are gone may be remembered beside those of lives that are kept."""
SLACK_OF_ABANDONED_MS = float("inf")
SLACK_WITHOUT_DEADLINE_MS = 2.0**60
GONE_LEDGERS_KEPT = 1_000
GONE_LEDGERS_KEPT_MS = 24 * 60 * 60 * 1000
NO_LEDGER = -1
"""Stands for the ledger of a life's last line once that ledger is forgotten."""


def make_room(figures: Figures, tasks: TaskSettings, now_ms: int) -> None:
    """Forget lives until `tasks.limit` are kept: ended ones first, oldest end first, then those with the most slack.

    Losing a life that still had series counts as evicted. Live ones go a fiftieth below the limit at once, so that a
    full house does not pay for a search at every new task.
    """
    looked_at = 0
    for run_name, task_id, ended_ms in figures.ends:
        if figures.lives_kept <= tasks.limit:
            break
        looked_at += 1
        run = figures.runs.get(run_name)
        life = run.lives.get(task_id) if run is not None else None
        if run is not None and life is not None and life.ended_ms == ended_ms:
            _forget(figures, run, life, still_seen=life.state != "complete" and now_ms <= ended_ms + tasks.linger_ms)
    del figures.ends[:looked_at]
    if figures.lives_kept > tasks.limit:
        excess = figures.lives_kept - tasks.limit + tasks.limit // 50
        everyone = ((run, life) for run in figures.runs.values() for life in run.lives.values())
        for run, life in heapq.nlargest(excess, everyone, key=lambda pair: _spare_ms(pair[1], tasks, now_ms)):
            _forget(figures, run, life, still_seen=True)


def forget_stale_ends(figures: Figures) -> None:
    """Keep of `figures.ends` those of lives that are kept: ids come back, and every new life leaves one more."""
    if len(figures.ends) <= 2 * figures.lives_kept + ENDS_SLACK:
        return
    lives = {name: run.lives for name, run in figures.runs.items()}
    kept = dict.fromkeys(
        (run_name, task_id, ended_ms)
        for run_name, task_id, ended_ms in figures.ends
        if (life := lives.get(run_name, {}).get(task_id)) is not None and life.ended_ms == ended_ms
    )
    figures.ends[:] = kept


def expire(figures: Figures, lanes: LaneSettings, now_ms: int) -> None:
    """Drop window attempts that are too old, and runs that have left and hold no lives.

    The runs beyond those with a label value of their own are kept only while there are not too many of them. Where a
    run that had left came back and made one too many, the youngest shares the label value of the others from now on.
    """
    for lane in figures.lanes.values():
        lane.forget_attempts_before(now_ms - lanes.window_ms)
    idle = [run for run in figures.runs.values() if run.name is not None and not run.lives]
    gone = [run for run in idle if run.has_left(now_ms)]
    crowd = sorted((run for run in idle if not run.labelled), key=lambda run: run.last_ms)
    for run in gone + crowd[: max(0, len(figures.runs) - MAX_RUNS_KEPT)]:
        figures.forget_run(run.name)
    with_label = [run for run in figures.runs.values() if run.labelled and not run.has_left(now_ms)]
    for run in with_label[MAX_LIVE_RUNS:]:
        run.labelled = False


def forget_gone_ledgers(figures: Figures, followed: Collection[str], now_ms: int) -> bool:
    """Forget ids and attempt lines of ledgers that nobody has followed for a day, but for those that went last.

    Their files may come back from a backup or a mount, and are then known. True if a ledger was forgotten: those that
    are left have other indexes.
    """
    gone: list[tuple[int, int]] = []
    for index, memory in enumerate(figures.ledgers):
        if memory.name in followed:
            memory.gone_since_ms = None
        else:
            memory.gone_since_ms = now_ms if memory.gone_since_ms is None else memory.gone_since_ms
            gone.append((memory.gone_since_ms, index))
    oldest_first = sorted(gone)[: max(0, len(gone) - GONE_LEDGERS_KEPT)]
    forgotten = {index for since_ms, index in oldest_first if now_ms - since_ms >= GONE_LEDGERS_KEPT_MS}
    if not forgotten:
        return False
    kept = [index for index in range(len(figures.ledgers)) if index not in forgotten]
    new_index = {index: place for place, index in enumerate(kept)}
    figures.ledgers[:] = [figures.ledgers[index] for index in kept]
    for run in figures.runs.values():
        for life in run.lives.values():
            life.ledger = new_index.get(life.ledger, NO_LEDGER)
    return True


def _forget(figures: Figures, run: Run, life: Life, *, still_seen: bool) -> None:
    del run.lives[life.task_id]
    figures.lives_kept -= 1
    figures.evicted += still_seen


def _spare_ms(life: Life, tasks: TaskSettings, now_ms: int) -> float:
    if now_ms > life.abandoned_at_ms(tasks.abandon_after_ms):
        return SLACK_OF_ABANDONED_MS
    slack_ms = life.slack_ms(now_ms)
    return SLACK_WITHOUT_DEADLINE_MS if slack_ms is None else slack_ms
