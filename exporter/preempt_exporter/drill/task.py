"""`drill task`: the declared lab. One task, one process, no remote host; only the slot is lost, the rest is real.

The gate is the real one. Decoding is a wait per tick; nothing is computed.
"""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from preempt_exporter.clock import Clock
from preempt_exporter.errors import UsageError
from preempt_exporter.gate.answers import Answer
from preempt_exporter.gate.gate import Gate
from preempt_exporter.gate.life import LifeState, TaskKey
from preempt_exporter.gate.request import TaskRequest

OWNER = "drill"
DEADLINE_MS = 120_000
TASK_BUDGET = 1_000
"""What a drill's task has where nobody says otherwise; no other command has such defaults."""


class TaskStory(Struct, frozen=True, kw_only=True):
    """The numbers of one drill."""

    task_id: str = "batch-0214"
    run: str | None = None
    lane: str = "free"
    prompt_tokens: int = 800
    output_tokens: int = 200
    tokens_per_tick: int = 20
    tick_ms: int = 50
    checkpoint_every_tokens: int = 100
    """0: never."""
    preemptions: int = 0
    """How often the slot is lost."""
    preempt_after_ticks: int = 2
    """Ticks of an attempt after which it is."""

    @property
    def key(self) -> TaskKey:
        """The task's name."""
        return (self.run, self.task_id)

    @property
    def request(self) -> TaskRequest:
        """What is said of it at every start; the deadline and the budget are the gate's defaults."""
        return TaskRequest(
            lane=self.lane, prompt_tokens=self.prompt_tokens, target_tokens=self.output_tokens, new_life=True
        )

    @property
    def request_after_loss(self) -> TaskRequest:
        """The same for the life that goes on, if it does: one that failed with its preemption is not begun anew."""
        return replace(self.request, new_life=False)


class TaskDrill:
    """Plays one task from admission to its end."""

    def __init__(self, gate: Gate, clock: Clock, story: TaskStory, *, wait_s: Callable[[float], object]) -> None:
        """`wait_s` lets that many seconds pass on `clock`."""
        self._gate = gate
        self._clock = clock
        self._story = story
        self._wait_s = wait_s
        self._losses_left = story.preemptions

    def play(self) -> LifeState:
        """Admit, work and lose the slot until the task ends; the state it ends in.

        Raises UsageError where the ledger has a life of that name which is not the drill's.
        """
        answer = start(self._gate, self._story)
        while answer.outcome == "admitted":
            if self._work(answer.checkpoint_tokens):
                return "complete"
            answer = self._gate.admit(self._story.key, self._story.request_after_loss)
        return answer.state or "rejected"

    def _work(self, tokens: int) -> bool:
        """One attempt from its checkpoint on; False: its slot was lost."""
        story, ticks, checkpoint = self._story, 0, tokens
        while tokens < story.output_tokens:
            tokens = min(tokens + story.tokens_per_tick, story.output_tokens)
            if due(story, tokens, checkpoint):
                checkpoint = tokens
                self._gate.checkpoint(story.key, checkpoint_tokens=tokens)
            self._wait_s(story.tick_ms / 1000)
            ticks += 1
            if self._losses_left and ticks >= story.preempt_after_ticks and tokens < story.output_tokens:
                self._losses_left -= 1
                self._gate.preempt(story.key, output_tokens=tokens)
                return False
        self._gate.complete(story.key, output_tokens=tokens)
        return True


def start(gate: Gate, story: TaskStory) -> Answer:
    """Ask for the first admission; what an earlier drill left running is declared lost first."""
    known = gate.about(story.key)
    if known is not None and known.state == "running":
        gate.preempt(story.key, inferred=True)
    answer = gate.admit(story.key, story.request)
    if answer.outcome == "refused":
        raise UsageError(
            f"task {story.task_id} is on this ledger and not the drill's ({answer.reason}); give --task ID"
        )
    return answer


def due(story: TaskStory, tokens: int, checkpoint: int) -> bool:
    """Whether progress up to `tokens` is to be saved."""
    return 0 < story.checkpoint_every_tokens <= tokens - checkpoint
