"""A worker across a network: does what standard input says and prints what came of it, one line each.

`python -m tests.control.leasing_worker URL LEASE_MS PATIENCE_S`; lines are `grant SHARD`, `may_write`,
`wait_until_stopped`, `renew`, `commit`, `admit TASK`.
"""

import sys
import threading

from preempt_exporter.client import ControlClient, ControlUnavailable
from preempt_exporter.clock import SystemClock
from preempt_exporter.errors import StoreUnavailable
from preempt_exporter.spend.over_http import SpendOverHttp
from preempt_exporter.spend.requests import GrantRequest
from preempt_exporter.spend.worker import WorkerLease

TOKEN = "the-token-of-the-test"


class LeasingWorker:
    """Holds one lease at a time."""

    def __init__(self, url: str, lease_ms: int, patience_s: float) -> None:
        self._client = ControlClient(url, TOKEN, patience_s=patience_s, timeout_s=patience_s / 2)
        self._spend = SpendOverHttp(self._client)
        self._lease_ms = lease_ms
        self._clock = SystemClock()
        self._lease: WorkerLease | None = None

    def do(self, words: list[str]) -> str:
        """One line of input; what came of it in one word."""
        try:
            return self._do(words)
        except (StoreUnavailable, ControlUnavailable):
            return "UNAVAILABLE"

    def _do(self, words: list[str]) -> str:
        match words:
            case ["grant", shard]:
                return self._grant(shard)
            case ["admit", task]:
                return str(self._client.task(task, "admit")["outcome"])
        lease = self._lease
        assert lease is not None
        match words:
            case ["may_write"]:
                return str(lease.may_write())
            case ["wait_until_stopped"]:
                pause = threading.Event()
                while lease.may_write():
                    pause.wait(0.02)
                return "STOPPED"
            case ["renew"]:
                return lease.renew(self._lease_ms).outcome
            case ["commit"]:
                return lease.commit(10, "d").outcome
        raise AssertionError(words)

    def _grant(self, shard: str) -> str:
        asked_at_s = self._clock.monotonic_s()
        request = GrantRequest(run="r", shard=shard, tokens=10, lease_ms=self._lease_ms, input_digest="a")
        granted = self._spend.apply(request)
        if not granted.refused:
            self._lease = WorkerLease(
                self._spend,
                granted,
                lease_ms=self._lease_ms,
                input_digest="a",
                asked_at_s=asked_at_s,
                clock=self._clock,
            )
        return f"{granted.outcome} {granted.epoch}"


if __name__ == "__main__":
    worker = LeasingWorker(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
    for line in sys.stdin:
        print(worker.do(line.split()), flush=True)
