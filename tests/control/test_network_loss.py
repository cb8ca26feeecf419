"""The network goes away between worker and service: a namespace with its link taken down."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from preempt_exporter.control.doors import Keys
from preempt_exporter.ledger.records import Commit, Reserve
from tests.control.network_namespace import OURS, Cable, cable_to_a_namespace
from tests.control.running_control import TOKEN, WEBHOOK_TOKEN, control
from tests.running_exporter import wait_until

PATIENCE_S = 1.0


class FarWorker:
    """A worker process in the namespace."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def does(self, words: str) -> str:
        """Have it do something, and hear what came of it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(words + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()


@contextmanager
def far_worker(cable: Cable, url: str, lease_ms: int) -> Iterator[FarWorker]:
    """Start it; ended on the way out."""
    command = [sys.executable, "-m", "tests.control.leasing_worker", url, str(lease_ms), str(PATIENCE_S)]
    process = subprocess.Popen(cable.inside(*command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield FarWorker(process)
    finally:
        process.kill()
        process.communicate()


def test_workers_fail_closed_keep_their_lease_and_come_back(tmp_path: Path) -> None:
    """Unplugged: nothing new starts, a lease is held while it lasts and no longer; plugged in: all goes on, once."""
    keys = Keys(token=TOKEN, webhook_token=WEBHOOK_TOKEN, hosts=frozenset({OURS}))
    with (
        cable_to_a_namespace() as cable,
        control(tmp_path, keys=keys, listen_addresses=(f"{OURS}:0",)) as service,
        far_worker(cable, service.url, lease_ms=600_000) as long,
        far_worker(cable, service.url, lease_ms=4_000) as short,
    ):
        service.client.run("r", "open", budget_tokens=100)
        assert long.does("grant long") == "GRANTED 0"
        assert short.does("grant short") == "GRANTED 0"

        cable.unplug()
        assert long.does("admit new") == "UNAVAILABLE"
        assert long.does("commit") == "UNAVAILABLE"
        assert long.does("may_write") == "True"
        assert short.does("renew") == "UNAVAILABLE"
        assert short.does("wait_until_stopped") == "STOPPED"
        # A worker stops a little before its lease is over.
        wait_until(
            lambda: service.client.ask("GET", "/v1/runs/r")["leases_overdue"] == 1, lambda: "the lease does not end"
        )

        cable.plug_in()
        assert long.does("commit") in ("COMMITTED", "ALREADY_COMMITTED")
        assert short.does("commit") == "LEASE_EXPIRED"
        assert short.does("grant short") == "GRANTED 1"
        assert short.does("commit") == "COMMITTED"
        assert long.does("admit new") in ("admitted", "refused")

        run = service.client.ask("GET", "/v1/runs/r")
        assert (run["committed_tokens"], run["reserved_tokens"], run["leases_open"]) == (20, 0, 0)
        commits = [(line.shard, line.epoch) for line in service.records() if isinstance(line, Commit)]
        assert sorted(commits) == [("long", 0), ("short", 1)]
        assert sum(isinstance(line, Reserve) for line in service.records()) == 3
        assert service.events().count("admit") == 1
