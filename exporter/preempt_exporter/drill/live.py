"""`drill live`: a small fake workload over two lanes, for seeing the exporter at work.

Tasks are enqueued, admitted by the real policy, checkpoint, lose their slot at random in the free lane, are admitted
again or rejected and drained, and complete. Nothing is computed; the ledger lines are real.
"""

import random
from typing import Any

from msgspec import Struct

from preempt_exporter.clock import Clock
from preempt_exporter.decide.admission import TaskEvidence, admission_verdict
from preempt_exporter.ledger.records import (
    Admit,
    Attempt,
    Checkpoint,
    Complete,
    Drain,
    Enqueue,
    Heartbeat,
    Preempt,
    Record,
    Reject,
    RunClose,
    RunOpen,
)
from preempt_exporter.ledger.sink import LedgerSink
from preempt_exporter.settings import Thresholds

TICK_S = 0.25
DEADLINES_MS = (20_000, 60_000, 180_000)
RUN_DEADLINE_MS = 30 * 60_000
NEXT_WITHIN_MS = 5_000
TOKENS_PER_TICK = 20
CHECKPOINT_TOKENS = 100
HEARTBEAT_TOKENS = 60
"""Past the checkpoint, so that there is one sign of life between two checkpoints."""
HOSTS_PER_LANE = 4


class Lane(Struct, frozen=True):
    """How a lane treats its tasks: chance per tick that a slot comes free for the queue, and that one is lost."""

    name: str
    slots: int
    preempt_chance: float
    share: float
    """Of the tasks that arrive."""


LANES = (Lane("free", 12, 0.012, 0.7), Lane("paid", 6, 0.0, 0.3))


class Task(Struct):
    """One fake task and what its worker knows of it."""

    task_id: str
    lane: Lane
    enqueued_ms: int
    deadline_ms: int
    task_budget: int
    prompt_tokens: int
    target_tokens: int
    host: str | None = None
    running: bool = False
    started_ms: int = 0
    attempt: int = 0
    output_tokens: int = 0
    checkpoint_tokens: int = 0
    restart_tokens: int = 0
    preempts: int = 0


