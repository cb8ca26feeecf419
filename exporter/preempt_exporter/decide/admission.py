"""Whether a task may start (again): evidence and thresholds in, verdict and reason out, the same way every time.

The checks run in one fixed order and the first that holds decides. A limit that is unknown (None) skips its check.
Boundaries are exact: a threshold such as 0.2 stands for its decimal text, one fifth, and not for the nearest binary
number, and comparisons are made in whole numbers, so `0.2 x 1000` is 200 and 200 does not exceed it.

How often a task may start: a task is admitted for its n-th start only while it was preempted fewer than
`max_preempts` times, and every start after the first is bought by one preemption. So there are never more than
`max_preempts` starts in a life: with the default of 2 a third full replay never begins, the task fails instead.
"""

from fractions import Fraction
from functools import lru_cache
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from preempt_exporter.ledger.records import RejectReason
from preempt_exporter.settings import Thresholds

AdmissionMode = Literal["normal", "reject_preempt_budget"]
VerdictName = Literal[
    "admit",
    "reject_preempt_budget",
    "reject_drain_mode",
    "reject_slack_zero",
    "reject_queue_age",
    "reject_restart_tokens",
    "reject_restart_cannot_finish",
]


class TaskEvidence(Struct, frozen=True, kw_only=True, gc=False):
    """All that the policy knows of a task. GPU utilization is not among it and has no way in."""

    queue_age_ms: int
    """Now less the moment of enqueue; 0 and above."""
    deadline_ms: int | None = None
    """Duration from enqueue to the deadline; None: unknown."""
    restart_tokens: int = 0
    """Tokens that this life must burn again because of its preemptions so far."""
    preempts: int = 0
    """Preemptions of this life so far."""
    task_budget: int | None = None
    """Tokens the task may use; None: unknown."""
    restart_cost_ms: int | None = None
    """Time to finish if the slot were lost now (`restart_cost.restart_cost_ms`); None: unknown."""
    lane_draining: bool = False
    """The lane's action forbids this task's next start (`lane_action.forbids_start`)."""
    mode: AdmissionMode = "normal"
    """`reject_preempt_budget` refuses every task."""

    @property
    def deadline_slack_ms(self) -> int | None:
        """Deadline less queue age: negative once missed, None while the deadline is unknown."""
        return None if self.deadline_ms is None else self.deadline_ms - self.queue_age_ms


class Verdict(Struct, frozen=True, gc=False):
    """The policy's answer; `reason` is the ledger's word for a rejection and None for `admit`."""

    verdict: VerdictName
    reason: RejectReason | None

    @property
    def admitted(self) -> bool:
        """Whether the task may start."""
        return self.reason is None


ADMIT = Verdict("admit", None)
REJECT_PREEMPT_BUDGET = Verdict("reject_preempt_budget", "preempt_budget")
REJECT_DRAIN_MODE = Verdict("reject_drain_mode", "drain_mode")
REJECT_SLACK_ZERO = Verdict("reject_slack_zero", "slack_zero")
REJECT_QUEUE_AGE = Verdict("reject_queue_age", "queue_age")
REJECT_RESTART_TOKENS = Verdict("reject_restart_tokens", "restart_tokens")
REJECT_RESTART_CANNOT_FINISH = Verdict("reject_restart_cannot_finish", "restart_cannot_finish")


def admission_verdict(task: TaskEvidence, thresholds: Thresholds) -> Verdict:
    """Admit or reject: forced mode, draining lane, slack, queue age, preemptions, restart tokens, restart cost."""
    if task.mode != "normal":
        return REJECT_PREEMPT_BUDGET
    if task.lane_draining:
        return REJECT_DRAIN_MODE
    if slack_is_gone(task):
        return REJECT_SLACK_ZERO
    if queue_age_is_over(task, thresholds):
        return REJECT_QUEUE_AGE
    if preempts_are_used_up(task, thresholds):
        return REJECT_PREEMPT_BUDGET
    if restart_tokens_are_over(task, thresholds):
        return REJECT_RESTART_TOKENS
    if thresholds.restart_must_fit and restart_cannot_finish(task):
        return REJECT_RESTART_CANNOT_FINISH
    return ADMIT


def slack_is_gone(task: TaskEvidence) -> bool:
    """Slack <= 0; False while the deadline is unknown."""
    return task.deadline_ms is not None and task.queue_age_ms >= task.deadline_ms


def queue_age_is_over(task: TaskEvidence, thresholds: Thresholds) -> bool:
    """Queue age > `queue_age_frac` x deadline; False while the deadline is unknown."""
    return exceeds_fraction(task.queue_age_ms, thresholds.queue_age_frac, task.deadline_ms)


def preempts_are_used_up(task: TaskEvidence, thresholds: Thresholds) -> bool:
    """Preemptions >= `max_preempts`."""
    return task.preempts >= thresholds.max_preempts


def restart_tokens_are_over(task: TaskEvidence, thresholds: Thresholds) -> bool:
    """Restart tokens > `restart_frac` x budget; False while the budget is unknown."""
    return exceeds_fraction(task.restart_tokens, thresholds.restart_frac, task.task_budget)


def restart_cannot_finish(task: TaskEvidence) -> bool:
    """Restart cost > slack; False while either is unknown."""
    slack_ms = task.deadline_slack_ms
    return slack_ms is not None and task.restart_cost_ms is not None and task.restart_cost_ms > slack_ms


def fits_one_more_preemption(task: TaskEvidence, thresholds: Thresholds, *, lost_tokens: int | None) -> bool | None:
    """Whether the task could lose its slot now and still be admitted again and finish in time.

    True if slack >= restart cost and the policy would admit the task after that preemption: with one preemption more
    and `lost_tokens` (`restart_cost.lost_tokens`: prompt + output - checkpoint) more restart tokens. None while the
    slack, the restart cost or `lost_tokens` is unknown.
    """
    slack_ms = task.deadline_slack_ms
    if slack_ms is None or task.restart_cost_ms is None or lost_tokens is None:
        return None
    if task.restart_cost_ms > slack_ms:
        return False
    after = replace(task, preempts=task.preempts + 1, restart_tokens=task.restart_tokens + lost_tokens)
    return admission_verdict(after, thresholds).admitted


def exceeds_fraction(value: int, fraction: float, whole: int | None) -> bool:
    """Whether `value` > `fraction` x `whole`, exactly, taking `fraction` as its shortest decimal text.

    False while `whole` is unknown.
    """
    if whole is None:
        return False
    numerator, denominator = exact_ratio(fraction)
    return value * denominator > numerator * whole


@lru_cache(maxsize=256)
def exact_ratio(fraction: float) -> tuple[int, int]:
    """Numerator and denominator of `fraction` taken as its shortest decimal text: 0.2 is (1, 5)."""
    return Fraction(repr(float(fraction))).as_integer_ratio()
