"""What a driver or a worker may ask of the spend store, one record per operation.

Tokens and epochs are counts; `lease_ms` is a duration on the store's clock, in milliseconds; `host` says who asks and
comes back in a refusal. JSON objects of `drill fence` and of the control service become requests by `request_from`.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from preempt_exporter.errors import UsageError
from preempt_exporter.ledger.records import MAX_ID_BYTES, Count, Host
from preempt_exporter.spend.parts import read_shard_name

MAX_TEXT_BYTES = 1024
"""Longest digest or reason: a ledger line has room for it many times over."""

Digest = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT_BYTES)]
Text = Annotated[str, Meta(max_length=MAX_TEXT_BYTES)]


class _Request(Struct, frozen=True, kw_only=True, tag_field="op"):
    """One (run, shard), and who asks."""

    run: str
    shard: str
    host: Host | None = None

    def __post_init__(self) -> None:
        check_name("run", self.run)
        check_name("shard", self.shard)
        read_shard_name(self.shard)


class GrantRequest(_Request, frozen=True, kw_only=True, tag="grant"):
    """The next epoch of the shard: the driver's to ask for, never the worker's."""

    tokens: Count
    lease_ms: Count
    input_digest: Digest


class ReserveRequest(_Request, frozen=True, kw_only=True, tag="reserve"):
    """A reservation for an epoch that the driver numbered itself."""

    epoch: Count
    tokens: Count
    lease_ms: Count
    input_digest: Digest


class RenewRequest(_Request, frozen=True, kw_only=True, tag="renew"):
    """Let the lease end `lease_ms` from now."""

    epoch: Count
    lease_ms: Count


class CheckpointRequest(_Request, frozen=True, kw_only=True, tag="checkpoint"):
    """Progress up to case `index`, having used `tokens`; `payload_digest` names the saved state, where there is one."""

    epoch: Count
    index: Count
    tokens: Count
    input_digest: Digest
    payload_digest: Digest | None = None


class ResumeRequest(_Request, frozen=True, kw_only=True, tag="resume"):
    """Where to go on."""

    epoch: Count
    input_digest: Digest


class CommitRequest(_Request, frozen=True, kw_only=True, tag="commit"):
    """Accept the artifact and bill `tokens`: what was reserved, or with `at_most` no more than that."""

    epoch: Count
    tokens: Count
    artifact_digest: Text | None = None
    settle: Literal["exact", "at_most"] = "exact"


class ReleaseRequest(_Request, frozen=True, kw_only=True, tag="release"):
    """Give the reservation back unspent."""

    epoch: Count


class CompensateRequest(_Request, frozen=True, kw_only=True, tag="compensate"):
    """Take back an accepted artifact."""

    epoch: Count
    artifact_digest: Digest
    reason: Text = ""


Request = (
    GrantRequest
    | ReserveRequest
    | RenewRequest
    | CheckpointRequest
    | ResumeRequest
    | CommitRequest
    | ReleaseRequest
    | CompensateRequest
)


def request_from(op: str, run: str, shard: object, fields: Mapping[str, Any]) -> Request:
    """Make a request of a JSON object's fields; an integer `shard` is read as its decimal string.

    Raises `UsageError` naming the field that is missing, of the wrong type or out of range.
    """
    if isinstance(shard, int) and not isinstance(shard, bool):
        shard = str(shard)
    try:
        request: Request = msgspec.convert({**fields, "op": op, "run": run, "shard": shard}, Request)
    except msgspec.ValidationError as error:
        raise UsageError(f"{op}: {error}") from None
    return request


def check_name(what: str, name: str) -> None:
    """Raise `UsageError` unless `name` is 1 to 256 bytes of UTF-8 that every store can keep (no NUL)."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise UsageError(f"{what} {name!r} is not valid Unicode") from None
    if not 0 < size <= MAX_ID_BYTES or "\0" in name:
        raise UsageError(f"{what} {name[:40]!r}: give 1 to {MAX_ID_BYTES} bytes without NUL")
