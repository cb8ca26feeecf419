"""An Idempotency-Key makes a repeat give the first answer, whatever happened in between."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from preempt_exporter.clock import Clock, FixedClock
from preempt_exporter.control.admin import ADMIN_OPERATIONS
from preempt_exporter.control.bodies import body_from, json_object
from preempt_exporter.control.desk import Desk
from preempt_exporter.control.operations import Operation
from preempt_exporter.control.table import OPERATIONS
from preempt_exporter.errors import LedgerWriteError, StoreUnavailable
from preempt_exporter.gate.switches import SwitchFile
from preempt_exporter.ledger.records import Admit
from preempt_exporter.ledger.writer import LedgerWriter
from tests.control.running_control import GATE, control, records_on, word_of

NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000


def test_a_repeat_gets_the_first_answer_and_changes_nothing(tmp_path: Path) -> None:
    """Also after a restart, and marked as a repeat."""
    body = {"lane": "free", "prompt_tokens": 10}
    with control(tmp_path) as running:
        first = running.post("/v1/tasks/t/admit", body, Idempotency_Key="k")
        assert "idempotency-replayed" not in first.headers
        running.post("/v1/tasks/t/preempt")
        again = running.post("/v1/tasks/t/admit", body, Idempotency_Key="k")
        assert (again.body, again.headers["idempotency-replayed"]) == (first.body, "true")
    with control(tmp_path) as restarted:
        assert restarted.post("/v1/tasks/t/admit", body, Idempotency_Key="k").body == first.body
        assert restarted.events() == ["admit", "preempt"]


def test_a_key_belongs_to_one_request(tmp_path: Path) -> None:
    """The same key with another body or path is a mistake, told as one; a refused request uses up no key."""
    with control(tmp_path) as running:
        assert running.post("/v1/tasks/t/admit", '{"deadline_ms": "x"}', Idempotency_Key="k").status == 422
        assert running.post("/v1/tasks/t/admit", Idempotency_Key="k").status == 200
        assert running.post("/v1/tasks/u/admit", Idempotency_Key="k").status == 422
        assert running.post("/v1/tasks/t/admit", {"lane": "x"}, Idempotency_Key="k").status == 422
        assert running.post("/v1/tasks/t/admit", Idempotency_Key="").status == 400
        assert running.post("/v1/tasks/t/admit", Idempotency_Key="k" * 257).status == 400
        assert running.events() == ["admit"]


def test_repeats_at_the_same_moment_wait_for_the_first(tmp_path: Path) -> None:
    """Twenty at once with one key: one admission, twenty equal answers."""
    with control(tmp_path) as running, ThreadPoolExecutor(20) as threads:
        asked = [threads.submit(running.post, "/v1/tasks/t/admit", Idempotency_Key="k") for _ in range(20)]
        assert len({answer.result().body for answer in asked}) == 1
        assert running.events() == ["admit"]


def test_keys_are_forgotten_after_24_hours_and_not_before(tmp_path: Path) -> None:
    """A day later to the millisecond the key still answers; after it the request is a new one."""
    clock = FixedClock(NOW_MS)
    with control(tmp_path, clock=clock) as running:
        first = running.post("/v1/tasks/t/heartbeat", Idempotency_Key="k")
        clock.advance(24 * HOUR_MS)
        running.post("/v1/tasks/t/admit")
        assert running.post("/v1/tasks/t/heartbeat", Idempotency_Key="k").body == first.body
        clock.advance(1)
        assert running.post("/v1/tasks/t/heartbeat", Idempotency_Key="k").json["outcome"] == "recorded"


class Killed(BaseException):
    """The process ends here."""


class KilledWriter:
    """Appends and dies: before the write, or right after it."""

    def __init__(self, writer: LedgerWriter, *, after: bool) -> None:
        self._writer = writer
        self._after = after

    def with_id(self, record: Any) -> Any:
        return self._writer.with_id(record)

    def append(self, *records: Any) -> None:
        if self._after:
            self._writer.append(*records)
        raise Killed

    def close(self) -> None:
        self._writer.close()


class Service:
    """A desk that is asked as the application asks it, without a network; a second one is a restart."""

    def __init__(self, ledger: Path, clock: Clock) -> None:
        self.desk = Desk(ledger, clock, gate_settings=GATE, store_clock=clock)

    def ask(self, path: str, body: dict[str, Any], key: str) -> tuple[Any, bool]:
        operation, names = operation_at(path)
        fields = json_object(msgspec.json.encode(body))
        decoded = fields if operation.fields else body_from(fields, operation.takes)  # type: ignore[type-var]
        raw, repeated = self.desk.once.carry_out(
            key,
            path.encode(),
            lambda: msgspec.json.encode(operation.carry_out(self.desk, names, decoded)),
            lambda begun: _encoded(operation.recovered(self.desk, names, decoded, begun)),
        )
        return msgspec.json.decode(raw), repeated


def _encoded(answer: Any) -> bytes | None:
    return None if answer is None else msgspec.json.encode(answer)


def operation_at(path: str) -> tuple[Operation, dict[str, str]]:
    """The operation of a path without escapes, and the names in it."""
    words = path.split("/")
    for operation in (*OPERATIONS, *ADMIN_OPERATIONS):
        pattern = operation.path.replace(":path", "").split("/")
        if len(pattern) == len(words) and all(p.startswith("{") or p == w for p, w in zip(pattern, words, strict=True)):
            return operation, {p[1:-1]: w for p, w in zip(pattern, words, strict=True) if p.startswith("{")}
    raise AssertionError(path)


SPEND = {"tokens": 10, "lease_ms": HOUR_MS, "input_digest": "a"}
GRANTED = (("/v1/runs/r/open", {}), ("/v1/runs/r/shards/3/grant", SPEND))
ASKED: tuple[tuple[str, dict[str, Any], tuple[tuple[str, dict[str, Any]], ...]], ...] = (
    ("/v1/tasks/t/enqueue", {}, ()),
    ("/v1/tasks/t/admit", {}, ()),
    ("/v1/tasks/t/admit", {"deadline_ms": 5, "enqueued_ms": 1}, ()),
    ("/v1/tasks/t/preempt", {}, (("/v1/tasks/t/admit", {"prompt_tokens": 7}),)),
    ("/v1/tasks/t/checkpoint", {"checkpoint_tokens": 5}, (("/v1/tasks/t/admit", {}),)),
    ("/v1/tasks/t/complete", {"output_tokens": 5}, (("/v1/tasks/t/admit", {}),)),
    ("/v1/tasks/t/heartbeat", {"output_tokens": 5}, (("/v1/tasks/t/admit", {}),)),
    ("/v1/tasks/t/drain", {}, (("/v1/tasks/t/admit", {}),)),
    ("/v1/tasks/t/preempt", {}, (("/v1/tasks/t/admit", {"lane": "free"}), ("/admin/drain", {"lane": "free"}))),
    (
        "/v1/tasks/t/admit",
        {"deadline_ms": 5, "enqueued_ms": 1},
        (("/v1/tasks/t/admit", {}), ("/v1/tasks/t/preempt", {"output_tokens": 3})),
    ),
    ("/v1/runs/r/open", {"budget_tokens": 15}, ()),
    ("/v1/runs/r/shards/3/grant", SPEND, (("/v1/runs/r/open", {}),)),
    ("/v1/runs/r/shards/3/grant", SPEND, (("/v1/runs/r/open", {"budget_tokens": 5}),)),
    (
        "/v1/runs/r/shards/3/commit",
        {"epoch": 0, "tokens": 10, "artifact_digest": "b"},
        GRANTED,
    ),
    (
        "/v1/runs/r/shards/3/renew",
        {"epoch": 0, "lease_ms": 9},
        GRANTED,
    ),
    ("/v1/runs/r/shards/3/release", {"epoch": 0}, GRANTED),
    ("/v1/runs/r/shards/3/checkpoint", {"epoch": 0, "index": 2, "tokens": 4, "input_digest": "a"}, GRANTED),
    ("/v1/runs/r/shards/3/resume", {"epoch": 0, "input_digest": "a"}, GRANTED),
    ("/v1/runs/r/shards/3/reserve", {"epoch": 7, **SPEND}, GRANTED),
    ("/v1/runs/r/close", {}, GRANTED),
    (
        "/v1/runs/r/shards/3/compensate",
        {"epoch": 0, "artifact_digest": "b", "reason": "stale"},
        (*GRANTED, ("/v1/runs/r/shards/3/commit", {"epoch": 0, "tokens": 10, "artifact_digest": "b"})),
    ),
    ("/admin/drain", {"lane": "free"}, ()),
    ("/admin/resume", {"lane": "free"}, (("/admin/drain", {"lane": "free"}),)),
    ("/admin/mode", {"mode": "reject_preempt_budget"}, ()),
    ("/admin/act", {"action": "stop_run", "run": "r"}, ()),
)


@pytest.mark.parametrize("after", [False, True], ids=["before the line", "after the line"])
@pytest.mark.parametrize(("path", "body", "before"), ASKED, ids=[f"{path} {len(before)}" for path, _, before in ASKED])
def test_a_request_that_was_killed_at_its_ledger_line_happens_once(
    tmp_path: Path, path: str, body: dict[str, Any], before: tuple[tuple[str, dict[str, Any]], ...], after: bool
) -> None:
    """The repeat after the restart answers what an undisturbed service answers, and each line stands once."""
    clock = FixedClock(NOW_MS)
    told = {}
    for name, is_killed in (("undisturbed", False), ("killed", True)):
        folder = tmp_path / name
        folder.mkdir()
        service = Service(folder / "l.jsonl", clock)
        for number, (earlier, said) in enumerate(before):
            service.ask(earlier, said, f"before {number}")
        if is_killed:
            killed = KilledWriter(service.desk.writer, after=after)
            service.desk.sink._writer = service.desk.spend._sink = killed  # type: ignore[attr-defined,assignment]
            with pytest.raises(Killed):
                service.ask(path, body, "k")
            _die(service.desk)
            service = Service(folder / "l.jsonl", clock)
        answer, _ = service.ask(path, body, "k")
        assert service.ask(path, body, "k") == (answer, True)
        # A line that stands twice under one id is a repeat to every reader, and counts once.
        lines = {record.id: record for record in records_on(folder / "l.jsonl")}
        told[name] = (answer, [word_of(record) for record in lines.values()], switched(folder / "l.jsonl"))
        _die(service.desk)
    assert told["killed"] == told["undisturbed"]


@pytest.mark.parametrize("cuts", [False, True], ids=["by name", "by copy"])
@pytest.mark.parametrize("there", [False, True], ids=["no file", "an empty file"])
def test_the_first_request_of_a_ledger_happens_once_though_it_is_rotated(
    tmp_path: Path, there: bool, cuts: bool
) -> None:
    """Killed at the first line that the ledger ever had, and rotated before the repeat: found in the rotated form."""
    ledger, clock = tmp_path / "l.jsonl", FixedClock(NOW_MS)
    if there:
        ledger.touch()
    service = Service(ledger, clock)
    service.desk.sink._writer = KilledWriter(service.desk.writer, after=True)  # type: ignore[attr-defined]
    with pytest.raises(Killed):
        service.ask("/v1/tasks/t/enqueue", {}, "k")
    _die(service.desk)
    rotated = tmp_path / "l.jsonl.1"
    if cuts:
        rotated.write_bytes(ledger.read_bytes())
        ledger.write_bytes(b"")
    else:
        ledger.rename(rotated)
        ledger.touch()
    service = Service(ledger, clock)
    assert service.ask("/v1/tasks/t/enqueue", {}, "k")[0]["outcome"] == "queued"
    assert (len(records_on(rotated)), records_on(ledger)) == (1, [])
    _die(service.desk)


def switched(ledger: Path) -> Any:
    """What the switch file says."""
    switches = SwitchFile(ledger).read()
    return (switches.lane_actions(), switches.mode, sorted(switches.stopped_runs))


def _die(desk: Desk) -> None:
    """What the end of a process does: descriptors close, nothing is written."""
    desk.gate.write_snapshot = lambda: None  # type: ignore[method-assign]
    desk.close()


class FullDisk:
    """A ledger that takes nothing."""

    def append(self, *records: Any) -> None:
        raise LedgerWriteError("l", "no space left on device")


def test_a_grant_whose_line_waits_in_the_store_is_found_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Granted on a full disk and never answered: told as unavailable while that lasts, and then as the grant it was."""
    service = Service(tmp_path / "l.jsonl", FixedClock(NOW_MS))
    service.ask("/v1/runs/r/open", {}, "open")

    def die(key: str, answer: bytes) -> None:
        raise Killed

    with monkeypatch.context() as dying:
        dying.setattr(service.desk.spend, "_sink", FullDisk())
        dying.setattr(service.desk.once, "_keep_answer", die)
        with pytest.raises(Killed):
            service.ask("/v1/runs/r/shards/3/grant", SPEND, "k")
        with pytest.raises(StoreUnavailable):
            service.ask("/v1/runs/r/shards/3/grant", SPEND, "k")
    answer, repeated = service.ask("/v1/runs/r/shards/3/grant", SPEND, "k")
    assert (answer["outcome"], answer["epoch"], repeated) == ("GRANTED", 0, True)
    _die(service.desk)


