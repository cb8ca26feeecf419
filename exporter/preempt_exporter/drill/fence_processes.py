"""`drill fence --processes N`: real processes on a real store: `kill -9`, SIGSTOP past the lease, SIGCONT.

Workers only talk to the store; their lines wait in its outbox, from where the driver appends them. A thread per
process slot looks after one shard at a time. Time is the store's own.
"""

import random
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack

from preempt_exporter.clock import Clock
from preempt_exporter.drill.fence import numbered
from preempt_exporter.drill.fence_report import FenceReport, FenceTerms, report_on
from preempt_exporter.drill.fence_worker import Assignment, Fate, RunningWorker
from preempt_exporter.ledger.records import Record
from preempt_exporter.spend.requests import GrantRequest, Request
from preempt_exporter.spend.rows import Outcome
from preempt_exporter.spend.run_changes import CloseRun, OpenRun
from preempt_exporter.spend.service import SpendService

SHORT_LEASE_MS = 200
LONG_LEASE_MS = 10_000
PATIENCE_S = 30.0
"""How long anything that must happen may take before the drill is called failed."""
POLL_S = 0.01
LONGEST_LIFE_S = 0.02
"""A worker that will be killed lives up to so long after it reported for work."""
INPUT_DIGEST = "sha256:input"


class FenceProcesses:
    """One drill with real processes: call `play` once."""

    def __init__(
        self,
        terms: FenceTerms,
        service: SpendService,
        clock: Clock,
        *,
        store_url: str,
        ledger: str,
        run: str,
        randomness: random.Random,
        on_preemption: Callable[[int], None] = lambda count: None,
    ) -> None:
        """`store_url` and `ledger` are what `service` was opened with; `clock` times the workers' handles."""
        self._terms = terms
        self._service = service
        self._clock = clock
        self._store_url = store_url
        self._ledger = ledger
        self._run = run
        self._randomness = randomness
        self._on_preemption = on_preemption
        self._counting = threading.Lock()
        self._preemptions = 0
        self._held = True
        self._called_off = threading.Event()

    def play(self, lines: list[Record], processes: int) -> FenceReport:
        """Run up to `processes` workers at a time; `lines` is where the service's sink collects.

        An interrupt, or an exception in one slot, calls the other slots off: each ends with the worker that it has.
        """
        terms = self._terms
        self._service.change_run(OpenRun(run=self._run, budget_tokens=terms.budget_tokens, cases_per_shard=terms.cases))
        with ThreadPoolExecutor(processes) as slots:
            done = [
                slots.submit(self._look_after, shard, share)
                for shard, share in zip(terms.shard_names, _shares(terms.preemptions, terms.shards), strict=True)
            ]
            try:
                for each in as_completed(done):
                    each.result()
            except BaseException:
                self._called_off.set()
                slots.shutdown(wait=False, cancel_futures=True)
                raise
        self._service.reclaim_expired(self._run)
        self._service.change_run(CloseRun(run=self._run))
        summary = self._service.run_summary(self._run)
        return report_on(terms, summary, lines, preemptions=self._preemptions, held=self._held)

    def _look_after(self, shard: str, preemptions: int) -> None:
        """Dispatch one shard until it is accepted, and take its slot back `preemptions` times."""
        with ExitStack() as started:
            asleep: list[RunningWorker] = []
            fate = self._fate(preemptions)
            attempt = self._obtain(shard, None, fate)
            while attempt is not None and not self._called_off.is_set():
                worker = started.enter_context(RunningWorker(attempt))
                if fate is Fate.FINISHES:
                    worker.ended(PATIENCE_S)
                    worker.end()
                else:
                    preemptions -= 1
                    if self._take_the_slot(worker, fate):
                        asleep.append(worker)
                fate = self._fate(preemptions)
                accepted = self._service.shard_accepted(self._run, shard)
                attempt = None if accepted else self._obtain(shard, attempt.granted, fate)
                if attempt is None or self._randomness.random() < 0.5:
                    for zombie in asleep:
                        self._resurrect(zombie)
                    asleep.clear()

    def _fate(self, preemptions: int) -> Fate:
        if preemptions == 0:
            return Fate.FINISHES
        return Fate.IS_STOPPED if self._randomness.random() < 0.3 else Fate.IS_KILLED

    def _obtain(self, shard: str, last: Outcome | None, fate: Fate) -> Assignment | None:
        """The shard's next epoch; None when the budget does not hold it or it cannot be had in time.

        A driver that knows that a worker is dead numbers the next epoch itself; one that does not waits for the lease.
        """
        grant = GrantRequest(
            run=self._run,
            shard=shard,
            tokens=self._terms.shard_tokens,
            lease_ms=_lease_ms(fate),
            input_digest=INPUT_DIGEST,
            host="driver",
        )
        request: Request = grant
        if last is not None and last.epoch is not None and self._randomness.random() < 0.5:
            request = numbered(grant, last.epoch + 1)
        give_up_at_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < give_up_at_s and not self._called_off.is_set():
            asked_at_s = self._clock.monotonic_s()
            granted = self._service.apply(request)
            if not granted.refused:
                return self._assignment(granted, asked_at_s, fate)
            reserved_tokens = self._service.run_summary(self._run).run.reserved_tokens
            if granted.outcome == "OVER_BUDGET" and reserved_tokens == 0:
                return None
            self._called_off.wait(POLL_S)
        self._held = False
        return None

    def _assignment(self, granted: Outcome, asked_at_s: float, fate: Fate) -> Assignment:
        return Assignment(
            store_url=self._store_url,
            ledger=self._ledger,
            granted=granted,
            lease_ms=_lease_ms(fate),
            input_digest=INPUT_DIGEST,
            asked_at_s=asked_at_s,
            cases=self._terms.cases,
            tokens_per_case=self._terms.tokens_per_case,
            fate=fate,
        )

    def _take_the_slot(self, worker: RunningWorker, fate: Fate) -> bool:
        """Preempt the worker; whether it only sleeps."""
        sleeps = fate is Fate.IS_STOPPED and worker.heard(PATIENCE_S) == "ready"
        if sleeps:
            worker.signal(signal.SIGSTOP)
        else:
            worker.heard(self._randomness.uniform(0, LONGEST_LIFE_S))
            worker.end()
        with self._counting:
            self._preemptions += 1
            self._on_preemption(self._preemptions)
        return sleeps

    def _resurrect(self, zombie: RunningWorker) -> None:
        """It goes on as if nothing had happened, and commits: a commit that is taken breaks the drill."""
        zombie.say("go")
        zombie.signal(signal.SIGCONT)
        if zombie.heard(PATIENCE_S) == "COMMITTED":
            self._held = False
        zombie.ended(PATIENCE_S)
        zombie.end()


def _lease_ms(fate: Fate) -> int:
    return LONG_LEASE_MS if fate is Fate.FINISHES else SHORT_LEASE_MS


def _shares(preemptions: int, shards: int) -> list[int]:
    return [preemptions * (number + 1) // shards - preemptions * number // shards for number in range(shards)]
