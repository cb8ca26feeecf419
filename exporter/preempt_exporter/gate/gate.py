"""The gate: every decision about its tasks, on disk before it is told, and known again after a crash.

One process, any number of threads. Every operation runs alone: it looks at the task, decides, appends its lines in
one write, and only then moves the task with the very lines it wrote. Where the disk refuses, nothing has happened and
`LedgerWriteError` says so.
"""

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from preempt_exporter.clock import Clock
from preempt_exporter.decide.admission import TaskEvidence, Verdict, admission_verdict
from preempt_exporter.decide.lane_action import forbids_start
from preempt_exporter.errors import UnreadableInput
from preempt_exporter.gate.answers import Answer, Refusal, answer_about, refused
from preempt_exporter.gate.journal import TaskJournal
from preempt_exporter.gate.life import FINAL_STATES, Life, LifeState, TaskKey
from preempt_exporter.gate.request import TaskRequest, planned_life, says_more
from preempt_exporter.gate.settings import GateSettings
from preempt_exporter.gate.switches import Switches, SwitchFile
from preempt_exporter.gate.task_lines import FAIL_NOT_REPLAY, TaskLines
from preempt_exporter.ledger.records import TaskEvent
from preempt_exporter.ledger.sink import LedgerSink


class Gate:
    """Decides about the tasks it owns: those that it, or another process of the same owner, enqueued."""

    def __init__(
        self,
        ledger: Path,
        sink: LedgerSink,
        clock: Clock,
        *,
        settings: GateSettings,
        instance: str,
        snapshot_path: Path | None = None,
        keep: Callable[[TaskKey], bool] | None = None,
    ) -> None:
        """Know again what the snapshot and the newer lines of `ledger` tell.

        `instance` names this process among all that ever write to the ledger, without `-`. `keep`: the only tasks to
        decide about (None: all). Raises `UnreadableInput` when the ledger cannot be read.
        """
        self._lines = TaskLines(settings.owner, instance)
        self._journal = TaskJournal(
            ledger,
            sink,
            clock,
            own_prefix=self._lines.prefix,
            lane_default=settings.lane_default,
            snapshot_path=snapshot_path,
            keep=keep,
        )
        self._clock = clock
        self._settings = settings
        self._switch_file = SwitchFile(ledger)
        self._alone = threading.RLock()

    # --- what queues and workers ask --------------------------------------------------------------------------------

    def enqueue(self, key: TaskKey, request: TaskRequest) -> Answer:
        """Begin the task's life, or put a rejected one back into the queue with its enqueue moment and totals."""
        with self._alone:
            life, now_ms = self._life(key), self._clock.now_ms()
            refusal = self._why_not_enqueue(life, request)
            if refusal is not None:
                return refused(life, now_ms, refusal)
            planned = planned_life(key, _going_on(life), request, settings=self._settings, now_ms=now_ms)
            self._journal.write(self._lines.enqueue(planned, now_ms))
            return answer_about(self._journal.book.get(key), now_ms, "queued")

    def admit(self, key: TaskKey, request: TaskRequest) -> Answer:
        """Decide whether the task may start now; an unknown task is enqueued by the same write.

        A rejection of a task that ran before is followed by `drain` in the same write: it fails and is not replayed.
        Raises `UnreadableInput` while the switch file cannot be read: a drain may stand there.
        """
        with self._alone:
            life, now_ms = self._life(key), self._clock.now_ms()
            switches = self._switch_file.read()
            refusal = self._why_not_admit(key, life, request, switches)
            if refusal is not None:
                return refused(life, now_ms, refusal)
            going_on = _going_on(life)
            planned = planned_life(key, going_on, request, settings=self._settings, now_ms=now_ms)
            verdict = self._verdict(planned, switches, now_ms)
            if verdict.reason is None:
                self._journal.write(*self._lines.admission(planned, now_ms))
            else:
                news = going_on is None or says_more(planned, going_on)
                self._journal.write(*self._lines.rejection(planned, verdict.reason, now_ms, news=news))
            return answer_about(
                self._journal.book.get(key),
                now_ms,
                "admitted" if verdict.admitted else "rejected",
                verdict=verdict.verdict,
                reason=verdict.reason,
            )

    def heartbeat(
        self,
        key: TaskKey,
        *,
        output_tokens: int | None = None,
        next_within_ms: int | None = None,
        still_holds_slot: bool = False,
    ) -> Answer:
        """The worker still holds its slot, and will be heard of again within `next_within_ms`.

        `still_holds_slot`: the caller knows that no other attempt can have it, so a task that was declared lost
        meanwhile runs again.
        """
        return self._change_running(
            key,
            lambda life, now_ms: self._lines.heartbeat(
                life, now_ms, output_tokens=output_tokens, next_within_ms=next_within_ms
            ),
            also_from="preempted" if still_holds_slot else "running",
        )

    def checkpoint(
        self,
        key: TaskKey,
        *,
        checkpoint_tokens: int,
        output_tokens: int | None = None,
        input_digest: str | None = None,
        next_within_ms: int | None = None,
    ) -> Answer:
        """Progress that a restart will not repeat, of the input with `input_digest`."""
        with self._alone:
            life = self._life(key)
            if life is not None and life.state == "running" and _is_of_other_input(life, input_digest):
                return refused(life, self._clock.now_ms(), "digest_mismatch")
            return self._change_running(
                key,
                lambda life, now_ms: self._lines.checkpoint(
                    life,
                    now_ms,
                    checkpoint_tokens=checkpoint_tokens,
                    output_tokens=output_tokens,
                    input_digest=input_digest,
                    next_within_ms=next_within_ms,
                ),
            )

    def preempt(self, key: TaskKey, *, output_tokens: int | None = None, inferred: bool | None = None) -> Answer:
        """The slot was lost; waste and totals follow from what the gate knows.

        In a lane that replays nothing the task fails with it: `reject` and `drain` follow in the same write.
        `output_tokens`: how far the worker had got, if that is known better than from its last sign of life.
        `inferred`: True when nobody saw it happen.
        """
        with self._alone:
            life, now_ms = self._life(key), self._clock.now_ms()
            if life is None or not self._owns(life) or life.state != "running":
                return refused(life, now_ms, self._why_not_touch(life))
            return self._lose_slot(life, now_ms, output_tokens=output_tokens, inferred=inferred)

    def complete(self, key: TaskKey, *, output_tokens: int | None = None) -> Answer:
        """The task is done; without `output_tokens` the progress known last stands."""
        return self._change_running(
            key, lambda life, now_ms: self._lines.complete(life, now_ms, output_tokens=output_tokens)
        )

    def drain(self, key: TaskKey, *, action: str = FAIL_NOT_REPLAY) -> Answer:
        """Fail the task rather than replay it, from any state but drained and complete."""
        with self._alone:
            life, now_ms = self._life(key), self._clock.now_ms()
            if life is None or not self._owns(life) or life.state in FINAL_STATES:
                return refused(life, now_ms, self._why_not_touch(life))
            self._journal.write(self._lines.drain(life, action, now_ms))
            return answer_about(life, now_ms, "recorded")

    def reap(self, *, lane: str | None = None, run: str | None = None) -> list[TaskKey]:
        """Declare running tasks lost that were silent for longer than they promised; their names.

        Each gets its `preempt`, marked `inferred`, and can be admitted again unless its lane replays nothing. `lane`,
        `run`: only those.
        """
        with self._alone:
            self._journal.catch_up()
            now_ms, patience_ms = self._clock.now_ms(), self._settings.silent_after_ms
            silent = [
                life
                for life in self._journal.book.live()
                if self._owns(life)
                and life.silent(now_ms, patience_ms)
                and lane in (None, life.lane)
                and run in (None, life.run)
            ]
            for life in silent:
                self._lose_slot(life, now_ms, inferred=True)
            return [life.key for life in silent]

    # --- what operators and the control service ask -----------------------------------------------------------------

    def owns(self, key: TaskKey) -> bool:
        """Whether the task's newest life is this gate's to decide about; False for unknown tasks."""
        with self._alone:
            life = self._life(key)
            return life is not None and self._owns(life)

    def about(self, key: TaskKey) -> Answer | None:
        """The task as it is now; None: unknown."""
        with self._alone:
            life = self._life(key)
            return None if life is None else answer_about(life, self._clock.now_ms(), "recorded")

    def in_flight(self, lane: str) -> int:
        """How many tasks of the lane are running."""
        with self._alone:
            self._journal.catch_up()
            return sum(life.lane == lane and life.state == "running" for life in self._journal.book.live())

    def in_flight_by_lane(self) -> dict[str, int]:
        """How many tasks are running, for every lane that has any."""
        with self._alone:
            self._journal.catch_up()
            return dict(Counter(life.lane for life in self._journal.book.live() if life.state == "running"))

    def silent(self) -> list[tuple[TaskKey, str]]:
        """Running tasks of this gate that `reap` would declare lost, each with its lane."""
        with self._alone:
            self._journal.catch_up()
            now_ms, patience_ms = self._clock.now_ms(), self._settings.silent_after_ms
            return [
                (life.key, life.lane)
                for life in self._journal.book.live()
                if self._owns(life) and life.silent(now_ms, patience_ms)
            ]

    def is_told_now(self, key: TaskKey) -> None:
        """Lines of the task whose write was reported as failed were found on the ledger, and told to who had asked."""
        with self._alone:
            self._journal.is_told_now(key)

    def catch_up(self) -> None:
        """Read what others wrote about its tasks. Raises `UnreadableInput`."""
        with self._alone:
            self._journal.catch_up()

    def write_snapshot(self) -> None:
        """Put down what is known, so that a restart reads only newer lines. Raises OSError."""
        with self._alone:
            self._journal.write_snapshot()

    # --- deciding ---------------------------------------------------------------------------------------------------

    def _verdict(self, life: Life, switches: Switches, now_ms: int) -> Verdict:
        thresholds = self._settings.thresholds
        cost_ms = None
        if thresholds.restart_must_fit:
            prefill = self._settings.prefill_tokens_per_s.get(life.lane)
            cost_ms = self._journal.book.rates.restart_cost_ms(life, prefill)
        evidence = TaskEvidence(
            queue_age_ms=life.queue_age_ms(now_ms),
            deadline_ms=life.deadline_ms,
            restart_tokens=life.restart_tokens,
            preempts=life.preempts,
            task_budget=life.task_budget,
            restart_cost_ms=cost_ms,
            lane_draining=forbids_start(switches.lane_action(life.lane), admitted_before=life.admitted),
            mode=switches.mode or self._settings.initial_mode,
        )
        return admission_verdict(evidence, thresholds)

    def _why_not_enqueue(self, life: Life | None, request: TaskRequest) -> Refusal | None:
        if life is not None and life.live:
            return "already_live" if self._owns(life) else "not_owner"
        return self._why_not_begin(life, request)

    def _why_not_admit(
        self, key: TaskKey, life: Life | None, request: TaskRequest, switches: Switches
    ) -> Refusal | None:
        if key[0] is not None and key[0] in switches.stopped_runs:
            return "run_stopped"
        if life is None or not life.live:
            return self._why_not_begin(life, request)
        if not self._owns(life):
            return "not_owner"
        # An admission that was reported as failed, and is on disk after all, started nobody: it is decided again.
        return "already_running" if life.state == "running" and self._journal.was_told(key) else None

    def _why_not_begin(self, life: Life | None, request: TaskRequest) -> Refusal | None:
        """A rejected life goes on; after `drained` and `complete` only a new life is left."""
        if life is None:
            return None
        if life.state in FINAL_STATES:
            return None if request.new_life else "ended"
        return None if self._owns(life) else "not_owner"

    def _why_not_touch(self, life: Life | None) -> Refusal:
        """Why a worker's word about a task is not taken."""
        if life is None:
            return "unknown_task"
        if not self._owns(life):
            return "not_owner"
        return "ended" if life.state in FINAL_STATES else "not_running"

    def _change_running(
        self, key: TaskKey, line: Callable[[Life, int], TaskEvent], *, also_from: LifeState = "running"
    ) -> Answer:
        """Write what `line` makes of a task of ours that is running, or in the state `also_from`; or say why not."""
        with self._alone:
            life, now_ms = self._life(key), self._clock.now_ms()
            if life is None or not self._owns(life) or life.state not in ("running", also_from):
                return refused(life, now_ms, self._why_not_touch(life))
            before = life.restart_tokens
            self._journal.write(line(life, now_ms))
            return answer_about(life, now_ms, "recorded", wasted_tokens=life.restart_tokens - before)

    def _lose_slot(
        self, life: Life, now_ms: int, *, output_tokens: int | None = None, inferred: bool | None = None
    ) -> Answer:
        preempt = self._lines.preempt(life, now_ms, output_tokens=output_tokens, inferred=inferred)
        fails = self._fails_when_lost(life)
        self._journal.write(preempt, *(self._lines.failure(life, preempt, "drain_mode") if fails else ()))
        return answer_about(
            life,
            now_ms,
            "recorded",
            verdict="reject_drain_mode" if fails else None,
            reason="drain_mode" if fails else None,
            wasted_tokens=preempt.wasted_tokens,
        )

    def _fails_when_lost(self, life: Life) -> bool:
        """Whether the life's lane replays nothing. Where the switch file cannot be read the next admission decides."""
        try:
            action = self._switch_file.read().lane_action(life.lane)
        except UnreadableInput:
            return False
        return forbids_start(action, admitted_before=True)

    def _life(self, key: TaskKey) -> Life | None:
        return self._journal.life(key, is_ours=self._owns)

    def _owns(self, life: Life) -> bool:
        return life.owner in self._settings.adopts


def _going_on(life: Life | None) -> Life | None:
    """The life that an enqueue or admission continues; None: it begins one."""
    return None if life is None or life.state in FINAL_STATES else life


def _is_of_other_input(life: Life, digest: str | None) -> bool:
    return digest is not None and life.input_digest is not None and digest != life.input_digest
