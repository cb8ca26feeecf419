"""The slot of a task that the control service decides about."""

from typing import Any

import msgspec
from msgspec.structs import asdict

from preempt_exporter.client import ControlClient, ControlRefused, ControlUnavailable
from preempt_exporter.errors import StoreUnavailable, UsageError
from preempt_exporter.gate.answers import Answer
from preempt_exporter.gate.life import TaskKey
from preempt_exporter.gate.request import TaskRequest

PATIENCE_S = 10.0
HEARTBEAT_PATIENCE_S = 2.0
"""A heartbeat that hangs must not keep a signal from the command."""


class ControlledSlot:
    """Asks the service. Raises StoreUnavailable when it does not answer, UsageError when it refuses the request."""

    def __init__(self, url: str, token: str | None, key: TaskKey) -> None:
        """`url` as for `act`. Raises UsageError for what is no address."""
        try:
            self._client = ControlClient(url, token, patience_s=PATIENCE_S)
            self._brief = ControlClient(url, token, patience_s=HEARTBEAT_PATIENCE_S, timeout_s=HEARTBEAT_PATIENCE_S)
        except ValueError as error:
            raise UsageError(f"--control: {error}") from error
        self._url = url
        self._key = key

    def start(self, request: TaskRequest, *, left_behind: bool) -> Answer:
        """The service's decision. A task that runs is declared lost only where this host knows that its attempt died:

        another host may be running it. Of an attempt whose host is gone the service hears no more; `reclaim_lease`
        declares it lost.
        """
        fields = {name: value for name, value in asdict(request).items() if value is not None and value is not False}
        answer = self._ask(self._client, "admit", **fields)
        if answer.outcome == "refused" and answer.reason == "already_running" and left_behind:
            lost = self._ask(self._client, "preempt")
            if lost.drained and not request.new_life:
                return lost
            answer = self._ask(self._client, "admit", **fields)
        return answer

    def beat(self, next_within_ms: int) -> Answer:
        """Tells the service."""
        return self._ask(self._brief, "heartbeat", next_within_ms=next_within_ms)

    def preempt(self) -> Answer:
        """Tells the service."""
        return self._ask(self._client, "preempt")

    def complete(self) -> Answer:
        """Tells the service."""
        return self._ask(self._client, "complete")

    def drain(self) -> Answer:
        """Tells the service."""
        return self._ask(self._client, "drain")

    def _ask(self, client: ControlClient, operation: str, **fields: Any) -> Answer:
        run, task_id = self._key
        if run is not None:
            fields["run"] = run
        try:
            return msgspec.convert(client.task(task_id, operation, **fields), Answer)
        except (ControlUnavailable, msgspec.ValidationError) as error:
            raise StoreUnavailable(f"{self._url}: {error}; does 'control' run there?") from error
        except ControlRefused as error:
            raise UsageError(f"--control {self._url}: {error}") from error
