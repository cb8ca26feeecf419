"""All that one control service acts with, on one ledger: opened together, closed together."""

import fcntl
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from preempt_exporter.clock import Clock
from preempt_exporter.control.actions import Actions
from preempt_exporter.control.once import MarkedSink, RequestsOnce
from preempt_exporter.decide.routing import RoutingDecision
from preempt_exporter.errors import UnreadableInput, UsageError
from preempt_exporter.gate.gate import Gate
from preempt_exporter.gate.settings import GateSettings
from preempt_exporter.gate.switches import SwitchFile
from preempt_exporter.ledger.sink import LedgerSink
from preempt_exporter.ledger.torn_line import end_torn_line
from preempt_exporter.ledger.writer import LedgerWriter
from preempt_exporter.router.job_request import JobRequest
from preempt_exporter.spend.artifacts import ArtifactFolder
from preempt_exporter.spend.open_store import open_store
from preempt_exporter.spend.service import SpendService


class Routing(Protocol):
    """A router that knows the ledger."""

    def route(self, job: JobRequest, lane_actions: Mapping[str, str]) -> RoutingDecision:
        """Where the job goes now."""
        ...


class EveryoneBut(Struct, frozen=True):
    """Owners of tasks, all but one."""

    owner: str | None

    def __contains__(self, owner: object) -> bool:
        """Whether tasks of `owner` are meant."""
        return owner != self.owner


class Desk:
    """Gate, spend service and actions of one ledger. One process at a time: the gate's memory is the service's."""

    def __init__(
        self,
        ledger: Path,
        clock: Clock,
        *,
        gate_settings: GateSettings,
        store_url: str | None = None,
        artifacts: Path | None = None,
        routing: Routing | None = None,
        store_clock: Clock | None = None,
    ) -> None:
        """Open everything; what a crash left behind is read back. `store_clock` judges leases in tests.

        Raises `UsageError` while another service runs on the ledger, `UnreadableInput`, `StoreUnavailable`.
        """
        self.ledger = ledger
        self.clock = clock
        self.routing = routing
        self._lock = lock_service(ledger)
        end_torn_line(ledger)
        self.writer = LedgerWriter(ledger)
        self.once = RequestsOnce(beside(ledger, "requests"), ledger, clock, append_pending=self._append_pending)
        self.sink: LedgerSink = MarkedSink(self.writer, self.once)
        self.switch_file = SwitchFile(ledger)
        self._gate_settings = gate_settings
        self.initial_mode = gate_settings.initial_mode
        self.gate = Gate(
            ledger,
            self.sink,
            clock,
            settings=gate_settings,
            instance=secrets.token_hex(8),
            snapshot_path=beside(ledger, "gate"),
        )
        self._store = open_store(
            store_url or default_store_url(ledger),
            ledger=str(ledger),
            clock=store_clock,
            line_id=self.once.spend_line_id,
        )
        self.spend = SpendService(
            self._store,
            self.writer,
            artifacts=ArtifactFolder(artifacts) if artifacts is not None else None,
            run_is_stopped=lambda run: run in self.switch_file.read().stopped_runs,
        )
        self.actions = Actions(
            self.switch_file,
            self.sink,
            clock,
            gates=lambda: [self.gate, *self._gate_of_others()],
            spend=self.spend,
            in_flight=self.gate.in_flight,
        )

    def close(self) -> None:
        """Put the gate's snapshot down and let go of everything."""
        try:
            self.gate.write_snapshot()
        except (OSError, UnreadableInput):
            pass  # the ledger has everything; the next start takes longer
        finally:
            self._store.close()
            self.once.close()
            self.writer.close()
            os.close(self._lock)

    def _append_pending(self) -> bool:
        return self.spend.append_pending()

    def _gate_of_others(self) -> Sequence[Gate]:
        return [
            gate_over(self.ledger, self.sink, self.clock, self._gate_settings, EveryoneBut(self._gate_settings.owner))
        ]


def gate_over(ledger: Path, sink: LedgerSink, clock: Clock, settings: GateSettings, adopts: EveryoneBut) -> Gate:
    """A gate for a moment, over tasks that others enqueued. Reads the whole ledger."""
    lent = replace(settings, owner="act", adopts=adopts)
    return Gate(ledger, sink, clock, settings=lent, instance=secrets.token_hex(8))


def beside(ledger: Path, what: str) -> Path:
    """The file of the service that lies beside the ledger under this name."""
    return ledger.with_name(f"{ledger.name}.{what}")


def default_store_url(ledger: Path) -> str:
    """The spend store that the service keeps unless told otherwise."""
    return f"sqlite:///{beside(ledger, 'spend.db')}"


def lock_service(ledger: Path) -> int:
    """Take the place of the ledger's only service; the descriptor that holds it. Raises `UsageError`."""
    path = beside(ledger, "control.lock")
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise UnreadableInput(str(path), error) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise UsageError(
            f"a control service runs on {ledger} already: ask it (--control URL), or stop it first"
        ) from None
    return lock
