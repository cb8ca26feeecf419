"""`drill task --kill stop|kill`: a worker process is really frozen or killed, and found out by its silence.

The worker is this drill's own child and is known by its process id alone. That its pipe closes is not looked at: on
a real host nobody is there to close anything.
"""

import os
import select
import signal
import subprocess
import sys
from typing import Literal

from preempt_exporter.clock import Clock
from preempt_exporter.drill.task import TaskStory, due, start
from preempt_exporter.gate.gate import Gate
from preempt_exporter.gate.life import LifeState
from preempt_exporter.wrapper.dies_with import dies_with

Kill = Literal["stop", "kill"]

SIGNAL_OF: dict[Kill, signal.Signals] = {"stop": signal.SIGSTOP, "kill": signal.SIGKILL}
LOOK_EVERY_S = 0.02
START_WITHIN_MS = 30_000
"""How long a new process may take until its first word; loading it is not decoding."""


class TaskKillDrill:
    """Plays one task with a worker process that loses its slot."""

    def __init__(self, gate: Gate, clock: Clock, story: TaskStory, *, kill: Kill, next_within_ms: int) -> None:
        """`next_within_ms`: silence longer than this means lost."""
        self._gate = gate
        self._clock = clock
        self._story = story
        self._kill = kill
        self._next_within_ms = next_within_ms
        self._losses_left = max(1, story.preemptions)

    def play(self) -> LifeState:
        """Admit, work, lose the worker and decide again until the task ends; the state it ends in."""
        answer = start(self._gate, self._story)
        while answer.outcome == "admitted":
            worker = self._new_worker(answer.checkpoint_tokens)
            try:
                if self._watch(worker, answer.checkpoint_tokens):
                    return "complete"
                answer = self._gate.admit(self._story.key, self._story.request_after_loss)
            finally:
                # Only now, when the decision stands on the ledger, and before another worker starts.
                worker.kill()
                worker.communicate()
        return answer.state or "rejected"

    def _new_worker(self, tokens: int) -> "subprocess.Popen[bytes]":
        story = self._story
        numbers = (tokens, story.output_tokens, story.tokens_per_tick, story.tick_ms)
        module = f"{__package__}.task_worker"
        self._gate.heartbeat(story.key, output_tokens=tokens, next_within_ms=max(START_WITHIN_MS, self._next_within_ms))
        words = [sys.executable, "-m", module, *map(str, numbers)]
        # The drill has one thread, and what it starts must not outlive it.
        return subprocess.Popen(words, stdout=subprocess.PIPE, preexec_fn=dies_with(os.getpid()))  # noqa: PLW1509

    def _watch(self, worker: "subprocess.Popen[bytes]", checkpoint: int) -> bool:
        """Until the worker is done (True) or was silent for too long (False)."""
        assert worker.stdout is not None
        pipe, heard, ticks = worker.stdout.fileno(), b"", 0
        while not self._gate.reap():
            ready, _, _ = select.select([pipe] if pipe >= 0 else [], [], [], LOOK_EVERY_S)
            if not ready:
                continue
            piece = os.read(pipe, 4096)
            pipe = pipe if piece else -1
            *lines, heard = (heard + piece).split(b"\n")
            for tokens in map(int, lines):
                ticks += 1
                checkpoint = self._record(tokens, checkpoint)
                if tokens >= self._story.output_tokens:
                    self._gate.complete(self._story.key, output_tokens=tokens)
                    return True
                if self._losses_left and ticks >= self._story.preempt_after_ticks:
                    self._losses_left -= 1
                    worker.send_signal(SIGNAL_OF[self._kill])
                    break
        return False

    def _record(self, tokens: int, checkpoint: int) -> int:
        if due(self._story, tokens, checkpoint):
            self._gate.checkpoint(self._story.key, checkpoint_tokens=tokens, next_within_ms=self._next_within_ms)
            return tokens
        self._gate.heartbeat(self._story.key, output_tokens=tokens, next_within_ms=self._next_within_ms)
        return checkpoint
