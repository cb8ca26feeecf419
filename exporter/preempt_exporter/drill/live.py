"""`drill live`: a small fake workload over lanes whose hosts are taken back, on the real gate.

Tasks arrive at random, are enqueued, admitted, checkpoint, lose their slots with their hosts, are admitted again or
rejected and drained, and complete. Nothing is computed; the decisions and the ledger lines are real, and the lane
switches and the mode of the ledger's switch file are obeyed.
"""

import random
from collections import deque

from msgspec import Struct

from preempt_exporter.clock import Clock
from preempt_exporter.drill.hosts import Hosts, LivePlan
from preempt_exporter.gate.gate import Gate
from preempt_exporter.gate.life import TaskKey
from preempt_exporter.gate.request import TaskRequest
from preempt_exporter.ledger.records import Attempt, RunClose, RunOpen
from preempt_exporter.ledger.sink import LedgerSink

TOKENS_PER_TICK = 20
CHECKPOINT_TOKENS = 100
HEARTBEAT_TOKENS = 60
"""Past the checkpoint, so that there is one sign of life between two checkpoints."""
DEADLINES_TICKS = (80, 240, 720)
NEXT_WITHIN_TICKS = 20
PROMPT_TOKENS = (100, 400, 800)
TARGET_TOKENS = (200, 400, 800)
BUDGETS_TOKENS = (1_000, 4_000, 10_000)

LANES = (
    LivePlan(name="free", hosts=4, slots_per_host=3, share=0.7, preemptions_per_hour=170),
    LivePlan(name="paid", hosts=3, slots_per_host=2, share=0.3),
)


class Work(Struct):
    """What the worker of one task knows of it."""

    task_id: str
    enqueued_ms: int
    prompt_tokens: int
    target_tokens: int
    host: str = ""
    started_ms: int = 0
    attempt: int = 0
    output_tokens: int = 0
    checkpoint_tokens: int = 0


class _Lane:
    """One lane's queue and its running tasks."""

    def __init__(self, plan: LivePlan, rng: random.Random) -> None:
        self.plan = plan
        self.hosts = Hosts(plan, rng)
        self.queue: deque[Work] = deque()
        self.running: list[Work] = []

    def free_host(self) -> str | None:
        """The host with the most room; None: all are full."""
        room = dict.fromkeys(self.hosts.names(), self.plan.slots_per_host)
        for work in self.running:
            room[work.host] -= 1
        best = max(room, key=lambda host: room[host], default=None)
        return best if best is not None and room[best] > 0 else None


