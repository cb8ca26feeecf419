"""The lines that the gate writes, made from a life. Each carries what those who watch need, and an id of its own."""

import itertools
from typing import TypedDict

from msgspec.structs import replace

from preempt_exporter.decide.restart_cost import lost_tokens
from preempt_exporter.gate.life import Life
from preempt_exporter.ledger.records import (
    Admit,
    Checkpoint,
    Complete,
    Drain,
    Enqueue,
    Heartbeat,
    Preempt,
    Reject,
    RejectReason,
    TaskEvent,
)

FAIL_NOT_REPLAY = "fail_task_not_replay"


class _Head(TypedDict):
    id: str
    task_id: str
    run: str | None
    lane: str
    host: str | None
    ts_ms: int


class TaskLines:
    """Makes lines; writes none."""

    def __init__(self, owner: str, instance: str) -> None:
        """Ids are `owner-instance-number`; `instance` names one process among all that write to the ledger."""
        self.prefix = f"{owner}-{instance}-"
        self._numbers = itertools.count()

    def enqueue(self, life: Life, now_ms: int) -> Enqueue:
        """The task joined the queue."""
        return Enqueue(
            **self._head(life, now_ms),
            enqueued_ms=life.enqueued_ms,
            deadline_ms=life.deadline_ms,
            task_budget=life.task_budget,
            prompt_tokens=life.prompt_tokens,
            target_tokens=life.target_tokens,
        )

    def admission(self, life: Life, now_ms: int) -> tuple[TaskEvent, ...]:
        """The task was let in.

        An `admit` line must say its slack, and would thereby give the task a deadline. One that has none is enqueued
        instead, and a heartbeat says that it runs.
        """
        slack_ms = life.deadline_slack_ms(now_ms)
        if slack_ms is None:
            return (self.enqueue(life, now_ms), Heartbeat(**self._head(life, now_ms)))
        return (
            Admit(
                **self._head(life, now_ms),
                queue_age_ms=life.queue_age_ms(now_ms),
                deadline_slack_ms=slack_ms,
                preempts=life.preempts,
                enqueued_ms=life.enqueued_ms,
                deadline_ms=life.deadline_ms,
                task_budget=life.task_budget,
                prompt_tokens=life.prompt_tokens,
                target_tokens=life.target_tokens,
            ),
        )

    def rejection(self, life: Life, reason: RejectReason, now_ms: int, *, news: bool) -> tuple[TaskEvent, ...]:
        """The task was refused; one that ran before is failed with the same write, and not replayed.

        `news`: `life` knows more than the lines so far tell and than a `reject` can say: an `enqueue` comes first.
        """
        # Lines are made in the order in which they stand: their numbers say so to whoever reads them back.
        first = (self.enqueue(life, now_ms),) if news else ()
        reject = Reject(
            **self._head(life, now_ms),
            reason=reason,
            queue_age_ms=life.queue_age_ms(now_ms),
            deadline_slack_ms=life.deadline_slack_ms(now_ms),
            preempts=life.preempts,
            restart_tokens=life.restart_tokens,
            task_budget=life.task_budget,
        )
        last = (self.drain(life, FAIL_NOT_REPLAY, now_ms),) if life.admitted else ()
        return (*first, reject, *last)

    def heartbeat(self, life: Life, now_ms: int, *, output_tokens: int | None, next_within_ms: int | None) -> Heartbeat:
        """The worker holds its slot."""
        return Heartbeat(**self._head(life, now_ms), output_tokens=output_tokens, next_within_ms=next_within_ms)

    def checkpoint(
        self,
        life: Life,
        now_ms: int,
        *,
        checkpoint_tokens: int,
        output_tokens: int | None,
        input_digest: str | None,
        next_within_ms: int | None,
    ) -> Checkpoint:
        """Progress was saved."""
        return Checkpoint(
            **self._head(life, now_ms),
            checkpoint_tokens=checkpoint_tokens,
            output_tokens=output_tokens,
            input_digest=input_digest,
            next_within_ms=next_within_ms,
        )

    def preempt(
        self, life: Life, now_ms: int, *, output_tokens: int | None = None, inferred: bool | None = None
    ) -> Preempt:
        """The slot was lost. Of a prompt of unknown size nothing is known to be wasted."""
        output = life.output_tokens if output_tokens is None else output_tokens
        wasted = lost_tokens(life.prompt_tokens or 0, output, life.checkpoint_tokens) or 0
        return Preempt(
            **self._head(life, now_ms),
            wasted_tokens=wasted,
            restart_tokens=life.restart_tokens + wasted,
            preempts=life.preempts + 1,
            deadline_slack_ms=life.deadline_slack_ms(now_ms),
            inferred=inferred,
        )

    def failure(self, life: Life, preempt: Preempt, reason: RejectReason) -> tuple[TaskEvent, ...]:
        """What follows `preempt` in the same write where the task fails with it and is not replayed."""
        lost = replace(life, admitted=True, preempts=preempt.preempts, restart_tokens=preempt.restart_tokens)
        return self.rejection(lost, reason, preempt.ts_ms, news=False)

    def complete(self, life: Life, now_ms: int, *, output_tokens: int | None) -> Complete:
        """The task is done; without `output_tokens` the progress known last stands."""
        return Complete(
            **self._head(life, now_ms),
            output_tokens=life.output_tokens if output_tokens is None else output_tokens,
            restart_tokens=life.restart_tokens,
        )

    def drain(self, life: Life, action: str, now_ms: int) -> Drain:
        """The task was failed rather than replayed."""
        return Drain(**self._head(life, now_ms), action=action)

    def _head(self, life: Life, now_ms: int) -> _Head:
        return {
            "id": f"{self.prefix}{next(self._numbers)}",
            "task_id": life.task_id,
            "run": life.run,
            "lane": life.lane,
            "host": life.host,
            "ts_ms": now_ms,
        }
