"""What a spend store keeps, as records, and what a decision reads and changes of it."""

from enum import StrEnum

from msgspec import Struct

from preempt_exporter.ledger.records import SpendEvent
from preempt_exporter.spend.parts import ShardName, read_shard_name


class RunPhase(StrEnum):
    """Whether a run takes reservations."""

    UNOPENED = "unopened"
    OPEN = "open"
    CLOSED = "closed"


class EpochState(StrEnum):
    """Where an epoch of a shard is; every end is final, but an accepted artifact may be compensated."""

    RESERVED = "reserved"
    COMMITTED = "committed"
    COMPENSATED = "compensated"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"
    LEASE_EXPIRED = "lease_expired"


class RunRow(Struct, frozen=True, kw_only=True):
    """One run with its running totals, kept in the same transaction as what they sum."""

    run: str
    phase: RunPhase = RunPhase.UNOPENED
    stopped: bool = False
    budget_tokens: int | None = None
    """None: no ceiling."""
    cases_per_shard: int | None = None
    charge_burned: bool = False
    """Whether burnt tokens count against the budget."""
    committed_tokens: int = 0
    reserved_tokens: int = 0
    burned_tokens: int = 0
    """Tokens that lost epochs had used by their newest checkpoints, as the workers told."""
    charged_burned_tokens: int = 0
    """The same, each no more than its reservation: what the budget can have been promised."""
    version: int = 0
    """Grows with every change of the accepted set; a reducer reads it before and after."""


class EpochRow(Struct, frozen=True, kw_only=True):
    """One epoch of one shard."""

    run: str
    shard: str
    epoch: int
    state: EpochState
    tokens: int
    """What was reserved; once committed, what was billed."""
    lease_expires_ms: int
    input_digest: str
    host: str | None = None
    checkpoint_tokens: int | None = None
    """Of its newest checkpoint: burnt if the epoch is lost."""
    artifact_digest: str | None = None

    @property
    def name(self) -> ShardName:
        """The shard's name, taken apart."""
        return read_shard_name(self.shard)

    def has_expired(self, now_ms: int) -> bool:
        """Whether its lease ended by time, reclaimed or not; cancelled or committed stays so."""
        if self.state is EpochState.LEASE_EXPIRED:
            return True
        return self.state is EpochState.RESERVED and now_ms >= self.lease_expires_ms


class CheckpointRow(Struct, frozen=True, kw_only=True):
    """One checkpoint of a shard; `sequence` counts the shard's checkpoints."""

    sequence: int
    epoch: int
    index: int
    tokens: int
    input_digest: str
    payload_digest: str | None = None


class ShardView(Struct, frozen=True, kw_only=True):
    """What is loaded to judge one request."""

    run: RunRow
    target: EpochRow | None
    """The epoch that the request names."""
    highest: EpochRow | None
    """The newest epoch of the shard."""
    blocking: tuple[EpochRow, ...] = ()
    """Reserved and accepted epochs of the shard and of its other parts; for `grant`, `reserve` and `commit`."""
    expired: tuple[EpochRow, ...] = ()
    """The run's reservations whose lease is over; for `grant` and `reserve`."""
    checkpoints: tuple[CheckpointRow, ...] = ()
    """The shard's, newest first; for `checkpoint` and `resume`."""


class Outside(Struct, frozen=True, kw_only=True):
    """What the store cannot know and the service found out before it asked."""

    run_stopped: bool = False
    """The switch file says so."""
    artifact_present: bool = True
    """False: a configured artifact store lacks the artifact."""
    torn_checkpoints: frozenset[int] = frozenset()
    """Sequence numbers of checkpoints whose saved state is missing or damaged."""


class Outcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to a request: a value, never an exception."""

    op: str
    run: str
    shard: str
    outcome: str
    """`GRANTED`, `COMMITTED`, … or a refusal reason."""
    refused: bool = False
    epoch: int | None = None
    tokens: int | None = None
    lease_expires_ms: int | None = None
    index: int | None = None
    """Where to go on, for `RESUME` and `RESTART`."""
    host: str | None = None
    """Who asked; for a refusal without that, who was granted the epoch."""
    holder_epoch: int | None = None
    """For a refusal: the shard's newest epoch."""
    holder_host: str | None = None
    """For a refusal: the host that it was granted to."""
    shard_accepted: bool = False
    """For `COMMITTED`: the whole shard is accepted now."""

    def __str__(self) -> str:
        """Say it in one line, with the host."""
        epoch = "" if self.epoch is None else f" epoch {self.epoch}"
        asker = f" asked by {self.host}" if self.host else ""
        text = f"{self.op} of run {self.run} shard {self.shard}{epoch}{asker}: {self.outcome}"
        if self.refused and self.holder_epoch is not None:
            text += f" (newest epoch {self.holder_epoch}{f' on {self.holder_host}' if self.holder_host else ''})"
        return text


class Decision(Struct, frozen=True, kw_only=True):
    """An outcome with everything that has to be stored together with it."""

    outcome: Outcome
    run: RunRow
    lines: tuple[SpendEvent, ...]
    epochs: tuple[EpochRow, ...] = ()
    checkpoint: CheckpointRow | None = None
    discards_checkpoints: bool = False


class AcceptedArtifact(Struct, frozen=True, kw_only=True):
    """An artifact that counts."""

    shard: str
    epoch: int
    artifact_digest: str
    tokens: int


class RunSummary(Struct, frozen=True, kw_only=True):
    """A run at one instant."""

    run: RunRow
    leases_open: int
    leases_overdue: int
    """Expired and not yet reclaimed; among `leases_open`."""
    accepted: tuple[AcceptedArtifact, ...]
    """By shard; parts under their own names."""
    accepted_shards: tuple[str, ...]
    """Whole shards: accepted as one, or by parts that cover every case."""