class LiveDrill:
    """Moves the workload one tick at a time; every change is on the ledger before it counts."""

    def __init__(
        self,
        gate: Gate,
        sink: LedgerSink,
        clock: Clock,
        rng: random.Random,
        *,
        run: str,
        lanes: tuple[LivePlan, ...],
        arrivals_per_s: float,
        tick_ms: int,
    ) -> None:
        """`run` names the batch; the same `rng` and clock give the same story. `sink` is the gate's ledger."""
        self._gate = gate
        self._sink = sink
        self._clock = clock
        self._rng = rng
        self._run = run
        self._lanes = [_Lane(plan, rng) for plan in lanes]
        self._arrivals_per_s = arrivals_per_s
        self._tick_ms = tick_ms
        self._began_ms = self._passed_ms = clock.now_ms()
        self._arrived = 0
        self._next_arrival_s = self._pause_s()
        self.counts: dict[str, int] = {}
        """What happened, by the event's name."""

    def open(self, deadline_ms: int) -> None:
        """Begin the run, which is to be done `deadline_ms` from now."""
        self._sink.append(RunOpen(run=self._run, ts_ms=self._clock.now_ms(), deadline_ms=deadline_ms))

    def close(self) -> None:
        """Hand over: nothing more comes."""
        self._sink.append(RunClose(run=self._run, ts_ms=self._clock.now_ms()))

    def tick(self) -> None:
        """Let the time since the last tick pass: tasks arrive, hosts are taken back, tasks work and start."""
        now_ms = self._clock.now_ms()
        elapsed_s, step_s = (now_ms - self._began_ms) / 1000, (now_ms - self._passed_ms) / 1000
        self._passed_ms = now_ms
        while self._next_arrival_s <= elapsed_s:
            self._next_arrival_s += self._pause_s()
            self._arrive()
        for lane in self._lanes:
            lost_hosts = lane.hosts.pass_time(elapsed_s, step_s)
            for work in list(lane.running):
                if work.host in lost_hosts:
                    self._preempt(lane, work)
                else:
                    self._work(lane, work)
            self._start_waiting(lane)

    def _pause_s(self) -> float:
        """Until the next arrival of a Poisson process."""
        return self._rng.expovariate(self._arrivals_per_s) if self._arrivals_per_s > 0 else float("inf")

    def _arrive(self) -> None:
        self._arrived += 1
        rng = self._rng
        lane = rng.choices(self._lanes, [lane.plan.share for lane in self._lanes])[0]
        work = Work(
            task_id=f"{self._run}-{self._arrived:05d}",
            enqueued_ms=self._clock.now_ms(),
            prompt_tokens=rng.choice(PROMPT_TOKENS),
            target_tokens=rng.choice(TARGET_TOKENS),
        )
        request = TaskRequest(
            lane=lane.plan.name,
            prompt_tokens=work.prompt_tokens,
            target_tokens=work.target_tokens,
            deadline_ms=rng.choice(DEADLINES_TICKS) * self._tick_ms,
            task_budget=rng.choice(BUDGETS_TOKENS),
        )
        if self._gate.enqueue(self._key(work), request).outcome == "queued":
            self._count("enqueue")
            lane.queue.append(work)

    def _start_waiting(self, lane: _Lane) -> None:
        while lane.queue and (host := lane.free_host()) is not None:
            work = lane.queue.popleft()
            answer = self._gate.admit(self._key(work), TaskRequest(lane=lane.plan.name, host=host))
            if answer.outcome != "admitted":
                self._count("reject")
                if answer.drained:
                    self._count("drain")
                continue
            self._count("admit")
            work.host, work.started_ms = host, self._clock.now_ms()
            work.attempt += 1
            work.output_tokens = work.checkpoint_tokens = answer.checkpoint_tokens
            lane.running.append(work)

    def _work(self, lane: _Lane, work: Work) -> None:
        work.output_tokens = min(work.target_tokens, work.output_tokens + TOKENS_PER_TICK)
        if not self._report(work):
            lane.running.remove(work)  # somebody declared it lost or failed it: this worker has no slot any more
            return
        if work.output_tokens >= work.target_tokens:
            lane.running.remove(work)
            if self._gate.complete(self._key(work), output_tokens=work.output_tokens).outcome == "recorded":
                self._count("complete")
                self._sink.append(self._attempt(lane, work, "ok"))

    def _report(self, work: Work) -> bool:
        """Checkpoint or heartbeat where one is due; False: the gate says that the slot is lost."""
        key, within_ms = self._key(work), NEXT_WITHIN_TICKS * self._tick_ms
        since_checkpoint = work.output_tokens - work.checkpoint_tokens
        if since_checkpoint >= CHECKPOINT_TOKENS:
            answer = self._gate.checkpoint(key, checkpoint_tokens=work.output_tokens, next_within_ms=within_ms)
            event = "checkpoint"
            work.checkpoint_tokens = work.output_tokens
        elif since_checkpoint == HEARTBEAT_TOKENS:
            answer = self._gate.heartbeat(key, output_tokens=work.output_tokens, next_within_ms=within_ms)
            event = "heartbeat"
        else:
            return True
        if answer.outcome == "refused":
            return False
        self._count(event)
        return True

    def _preempt(self, lane: _Lane, work: Work) -> None:
        lane.running.remove(work)
        answer = self._gate.preempt(self._key(work), output_tokens=work.output_tokens)
        if answer.outcome != "recorded":
            return
        self._count("preempt")
        self._sink.append(self._attempt(lane, work, "preempted"))
        if answer.drained:
            self._count("reject")
            self._count("drain")
        else:
            lane.queue.append(work)

    def _attempt(self, lane: _Lane, work: Work, outcome: str) -> Attempt:
        now_ms = self._clock.now_ms()
        return Attempt(
            job_id=work.task_id,
            lane=lane.plan.name,
            attempt=work.attempt,
            enqueue_s=work.enqueued_ms / 1000,
            start_s=work.started_ms / 1000,
            end_s=now_ms / 1000,
            outcome=outcome,
            tokens_in=work.prompt_tokens,
            tokens_out=work.output_tokens,
            interventions=0,
            ts_ms=now_ms,
            run=self._run,
            host=work.host,
        )

    def _key(self, work: Work) -> TaskKey:
        return (self._run, work.task_id)

    def _count(self, event: str) -> None:
        self.counts[event] = self.counts.get(event, 0) + 1
