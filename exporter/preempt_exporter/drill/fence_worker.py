"""A real worker process of `drill fence --processes`: it opens the store itself and may be killed at any moment."""

import multiprocessing
import os
import signal
from contextlib import closing, suppress
from enum import StrEnum
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

from msgspec import Struct

from preempt_exporter.clock import SystemClock
from preempt_exporter.errors import StoreUnavailable
from preempt_exporter.spend.open_store import open_store
from preempt_exporter.spend.rows import Outcome
from preempt_exporter.spend.worker import WorkerLease

CASES_PER_CHECKPOINT = 10


class Fate(StrEnum):
    """What the host has in mind for a worker."""

    FINISHES = "finishes"
    IS_KILLED = "is_killed"
    """By SIGKILL, at whatever it is doing."""
    IS_STOPPED = "is_stopped"
    """By SIGSTOP until its lease is over and another epoch has the shard."""


class Assignment(Struct, frozen=True, kw_only=True):
    """What a worker process is started with."""

    store_url: str
    ledger: str
    granted: Outcome
    lease_ms: int
    input_digest: str
    asked_at_s: float
    cases: int
    tokens_per_case: int
    fate: Fate


class RunningWorker:
    """A worker process as its driver holds it. Leaving the `with` ends it, whatever state it is in."""

    def __init__(self, assignment: Assignment) -> None:
        """Start it. Not by fork: a process must not inherit an open SQLite connection."""
        processes = multiprocessing.get_context("forkserver")
        processes.set_forkserver_preload([__name__])
        self._pipe, theirs = processes.Pipe()
        self._process = processes.Process(target=work, args=(assignment, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def heard(self, patience_s: float) -> str | None:
        """What the worker says within `patience_s`; None where it says nothing or is gone."""
        with suppress(EOFError, ConnectionError):
            if self._pipe.poll(patience_s):
                return str(self._pipe.recv())
        return None

    def say(self, word: str) -> None:
        """Tell the worker something."""
        with suppress(ConnectionError):
            self._pipe.send(word)

    def signal(self, number: signal.Signals) -> None:
        """Do to it what the host does."""
        if self._process.pid is not None and self._process.exitcode is None:
            os.kill(self._process.pid, number)

    def ended(self, patience_s: float) -> bool:
        """Whether it ends within `patience_s`."""
        self._process.join(patience_s)
        return self._process.exitcode is not None

    def end(self) -> None:
        """End it, whatever state it is in: SIGKILL also ends what is stopped. Nothing is asked of it after that."""
        if not self._pipe.closed:
            self.signal(signal.SIGKILL)
            self._process.join()
            self._process.close()
            self._pipe.close()

    def __enter__(self) -> Self:
        """The running worker."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        self.end()


def work(assignment: Assignment, driver: Connection) -> None:
    """The process's main function; `driver` is the other end's pipe.

    A worker whose driver is gone, or whose store does not answer, ends: it may not dispatch anything. An interrupt
    at the terminal reaches the driver as well, which then ends its workers.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError, ConnectionError, StoreUnavailable):
        _work(assignment, driver)


def _work(assignment: Assignment, driver: Connection) -> None:
    clock = SystemClock()
    with closing(open_store(assignment.store_url, ledger=assignment.ledger)) as store:
        lease = WorkerLease(
            store,
            assignment.granted,
            lease_ms=assignment.lease_ms,
            input_digest=assignment.input_digest,
            asked_at_s=assignment.asked_at_s,
            clock=clock,
        )
        index = lease.resume().index or 0
        match assignment.fate:
            case Fate.IS_KILLED:
                while not driver.poll():
                    index = _checkpoint(lease, index % assignment.cases, assignment)
            case Fate.IS_STOPPED:
                _checkpoint(lease, index, assignment)
                driver.send("ready")
                driver.recv()
                # It slept past its lease and does not look at the clock: exactly what the fence is for.
                driver.send(_commit(lease, assignment).outcome)
            case Fate.FINISHES:
                while index < assignment.cases and lease.may_write():
                    index = _checkpoint(lease, index, assignment)
                if lease.may_write():
                    _commit(lease, assignment)


def _checkpoint(lease: WorkerLease, index: int, assignment: Assignment) -> int:
    index = min(index + CASES_PER_CHECKPOINT, assignment.cases)
    lease.checkpoint(index, index * assignment.tokens_per_case)
    return index


def _commit(lease: WorkerLease, assignment: Assignment) -> Outcome:
    tokens = assignment.cases * assignment.tokens_per_case
    return lease.commit(tokens, f"sha256:{lease.shard}-{lease.epoch}")