class LiveDrill:
    """Moves the workload one tick at a time; every change is ledger lines before it counts."""

    def __init__(
        self, sink: LedgerSink, clock: Clock, rng: random.Random, *, run: str, arrivals_per_tick: float
    ) -> None:
        """`run` names the batch; the same `rng` and clock give the same story."""
        self._sink = sink
        self._clock = clock
        self._rng = rng
        self._run = run
        self._arrivals_per_tick = arrivals_per_tick
        self._tasks: list[Task] = []
        self._arrived = 0
        self.counts: dict[str, int] = {}
        """Lines written, by event."""

    def open(self) -> None:
        """Begin the run."""
        self._sink.append(RunOpen(run=self._run, ts_ms=self._clock.now_ms(), deadline_ms=RUN_DEADLINE_MS))

    def close(self) -> None:
        """Hand over: nothing more comes."""
        self._sink.append(RunClose(run=self._run, ts_ms=self._clock.now_ms()))

    def tick(self) -> None:
        """Let tasks arrive, start, work, lose their slots and finish."""
        if self._rng.random() < self._arrivals_per_tick:
            self._arrive()
        for task in list(self._tasks):
            if task.running:
                self._work(task)
            elif sum(other.running for other in self._tasks if other.lane is task.lane) < task.lane.slots:
                self._start(task)

    def _arrive(self) -> None:
        self._arrived += 1
        rng = self._rng
        lane = rng.choices(LANES, [lane.share for lane in LANES])[0]
        task = Task(
            task_id=f"{self._run}-{self._arrived:05d}",
            lane=lane,
            enqueued_ms=self._clock.now_ms(),
            deadline_ms=rng.choice(DEADLINES_MS),
            task_budget=rng.choice((1_000, 4_000, 10_000)),
            prompt_tokens=rng.choice((100, 400, 800)),
            target_tokens=rng.choice((200, 400, 800)),
        )
        self._tasks.append(task)
        self._write(
            "enqueue",
            Enqueue(
                **self._named(task),
                enqueued_ms=task.enqueued_ms,
                deadline_ms=task.deadline_ms,
                task_budget=task.task_budget,
                prompt_tokens=task.prompt_tokens,
                target_tokens=task.target_tokens,
            ),
        )

    def _start(self, task: Task) -> None:
        now_ms = self._clock.now_ms()
        evidence = TaskEvidence(
            queue_age_ms=now_ms - task.enqueued_ms,
            deadline_ms=task.deadline_ms,
            restart_tokens=task.restart_tokens,
            preempts=task.preempts,
            task_budget=task.task_budget,
        )
        verdict = admission_verdict(evidence, Thresholds())
        slack_ms = task.deadline_ms - evidence.queue_age_ms
        if verdict.reason is None:
            task.running = True
            task.attempt += 1
            task.started_ms = now_ms
            task.host = f"{task.lane.name}-{self._rng.randrange(HOSTS_PER_LANE)}"
            task.output_tokens = task.checkpoint_tokens
            self._write(
                "admit",
                Admit(
                    **self._named(task),
                    queue_age_ms=evidence.queue_age_ms,
                    deadline_slack_ms=slack_ms,
                    preempts=task.preempts,
                ),
            )
            return
        self._tasks.remove(task)
        reject = Reject(
            **self._named(task),
            reason=verdict.reason,
            queue_age_ms=evidence.queue_age_ms,
            deadline_slack_ms=slack_ms,
            preempts=task.preempts,
            restart_tokens=task.restart_tokens,
            task_budget=task.task_budget,
        )
        if task.attempt == 0:
            self._write("reject", reject)
        else:
            self._write("reject", reject, Drain(**self._named(task), action="fail_task_not_replay"))

    def _work(self, task: Task) -> None:
        if self._rng.random() < task.lane.preempt_chance:
            self._preempt(task)
            return
        task.output_tokens = min(task.target_tokens, task.output_tokens + TOKENS_PER_TICK)
        if task.output_tokens - task.checkpoint_tokens >= CHECKPOINT_TOKENS:
            task.checkpoint_tokens = task.output_tokens
            self._write(
                "checkpoint",
                Checkpoint(
                    **self._named(task), checkpoint_tokens=task.checkpoint_tokens, next_within_ms=NEXT_WITHIN_MS
                ),
            )
        elif task.output_tokens - task.checkpoint_tokens == HEARTBEAT_TOKENS:
            self._write(
                "heartbeat",
                Heartbeat(**self._named(task), output_tokens=task.output_tokens, next_within_ms=NEXT_WITHIN_MS),
            )
        if task.output_tokens >= task.target_tokens:
            self._tasks.remove(task)
            self._write(
                "complete",
                Complete(**self._named(task), output_tokens=task.output_tokens, restart_tokens=task.restart_tokens),
                self._attempt(task, "ok"),
            )

    def _preempt(self, task: Task) -> None:
        wasted = max(task.prompt_tokens + task.output_tokens - task.checkpoint_tokens, 0)
        task.restart_tokens += wasted
        task.preempts += 1
        task.running = False
        self._write(
            "preempt",
            Preempt(
                **self._named(task),
                wasted_tokens=wasted,
                restart_tokens=task.restart_tokens,
                preempts=task.preempts,
                deadline_slack_ms=task.deadline_ms - (self._clock.now_ms() - task.enqueued_ms),
            ),
            self._attempt(task, "preempted"),
        )

    def _attempt(self, task: Task, outcome: str) -> Attempt:
        now_ms = self._clock.now_ms()
        return Attempt(
            job_id=task.task_id,
            lane=task.lane.name,
            attempt=task.attempt,
            enqueue_s=task.enqueued_ms / 1000,
            start_s=task.started_ms / 1000,
            end_s=now_ms / 1000,
            outcome=outcome,
            tokens_in=task.prompt_tokens,
            tokens_out=task.output_tokens,
            interventions=0,
            ts_ms=now_ms,
            run=self._run,
        )

    def _named(self, task: Task) -> dict[str, Any]:
        return {
            "task_id": task.task_id,
            "lane": task.lane.name,
            "run": self._run,
            "host": task.host,
            "ts_ms": self._clock.now_ms(),
        }

    def _write(self, event: str, *records: Record) -> None:
        self._sink.append(*records)
        self.counts[event] = self.counts.get(event, 0) + 1
