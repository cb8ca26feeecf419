"""The spend service over the network: what a `WorkerLease` asks is asked of the control service."""

import msgspec

from preempt_exporter.client import ControlClient, ControlRefused, ControlUnavailable
from preempt_exporter.errors import StoreUnavailable, UsageError
from preempt_exporter.spend.requests import Request
from preempt_exporter.spend.rows import Outcome


class SpendOverHttp:
    """Carries requests out through a client; the worker's side of a service that may go away."""

    def __init__(self, client: ControlClient) -> None:
        """How long to wait for an answer is the client's patience: keep it well below the lease."""
        self._client = client

    def apply(self, request: Request) -> Outcome:
        """Carry out one request. Raises `StoreUnavailable` while nobody answers, `UsageError` for a wrong one."""
        fields = msgspec.to_builtins(request)
        op, run, shard = fields.pop("op"), fields.pop("run"), fields.pop("shard")
        try:
            answer = self._client.shard(run, shard, op, **{k: v for k, v in fields.items() if v is not None})
        except ControlUnavailable as error:
            raise StoreUnavailable(f"control service: {error}; dispatch nothing until it is back") from error
        except ControlRefused as error:
            raise UsageError(str(error)) from error
        return msgspec.convert(answer, Outcome)
