"""Kill -9 at random instants under load: no acknowledged change is lost, none happens twice."""

import random
import socket
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from preempt_exporter.client import ControlClient
from preempt_exporter.gate.switches import SwitchFile
from preempt_exporter.ledger.records import Commit, Enqueue, LaneDrain, LaneResume, Record, Reserve, TaskEvent
from tests.control.running_control import DEADLINE_S, TOKEN, records_on, word_of
from tests.control.serving_fork import MortalControl

KILLS = 30
LIFE = ("admit", "checkpoint", "preempt", "admit", "complete")
TOKENS = 10


class Load:
    """Clients that never stop asking; what was acknowledged to them."""

    def __init__(self, url: str) -> None:
        self.client = ControlClient(url, TOKEN, patience_s=DEADLINE_S)
        self.enough = threading.Event()
        self.finished_tasks: list[str] = []
        self.committed_shards: list[str] = []
        self.foreign_tasks: list[str] = []
        self.drains = 0

    def tasks(self, worker: int) -> None:
        """Whole lives, one after the other."""
        number = 0
        while not self.enough.is_set():
            name = f"t-{worker}-{number}"
            fields = {"checkpoint": {"checkpoint_tokens": 5}, "complete": {"output_tokens": 9}}
            for op in LIFE:
                answer = self.client.task(name, op, lane="free", prompt_tokens=7, **fields.get(op, {}))
                assert answer["outcome"] in ("admitted", "recorded"), (name, op, answer)
            assert (answer["preempts"], answer["restart_tokens"]) == (1, 7), answer
            self.finished_tasks.append(name)
            number += 1

    def shards(self) -> None:
        """Grant and commit; each answer must be the first one."""
        self.client.run("r", "open", budget_tokens=10**9)
        number = 0
        while not self.enough.is_set():
            shard = f"s-{number}"
            granted = self.client.shard("r", shard, "grant", tokens=TOKENS, lease_ms=3_600_000, input_digest="a")
            assert (granted["outcome"], granted["epoch"]) == ("GRANTED", 0), granted
            told = self.client.shard("r", shard, "commit", epoch=0, tokens=TOKENS, artifact_digest="b")
            assert told["outcome"] == "COMMITTED", told
            self.committed_shards.append(shard)
            number += 1

    def switches_and_lines(self) -> None:
        """Drain and resume a lane of its own, and append lines of a harness of its own."""
        while not self.enough.is_set():
            for op in ("drain", "resume"):
                told = self.client.ask("POST", f"/admin/{op}", {"lane": "other"})
                assert told["outcome"] == "done", told
            self.drains += 1
            name = f"x-{self.drains}"
            line = f'{{"event":"enqueue","task_id":"{name}","ts_ms":5}}\n'.encode()
            assert self.client.ask("POST", "/v1/events", line)["appended"] == 1
            self.foreign_tasks.append(name)


def test_thirty_kills_lose_nothing_and_do_nothing_twice(tmp_path: Path) -> None:
    """Clients retry under their keys through 30 kills; ledger, store and switch file say what they were told."""
    ledger = tmp_path / "l.jsonl"
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        port = chosen.getsockname()[1]
    randomness = random.Random(7)
    pause = threading.Event()
    service = MortalControl(ledger, port)
    load = Load(f"http://127.0.0.1:{port}")
    try:
        with ThreadPoolExecutor(4) as threads:
            work = [
                threads.submit(load.tasks, 0),
                threads.submit(load.tasks, 1),
                threads.submit(load.shards),
                threads.submit(load.switches_and_lines),
            ]
            try:
                for _ in range(KILLS):
                    # From before it listens to well under way.
                    pause.wait(randomness.uniform(0.05, 0.7))
                    service.kill()
                    service.start()
            finally:
                load.enough.set()
            for each in work:
                each.result()
        summary = load.client.ask("GET", "/v1/runs/r")
    finally:
        service.kill()
    lines = list({record.id: record for record in records_on(ledger)}.values())
    lives = Counter((record.task_id, word_of(record)) for record in lines if isinstance(record, TaskEvent))
    for name in load.finished_tasks:
        assert {word: lives[name, word] for word in LIFE} == Counter(LIFE), name
    assert len(load.finished_tasks) >= KILLS // 3
    assert _per_shard(lines, Reserve) == _per_shard(lines, Commit) == Counter(load.committed_shards)
    assert summary["committed_tokens"] == TOKENS * len(load.committed_shards)
    assert summary["reserved_tokens"] == 0
    assert sum(isinstance(record, LaneDrain) for record in lines) == load.drains
    assert sum(isinstance(record, LaneResume) for record in lines) == load.drains
    assert SwitchFile(ledger).read().lane_actions() == {}
    assert [r.task_id for r in lines if isinstance(r, Enqueue) and r.task_id[0] == "x"] == load.foreign_tasks


def _per_shard(lines: list[Record], kind: type[Reserve] | type[Commit]) -> Counter[str]:
    return Counter(record.shard for record in lines if isinstance(record, kind))
