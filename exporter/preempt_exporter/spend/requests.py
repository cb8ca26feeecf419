"""What a driver or a worker may ask of the spend store, one record per operation.

Tokens and epochs are counts; `lease_ms` is a duration on the store's clock, in milliseconds; `host` says who asks and
comes back in a refusal. JSON objects of `drill fence` and of the control service become requests by `request_from`.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from preempt_exporter.errors import UsageError
from preempt_exporter.ledger.records import MAX_EXACT_INTEGER, MAX_ID_BYTES, Count, Host
from preempt_exporter.spend.parts import read_shard_name

MAX_TEXT_BYTES = 1024
"""Longest digest or reason: a ledger line has room for it many times over."""

_NAMES = frozenset({"run", "shard", "host"})

Epoch = Annotated[int, Meta(ge=0, le=MAX_EXACT_INTEGER // 2)]
"""Half of what a ledger line can say: there is always a next epoch to grant."""
Digest = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT_BYTES)]
Text = Annotated[str, Meta(max_length=MAX_TEXT_BYTES)]


class _Request(Struct, frozen=True, kw_only=True, tag_field="op"):
    """One (run, shard), and who asks."""

    run: str
    shard: str
    host: Host | None = None

    def __post_init__(self) -> None:
        check_texts(self)
        read_shard_name(self.shard)


class GrantRequest(_Request, frozen=True, kw_only=True, tag="grant"):
    """The next epoch of the shard: the driver's to ask for, never the worker's."""

    tokens: Count
    lease_ms: Count
    input_digest: Digest


class ReserveRequest(_Request, frozen=True, kw_only=True, tag="reserve"):
    """A reservation for an epoch that the driver numbered itself."""

    epoch: Epoch
    tokens: Count
    lease_ms: Count
    input_digest: Digest


class RenewRequest(_Request, frozen=True, kw_only=True, tag="renew"):
    """Let the lease end `lease_ms` from now."""

    epoch: Epoch
    lease_ms: Count


class CheckpointRequest(_Request, frozen=True, kw_only=True, tag="checkpoint"):
    """Progress up to case `index`, having used `tokens`; `payload_digest` names the saved state, where there is one."""

    epoch: Epoch
    index: Count
    tokens: Count
    input_digest: Digest
    payload_digest: Digest | None = None


class ResumeRequest(_Request, frozen=True, kw_only=True, tag="resume"):
    """Where to go on."""

    epoch: Epoch
    input_digest: Digest


class CommitRequest(_Request, frozen=True, kw_only=True, tag="commit"):
    """Accept the artifact and bill `tokens`: what was reserved, or with `at_most` no more than that."""

    epoch: Epoch
    tokens: Count
    artifact_digest: Text | None = None
    settle: Literal["exact", "at_most"] = "exact"


class ReleaseRequest(_Request, frozen=True, kw_only=True, tag="release"):
    """Give the reservation back unspent."""

    epoch: Epoch


class CompensateRequest(_Request, frozen=True, kw_only=True, tag="compensate"):
    """Take back an accepted artifact."""

    epoch: Epoch
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


def check_texts(record: Struct) -> None:
    """Raise `UsageError` unless every text of `record` is UTF-8 that each store and each ledger reader takes.

    No NUL, no lone surrogate; `run` and `shard` are 1 to 256 bytes, `host` at most 256, any other text 1024.
    """
    for field in record.__struct_fields__:
        text = getattr(record, field)
        if not isinstance(text, str):
            continue
        limit = MAX_ID_BYTES if field in _NAMES else MAX_TEXT_BYTES
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            raise UsageError(f"{field} {text[:40]!r} is not valid Unicode") from None
        if size > limit or "\0" in text or (not text and field in _NAMES):
            raise UsageError(f"{field} {text[:40]!r}: give 1 to {limit} bytes without NUL")
