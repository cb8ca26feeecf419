"""The one entry point of the watched state: records in, lives, lanes and runs out.

`Watched.fold` knows no clock and no disk; `now_ms` is the moment at which the lines were read.
"""

from collections.abc import Collection, Sequence
from typing import Any

from preempt_exporter.ledger.records import Attempt, Checkpoint, Heartbeat, Record, SpendEvent, SwitchEvent, TaskEvent
from preempt_exporter.settings import LaneSettings, TaskSettings
from preempt_exporter.state.attempt_fold import fold_attempt
from preempt_exporter.state.expiry import MAX_RUNS_KEPT, expire, forget_gone_ledgers, forget_stale_ends, make_room
from preempt_exporter.state.figures import Figures
from preempt_exporter.state.life import RUNNING, Life
from preempt_exporter.state.repeats import LedgerMemory
from preempt_exporter.state.run import Run
from preempt_exporter.state.spend_fold import fold_spend
from preempt_exporter.state.switch_fold import fold_switch
from preempt_exporter.state.task_fold import EVENT_NAME_OF_TYPE, TaskFold


class Watched:
    """Folds the lines of any number of ledgers into `figures`."""

    def __init__(self, tasks: TaskSettings, lanes: LaneSettings, figures: Figures | None = None) -> None:
        """Start empty, or from the `figures` of a snapshot."""
        self.figures = Figures() if figures is None else figures
        self.tasks = tasks
        self.lanes = lanes
        self.figures.make_labels_known(lanes.names)
        self._task_fold = TaskFold(self.figures, tasks.defaults)
        self._promised_ms = 0
        self._crowd = MAX_RUNS_KEPT
        self._apply_defaults()
        self._index_ledgers()

    def fold(self, records: Sequence[Record], ledger: str, now_ms: int) -> None:
        """Take in `records`, whole lines of one ledger in file order, read at `now_ms` (Unix milliseconds).

        Never raises for anything a decoded record can say. The cost is linear in the number of records.
        """
        if not records:
            return
        index, memory = self._ledger(ledger)
        figures = self.figures
        figures.last_line_read_ms = now_ms
        fresh = memory.without_repeated_ids(records)
        figures.counts.duplicates += len(records) - len(fresh)
        self._fold_in_order(fresh, index, memory, now_ms)
        for lane in figures.lanes.values():
            lane.forget_old_steps()
        if figures.lives_kept > self.tasks.limit:
            make_room(figures, self.tasks, now_ms)
        forget_stale_ends(figures)
        if len(figures.runs) > self._crowd:
            self.expire(now_ms)

    def _fold_in_order(self, records: Sequence[Any], index: int, memory: LedgerMemory, now_ms: int) -> None:
        """The hot loop. Nearly all lines are signs of life of a running task: these two stand here in a row.

        They are written out one after the other, each with reads of its own record type only, because the interpreter
        is fast where one place in the code meets one type. `TaskFold` applies them too, to every other life.
        """
        figures = self.figures
        appliers = self._task_fold.appliers
        lanes = figures.lanes
        heartbeats = dict.fromkeys(lanes, 0)
        promised_ms = self._promised_ms
        run_name: str | None = ""  # no run is called so: the next line turns to its own
        run = Run(name=None, labelled=False)
        lives, oldest_ms, newest_ms = run.lives, run.first_ms, run.last_ms
        for record in records:
            kind = type(record)
            if kind is Heartbeat:
                if record.run != run_name:
                    run_name = record.run
                    run = self._turn_to(record, run, oldest_ms, newest_ms, now_ms)
                    lives, oldest_ms, newest_ms = run.lives, run.first_ms, run.last_ms
                try:
                    life = lives[record.task_id]
                except KeyError:
                    self._fold_task_event(record, run, index, now_ms)
                    continue
                moment_ms = record.ts_ms
                if life.state is RUNNING and life.ledger == index and moment_ms <= now_ms:
                    if moment_ms > newest_ms:
                        newest_ms = moment_ms
                    elif moment_ms < oldest_ms:
                        oldest_ms = moment_ms
                    life.last_ms = moment_ms
                    lane_name = record.lane
                    if lane_name != life.lane and lane_name is not None:
                        life.lane = lane_name
                        figures.lane(lane_name)  # lanes get their labels in the order of the lines
                    try:
                        heartbeats[life.lane] += 1
                    except KeyError:
                        heartbeats[life.lane] = 1
                    tokens = record.output_tokens
                    if tokens is not None:
                        life.output_tokens = tokens
                    promise_ms = record.next_within_ms
                    if promise_ms is not None:
                        if promise_ms != promised_ms:
                            promised_ms = promise_ms
                        if life.next_within_ms is not promised_ms:
                            life.next_within_ms = promised_ms
                    continue
            elif kind is Checkpoint:
                if record.run != run_name:
                    run_name = record.run
                    run = self._turn_to(record, run, oldest_ms, newest_ms, now_ms)
                    lives, oldest_ms, newest_ms = run.lives, run.first_ms, run.last_ms
                try:
                    life = lives[record.task_id]
                except KeyError:
                    self._fold_task_event(record, run, index, now_ms)
                    continue
                moment_ms = record.ts_ms
                if life.state is RUNNING and life.ledger == index and moment_ms <= now_ms:
                    if moment_ms > newest_ms:
                        newest_ms = moment_ms
                    elif moment_ms < oldest_ms:
                        oldest_ms = moment_ms
                    life.last_ms = moment_ms
                    lane_name = record.lane
                    if lane_name != life.lane and lane_name is not None:
                        life.lane = lane_name
                    lane = lanes.get(life.lane) or figures.lane(life.lane)
                    lane.events["checkpoint"] += 1
                    tokens = record.checkpoint_tokens
                    step_ms = life.step_ms
                    if step_ms is not None:
                        gained, elapsed_ms = tokens - life.checkpoint_tokens, moment_ms - step_ms
                        if gained > 0 and elapsed_ms > 0:
                            lane.step_tokens.append(gained)
                            lane.step_durations_ms.append(elapsed_ms)
                    life.step_ms = moment_ms
                    output_tokens = record.output_tokens
                    if output_tokens is not None:
                        life.output_tokens = output_tokens
                    elif tokens > life.output_tokens or tokens < life.checkpoint_tokens:  # as `output_at_checkpoint`
                        life.output_tokens = tokens
                    life.checkpoint_tokens = tokens
                    promise_ms = record.next_within_ms
                    if promise_ms is not None:
                        if promise_ms != promised_ms:
                            promised_ms = promise_ms
                        if life.next_within_ms is not promised_ms:
                            life.next_within_ms = promised_ms
                    continue
            elif kind is Attempt or kind not in appliers:
                run.touch(oldest_ms, newest_ms)
                if kind is Attempt:
                    fold_attempt(figures, memory, record, now_ms)
                else:
                    self._fold_other(record, now_ms)
                run_name = ""  # whoever asked for room may have found this run gone
                continue
            elif record.run != run_name:
                run_name = record.run
                run = self._turn_to(record, run, oldest_ms, newest_ms, now_ms)
                lives, oldest_ms, newest_ms = run.lives, run.first_ms, run.last_ms
            self._fold_task_event(record, run, index, now_ms)
        run.touch(oldest_ms, newest_ms)
        self._promised_ms = promised_ms
        for lane_name, count in heartbeats.items():
            figures.lane(lane_name).events["heartbeat"] += count

    def _turn_to(self, event: TaskEvent, before: Run, oldest_ms: int, newest_ms: int, now_ms: int) -> Run:
        """The run of `event`, which has an oldest and a newest moment from its first line on.

        `before` takes the moments of the oldest and newest of its lines.
        """
        before.touch(oldest_ms, newest_ms)
        run = self.figures.run(event.run, now_ms)
        if run.first_ms > run.last_ms:
            moment_ms = min(event.ts_ms, now_ms)
            run.touch(moment_ms, moment_ms)
        return run

    def _fold_task_event(self, record: Any, run: Run, index: int, now_ms: int) -> None:
        """Any event of a task, whatever its life."""
        figures = self.figures
        name, apply = self._task_fold.appliers[type(record)]
        moment_ms = record.ts_ms
        if moment_ms > now_ms:
            figures.skew.record(moment_ms - now_ms, now_ms)
            moment_ms = now_ms
        run.touch(moment_ms, moment_ms)
        life = run.lives.get(record.task_id)
        begins = life is None
        if life is None:
            life = self._task_fold.begin(record, moment_ms, index, run, self.lanes.default)
        elif life.ended_ms is not None or (life.ledger != index and moment_ms < life.last_ms):
            living = self._unusual(record, life, moment_ms, index, run)
            if living is None:
                lane = figures.lane(record.lane or life.lane)
                lane.events[name] += 1
                self._task_fold.count(record, moment_ms, lane)
                return
            begins = living is not life
            life = living
        life.ledger = index
        life.last_ms = moment_ms
        lane_name = record.lane
        if lane_name is not None and lane_name != life.lane:
            life.lane = lane_name
        lane = figures.lanes.get(life.lane) or figures.lane(life.lane)
        lane.events[name] += 1
        apply(life, record, moment_ms, lane, run)
        if begins and (lane.last_enqueue_ms is None or life.enqueued_ms > lane.last_enqueue_ms):
            lane.last_enqueue_ms = life.enqueued_ms

    def expire(self, now_ms: int) -> None:
        """Forget what has left by `now_ms`; called at a slow, regular pace, and when there are many more runs."""
        expire(self.figures, self.lanes, now_ms)
        self._crowd = max(MAX_RUNS_KEPT, len(self.figures.runs)) * 9 // 8

    def forget_gone_ledgers(self, followed: Collection[str], now_ms: int) -> None:
        """Forget what tells repeats in ledgers that are long gone; `followed` are the names of those that are not."""
        if forget_gone_ledgers(self.figures, followed, now_ms):
            self._index_ledgers()

    def _index_ledgers(self) -> None:
        self._ledger_indexes = {memory.name: index for index, memory in enumerate(self.figures.ledgers)}

    def _apply_defaults(self) -> None:
        """Lives of a snapshot take today's defaults for what none of their lines gave."""
        for run in self.figures.runs.values():
            for life in run.lives.values():
                if not (life.deadline_given or life.deadline_derived):
                    life.deadline_ms = self.tasks.defaults.deadline_ms
                if not life.budget_given:
                    life.task_budget = self.tasks.defaults.task_budget

    def _unusual(self, event: TaskEvent, life: Life, moment_ms: int, index: int, run: Run) -> Life | None:
        """The life that `event` still moves when it comes late or after an end; None: it changes counters only."""
        fold = self._task_fold
        if life.ledger != index and moment_ms < life.last_ms:
            fold.fill_late(life, event, moment_ms)
            return None
        name = EVENT_NAME_OF_TYPE[type(event)]
        if name in ("enqueue", "admit"):
            if fold.continues_rejected(life, event, moment_ms):
                fold.revive(life, run)
                return life
            run.ended[life.state] -= 1
            return fold.begin(event, moment_ms, index, run, self.lanes.default)
        if life.state == "rejected" and name in ("reject", "drain", "complete"):
            return life
        return None

    def _fold_other(self, record: SwitchEvent | SpendEvent, now_ms: int) -> None:
        figures = self.figures
        stamp_ms = record.ts_ms
        if stamp_ms is not None and stamp_ms > now_ms:
            figures.skew.record(stamp_ms - now_ms, now_ms)
            stamp_ms = now_ms
        lane = figures.lane(record.lane or self.lanes.default)
        lane.events[EVENT_NAME_OF_TYPE[type(record)]] += 1
        if isinstance(record, SwitchEvent):
            fold_switch(figures, record, now_ms)
        else:
            fold_spend(figures, record, now_ms if stamp_ms is None else stamp_ms, now_ms)

    def _ledger(self, name: str) -> tuple[int, LedgerMemory]:
        index = self._ledger_indexes.get(name)
        if index is None:
            index = self._ledger_indexes[name] = len(self.figures.ledgers)
            self.figures.ledgers.append(LedgerMemory(name=name))
        return index, self.figures.ledgers[index]
