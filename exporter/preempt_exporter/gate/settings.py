"""What an operator sets of a gate."""

from collections.abc import Container

from msgspec import Struct, field

from preempt_exporter.decide.admission import AdmissionMode
from preempt_exporter.settings import TaskDefaults, Thresholds


class GateSettings(Struct, frozen=True, kw_only=True):
    """Thresholds, defaults and names of one gate."""

    thresholds: Thresholds = Thresholds()
    defaults: TaskDefaults = TaskDefaults()
    """Limits of tasks that bring none; they are written on the lines, so that those who watch know them too."""
    initial_mode: AdmissionMode = "normal"
    """Holds until the switch file says another (`ADMIT_MODE`)."""
    lane_default: str = "default"
    silent_after_ms: int | None = None
    """Silence that counts as lost where a worker made no promise; None: such a worker is never declared lost."""
    prefill_tokens_per_s: dict[str, float] = field(default_factory=dict)
    """Measured prefill rate by lane."""
    owner: str = "gate"
    """First word of the ids of its lines, and so the owner of the tasks it enqueues; holds no `-`."""
    adopts: Container[str] = frozenset({"gate"})
    """Whose tasks it decides about."""