class UnsyncedDisk(KilledWriter):
    """Takes the lines, and then reports that they may not be there."""

    def append(self, *records: Any) -> None:
        self._writer.append(*records)
        raise LedgerWriteError("l", "input/output error")


def test_an_admission_that_a_disk_reported_as_failed_starts_one_worker(tmp_path: Path) -> None:
    """Its line is there, and the repeat with the key is told so: nobody else is admitted beside that worker."""
    service = Service(tmp_path / "l.jsonl", FixedClock(NOW_MS))
    writer = service.desk.writer
    service.desk.sink._writer = UnsyncedDisk(writer, after=True)  # type: ignore[attr-defined]
    with pytest.raises(LedgerWriteError):
        service.ask("/v1/tasks/t/admit", {}, "k")
    service.desk.sink._writer = writer  # type: ignore[attr-defined]
    assert service.ask("/v1/tasks/t/admit", {}, "k")[0]["outcome"] == "admitted"
    assert service.ask("/v1/tasks/t/admit", {}, "another")[0]["reason"] == "already_running"
    _die(service.desk)


def test_an_admission_that_was_killed_and_is_over_starts_nobody(tmp_path: Path) -> None:
    """Admitted without an answer, declared lost meanwhile and admitted to another: the late repeat is refused."""
    service = Service(tmp_path / "l.jsonl", FixedClock(NOW_MS))
    service.desk.sink._writer = KilledWriter(service.desk.writer, after=True)  # type: ignore[attr-defined]
    with pytest.raises(Killed):
        service.ask("/v1/tasks/t/admit", {}, "first")
    _die(service.desk)
    service = Service(tmp_path / "l.jsonl", FixedClock(NOW_MS))
    service.ask("/v1/tasks/t/preempt", {}, "lost")
    service.ask("/v1/tasks/t/admit", {}, "second")
    assert service.ask("/v1/tasks/t/admit", {}, "first")[0]["reason"] == "already_running"
    assert sum(isinstance(record, Admit) for record in records_on(tmp_path / "l.jsonl")) == 2
    _die(service.desk)
