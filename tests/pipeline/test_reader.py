"""The reader, a step at a time: the self families alone until caught up, what a snapshot keeps, what is logged."""

import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families

from preempt_exporter.clock import FixedClock
from preempt_exporter.ledger.bad_line import BadLine
from preempt_exporter.metrics.families import LEDGER_FAMILIES, SELF_FAMILIES
from preempt_exporter.pipeline import reader as reader_module
from preempt_exporter.pipeline.exposition import WatchedExposition
from preempt_exporter.pipeline.line_errors import LineErrorLog
from preempt_exporter.pipeline.reader import Reader
from preempt_exporter.pipeline.snapshot import SnapshotKeeper
from preempt_exporter.settings import LaneSettings, TaskSettings, Thresholds
from preempt_exporter.state import expiry
from preempt_exporter.state.totals import MAX_TOTAL
from preempt_exporter.state.watched import Watched
from preempt_exporter.tail.batch import read_batch
from preempt_exporter.tail.follow import Tail
from preempt_exporter.tail.watch import Watch
from tests.metrics.scraping import GOLDEN, Samples, samples_of, unique

T0_MS = 1_795_956_000_000
LONG_AFTER_MS = 4_000_000_000_000
"""Later than any file of a test: its folder may be trusted to tell of every change."""


class Stepped:
    """An exporter without threads or a port: `step` is one look at the files."""

    def __init__(self, ledger: Path, clock: FixedClock, state: Path | None = None) -> None:
        self.clock = clock
        self.snapshots = SnapshotKeeper(state, clock) if state else None
        kept = self.snapshots.load() if self.snapshots else None
        watched = Watched(TaskSettings(series_of_worst=None), LaneSettings(), kept.figures if kept else None)
        tail = Tail([str(ledger)], clock=clock, positions=kept.positions if kept else None)
        counts = kept.tail_counts if kept else None
        self.reader = Reader(tail, Watch(clock=clock, mode="poll"), watched, self.snapshots, clock, counts)
        self.exposition = WatchedExposition(self.reader, Thresholds(), "1.2.3", clock)

    def scrape(self) -> Samples:
        """What `/metrics` says now, the platform's families left out."""
        text = self.exposition.render(openmetrics=False).decode()
        samples = unique(samples_of(text_families(text)))
        return Samples({series: value for series, value in samples.items() if series[0].startswith(OURS)})

    def step(self, times: int = 1) -> None:
        for _ in range(times):
            self.reader.step()

    def end(self) -> None:
        """What `run` does once it is told to stop."""
        stop = threading.Event()
        stop.set()
        self.reader.run(stop)
        if self.snapshots:
            self.snapshots.close()


OURS = ("preempt", "queue_age", "deadline", "restart", "checkpoint", "task_")
SELF = {family.name for family in SELF_FAMILIES}


@pytest.fixture
def start() -> Iterator[Callable[..., Stepped]]:
    made: list[Stepped] = []

    def make(ledger: Path, clock: FixedClock | None = None, state: Path | None = None) -> Stepped:
        made.append(Stepped(ledger, clock or FixedClock(T0_MS), state))
        return made[-1]

    yield make
    for stepped in made:
        stepped.end()


def heartbeats(count: int, padding: str = "") -> str:
    lines = ({"event": "heartbeat", "task_id": f"t{index}", "ts_ms": T0_MS, "note": padding} for index in range(count))
    return "".join(json.dumps(line) + "\n" for line in lines)


MORE_THAN_ONE_READ = "x" * 60_000
"""Twenty such lines take several reads, however little is asked for at a time."""


def test_only_the_self_families_until_caught_up(
    start: Callable[..., Stepped], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the ledger is read piece by piece nothing of its content shows, then all of it at once."""
    monkeypatch.setattr(reader_module, "READ_BYTES", 1)
    ledger = tmp_path / "l.jsonl"
    ledger.write_text(heartbeats(20, MORE_THAN_ONE_READ))
    stepped = start(ledger)
    seen = []
    while not stepped.exposition.ready():
        scraped = stepped.scrape()
        assert scraped.names() <= SELF
        assert scraped.value("preempt_exporter_ready") == 0
        seen.append(scraped.value("preempt_ledger_lines_total"))
        assert len(seen) < 100
        stepped.step()
    assert len(set(seen)) > 2, "it was caught half way"
    assert seen[0] == 0
    scraped = stepped.scrape()
    assert scraped.value("preempt_exporter_ready") == 1
    assert scraped.value("preempt_events_total", lane="default", event="heartbeat") == 20
    assert len(scraped.labels_of("queue_age_ms")) == 20
    assert {family.name for family in LEDGER_FAMILIES} & scraped.names()


def test_what_grows_meanwhile_does_not_hold_it_up(
    start: Callable[..., Stepped], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Caught up means the size at the start: a ledger that grows faster than it is read is served all the same."""
    monkeypatch.setattr(reader_module, "READ_BYTES", 1)
    ledger = tmp_path / "l.jsonl"
    ledger.write_text(heartbeats(20, MORE_THAN_ONE_READ))
    stepped = start(ledger)
    steps = 0
    while not stepped.exposition.ready():
        with ledger.open("a") as file:
            file.write(heartbeats(10, MORE_THAN_ONE_READ))
        stepped.step()
        steps += 1
        assert steps < 100
    assert stepped.scrape().value("preempt_ledger_lag_bytes") != 0


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.glob("*.jsonl")))
def test_a_restart_changes_nothing(start: Callable[..., Stepped], tmp_path: Path, name: str) -> None:
    """Everything that lines can leave behind survives the state file: the next process serves the very same figures."""
    ledger, state = tmp_path / "l.jsonl", tmp_path / "state"
    ledger.write_bytes((GOLDEN / name).read_bytes() + b"\n")
    clock = FixedClock(T0_MS)
    first = start(ledger, clock, state)
    first.step(2)
    before = first.scrape()
    assert before.value("preempt_ledger_lines_total")
    first.end()
    second = start(ledger, clock, state)
    second.step(2)
    after = second.scrape()
    for samples in (before, after):
        for volatile in ("preempt_state_snapshot_timestamp_seconds", "preempt_ledger_filesystem_avail_bytes"):
            samples.pop((volatile, frozenset()), None)
    assert after == before


def test_a_ledger_whose_name_is_no_text_is_kept_over_a_restart(start: Callable[..., Stepped], tmp_path: Path) -> None:
    """Any byte may stand in a path, and the state file holds it: nothing is lost or read twice, repeats are known."""
    folder = tmp_path / "ledgers"
    folder.mkdir()
    ledger = folder / os.fsdecode(b"half-\xff-\xe9\\xff.jsonl")
    rotated = folder / (ledger.name + ".1")
    line = '{"event": "heartbeat", "task_id": "t", "ts_ms": 1, "id": "one"}\n'
    rotated.write_text(line)
    ledger.write_text(heartbeats(2))
    state, clock = tmp_path / "state", FixedClock(T0_MS)
    stepped = start(folder, clock, state)
    stepped.step(3)
    clock.advance(6000)
    stepped.step()
    rotated.unlink()
    clock.advance(6000)
    stepped.end()
    with ledger.open("a") as file:
        file.write(line + heartbeats(3))
    again = start(folder, clock, state)
    again.step(3)
    samples = again.scrape()
    assert samples.value("preempt_ledger_lines_total") == 7
    assert samples.value("preempt_ledger_duplicate_lines_total") == 1
    assert samples.value("preempt_ledger_suspected_loss_total") == 0


TASK = {"task_id": "t", "ts_ms": T0_MS}
SHARD = {"run": "r", "epoch": 0, "ts_ms": T0_MS, "tokens": 2**53}
ATTEMPT = {"lane": "l", "attempt": 1, "enqueue_s": 0, "start_s": 0, "end_s": 0, "outcome": "ok"}


@pytest.mark.parametrize(
    "line",
    [
        {"event": "preempt", "wasted_tokens": 2**53, "restart_tokens": 1, "preempts": 1} | TASK,
        {"event": "complete", "output_tokens": 2**53, "restart_tokens": 2**53} | TASK,
        {"event": "reserve", "lease_expires_ms": 2**53, "input_digest": "d"} | SHARD,
        {"event": "commit", "artifact_digest": "d"} | SHARD,
        {"event": "release", "reason": "cancelled", "burned_tokens": 2**53} | SHARD,
        {"tokens_in": 2**53, "tokens_out": 2**53, "interventions": 2**53} | ATTEMPT,
    ],
    ids=lambda line: str(line.get("event", "attempt")),
)
def test_sums_of_the_largest_numbers_can_be_kept_and_shown(
    start: Callable[..., Stepped], tmp_path: Path, line: dict[str, object]
) -> None:
    """Lines that are each in range cannot stop the exporter by what they add up to: a sum stops where 64 bits end."""
    ledger, state, clock = tmp_path / "l.jsonl", tmp_path / "state", FixedClock(T0_MS)
    ledger.write_text(
        "".join(json.dumps(line | {"shard": str(i), "job_id": str(i), "run": "r"}) + "\n" for i in range(2100))
    )
    stepped = start(ledger, clock, state)
    stepped.step(2)
    clock.advance(6000)
    stepped.step()
    assert stepped.snapshots is not None and stepped.snapshots.is_kept()
    assert MAX_TOTAL in stepped.scrape().values()
    assert json.loads(stepped.exposition.runs())[0]["run"] == "r"
    stepped.end()
    again = start(ledger, clock, state)
    again.step(2)
    assert MAX_TOTAL in again.scrape().values()


def test_the_state_is_written_at_a_steady_pace(start: Callable[..., Stepped], tmp_path: Path) -> None:
    """A crash loses seconds of reading and no more: the state is on disk 5 s after lines were read."""
    ledger, state = tmp_path / "l.jsonl", tmp_path / "state"
    ledger.write_text(heartbeats(3))
    clock = FixedClock(T0_MS)
    stepped = start(ledger, clock, state)
    stepped.step()
    assert not state.exists()
    clock.advance(5_000)
    stepped.step()
    assert state.exists()
    assert stepped.scrape().value("preempt_state_snapshot_timestamp_seconds") == (T0_MS + 5_000) / 1000


def test_a_state_that_does_not_change_is_confirmed_not_written_anew(
    start: Callable[..., Stepped], tmp_path: Path
) -> None:
    """While nothing is read the same file stays, its moment moves on; the next line is written, and so is a loss."""
    ledger, state = tmp_path / "l.jsonl", tmp_path / "state"
    ledger.write_text('{"event":"heartbeat","task_id":"a","ts_ms":1}\n')
    exporter = start(ledger, FixedClock(T0_MS), state)

    def same_file_after(seconds: int) -> bool:
        held = tmp_path / str(exporter.clock.now_ms())
        if state.exists():
            held.hardlink_to(state)
        for _ in range(seconds):
            exporter.clock.advance(1_000)
            exporter.step()
        assert exporter.scrape().value("preempt_state_snapshot_timestamp_seconds") >= exporter.clock.now_ms() / 1000 - 6
        return held.exists() and state.samefile(held)

    assert not same_file_after(60)
    assert same_file_after(60)
    with ledger.open("a") as file:
        file.write('{"event":"heartbeat","task_id":"b","ts_ms":2}\n')
    assert not same_file_after(60)
    assert b"\xa1b" in state.read_bytes()
    assert same_file_after(60)
    state.unlink()
    same_file_after(6)
    assert state.exists()


def test_state_files_that_a_glob_matches_are_no_ledgers(
    start: Callable[..., Stepped], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Our own state beside the ledgers: not read, not bad, not behind, said once; to a cold read neither."""
    (tmp_path / "l.jsonl").write_text('{"event":"heartbeat","task_id":"a","ts_ms":1}\n')
    exporter = start(tmp_path / "*", FixedClock(T0_MS), tmp_path / "state")
    for number in range(40):
        exporter.clock.advance(1_000)
        exporter.step()
        with (tmp_path / "l.jsonl").open("a") as file:
            file.write(f'{{"event":"heartbeat","task_id":"a","ts_ms":{number}}}\n')
    exporter.step(2)
    scrape = exporter.scrape()
    assert scrape.value("preempt_ledger_lines_total") == 41
    assert scrape.value("preempt_ledger_lag_bytes") == scrape.value("preempt_ledger_suspected_loss_total") == 0
    assert len([said for said in caplog.messages if "state file: not followed" in said]) == 2  # and the previous one
    assert b"".join(chunk.data for chunk in read_batch([f"{tmp_path}/*"])) == (tmp_path / "l.jsonl").read_bytes()


@pytest.mark.parametrize("files_per_folder", [1, 400])
def test_an_idle_look_costs_the_same_however_many_files(tmp_path: Path, files_per_folder: int) -> None:
    """Python's calls per step do not grow with the files, in one folder or in one each."""

    def calls(files: int) -> int:
        root = tmp_path / str(files)
        for number in range(files):
            folder = root / f"r{number // files_per_folder}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"l{number}.jsonl").write_text('{"event":"heartbeat","task_id":"a","ts_ms":1}\n')
        clock = FixedClock(LONG_AFTER_MS)
        tail, watch = Tail([f"{root}/*/*.jsonl"], clock=clock), Watch(clock=clock)
        reader = Reader(tail, watch, Watched(TaskSettings(), LaneSettings()), None, clock)
        try:
            for _ in range(3):
                clock.advance(11_000)
                reader.step()
            counted = 0

            def count(_frame: object, _kind: str, _argument: object) -> None:
                nonlocal counted
                counted += 1

            clock.advance(30)
            sys.setprofile(count)
            try:
                reader.step()
            finally:
                sys.setprofile(None)
            return counted
        finally:
            watch.close()
            tail.close()

    assert calls(800) < 1.2 * calls(200)


def test_a_state_that_cannot_be_written_is_said_once(
    start: Callable[..., Stepped], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A state file that became unwritable does not stop the reading; it is said once, and its end once."""
    folder = tmp_path / "kept"
    folder.mkdir()
    clock = FixedClock(T0_MS)
    (tmp_path / "l.jsonl").write_text(heartbeats(1))
    stepped = start(tmp_path / "l.jsonl", clock, folder / "state")
    folder.rename(tmp_path / "gone")
    with caplog.at_level(logging.INFO, "preempt_exporter"):
        for _ in range(3):
            clock.advance(5_000)
            stepped.step()
        assert caplog.text.count("state not written") == 1
        (tmp_path / "gone").rename(folder)
        clock.advance(5_000)
        stepped.step()
        assert caplog.text.count("state written again") == 1
    assert stepped.scrape().value("preempt_events_total", lane="default", event="heartbeat") == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:-1],
        lambda content: content.replace(b"state 1", b"state 0"),
        lambda content: content[:200] + bytes([content[200] ^ 1]) + content[201:],
        lambda content: b"\0" * len(content),
    ],
    ids=["empty", "torn", "other version", "flipped bit", "zeros"],
)
def test_any_damage_is_noticed(
    start: Callable[..., Stepped], tmp_path: Path, damage: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    """A state file with any damage is set aside under a name that says so, and everything is read anew."""
    ledger, state = tmp_path / "l.jsonl", tmp_path / "state"
    ledger.write_text(heartbeats(3))
    first = start(ledger, None, state)
    first.step()
    first.end()
    state.with_name("state.previous").unlink(missing_ok=True)
    state.write_bytes(damage(state.read_bytes()))
    second = start(ledger, None, state)
    assert second.scrape().value("preempt_ledger_lines_total") == 0
    second.step()
    assert second.scrape().value("preempt_ledger_lines_total") == 3
    assert [path.name.partition("-")[0] for path in tmp_path.glob("state.damaged*")] == ["state.damaged"]
    assert "set aside" in caplog.text


def test_a_bad_line_is_said_once_a_minute_per_file_and_reason(caplog: pytest.LogCaptureFixture) -> None:
    """A flood of bad lines is one log line a minute for each file and reason, with the byte where the first stands."""
    clock = FixedClock(T0_MS)
    errors = LineErrorLog(clock)

    def said(path: str, *reasons: str) -> int:
        caplog.clear()
        bad = [BadLine(reason=reason, detail="why", offset=7) for reason in reasons]
        errors.say(path, 100, bad)
        return len(caplog.records)

    assert said("a", "not_json", "not_json", "too_long") == 2
    assert said("a", "not_json") == 0
    assert said("b", "not_json") == 1
    assert caplog.messages == ["b: byte 107: bad line (not_json): why; skipped"]
    clock.advance(59_999)
    assert said("a", "not_json") == 0
    clock.advance(1)
    assert said("a", "not_json", "not_json") == 1


def test_lag_grows_while_nothing_is_read(start: Callable[..., Stepped], tmp_path: Path) -> None:
    """A reader that stands still shows it: the lag in seconds grows from scrape to scrape without a step."""
    clock = FixedClock(T0_MS)
    (tmp_path / "l.jsonl").write_text(heartbeats(1))
    stepped = start(tmp_path / "l.jsonl", clock)
    stepped.step()
    assert stepped.scrape().value("preempt_ledger_lag_seconds") == 0
    clock.advance(60_000)
    assert stepped.scrape().value("preempt_ledger_lag_seconds") == 60


def test_the_whole_answer_is_sound_in_both_formats(start: Callable[..., Stepped], tmp_path: Path) -> None:
    """With the platform's families too, no series comes twice, none is stamped, and OpenMetrics ends once."""
    (tmp_path / "l.jsonl").write_bytes((GOLDEN / "hostile.jsonl").read_bytes())
    stepped = start(tmp_path / "l.jsonl")
    stepped.step(2)
    plain = stepped.exposition.render(openmetrics=False).decode()
    openmetrics = stepped.exposition.render(openmetrics=True).decode()
    names = unique(samples_of(text_families(plain))).names()
    assert {"process_open_fds", "python_info", "queue_age_ms"} <= names
    assert unique(samples_of(openmetrics_families(openmetrics))).names() == names
    assert openmetrics.endswith("\n# EOF\n")
    assert "# EOF\n" not in plain


def test_the_api_s_lists_agree_with_the_scrape(start: Callable[..., Stepped], tmp_path: Path) -> None:
    """Tasks, lanes, runs and health are JSON of the same figures that the scrape shows."""
    ledger = tmp_path / "l.jsonl"
    ledger.write_bytes(b"".join((GOLDEN / f"{name}.jsonl").read_bytes() for name in ("lives", "lanes", "runs")))
    stepped = start(ledger)
    stepped.step(2)
    scraped, exposition = stepped.scrape(), stepped.exposition
    tasks = msgspec.json.decode(exposition.tasks())
    live = {task["task_id"] for task in tasks if task["queue_age_ms"] is not None}
    assert live == {labels["task_id"] for labels in scraped.labels_of("queue_age_ms")}
    for lane in msgspec.json.decode(exposition.lanes()):
        assert lane["rework_multiplier"] == scraped.value("preempt_lane_rework_multiplier", lane=lane["lane"])
        assert lane["required_slack_s"] == scraped.value("preempt_lane_required_slack_seconds", lane=lane["lane"])
    runs = msgspec.json.decode(exposition.runs())
    assert {run["run"] for run in runs} == {labels["run"] for labels in scraped.labels_of("preempt_leases_open")}
    for run in runs:
        assert run["leases_open"] == scraped.value("preempt_leases_open", run=run["run"])
        assert run["tasks"]["queued"] == scraped.value("preempt_run_tasks", run=run["run"], state="queued")
    health = msgspec.json.decode(exposition.health())
    assert health["lines"] == scraped.value("preempt_ledger_lines_total")
    assert health["ready"] is True
    assert health["ledger"] == str(ledger)
    assert health["files_matched"] == scraped.value("preempt_ledger_files") == 1


def test_what_lanes_are_under_is_told_until_it_ends(start: Callable[..., Stepped], tmp_path: Path) -> None:
    """A lane that was closed shows with its action, whether it has attempts or not, and no longer once resumed."""
    ledger = tmp_path / "l.jsonl"
    drain = b'{"event":"lane_drain","lane":"%s","action":"abandon_lane","ts_ms":1}\n'
    ledger.write_bytes(drain % b"free" + drain % b"spot")
    stepped = start(ledger)
    stepped.step(2)
    actions = {"free": "abandon_lane", "spot": "abandon_lane"}
    assert msgspec.json.decode(stepped.exposition.health())["lane_actions"] == actions
    with ledger.open("ab") as file:
        file.write(b'{"event":"lane_resume","lane":"free","ts_ms":2}\n')
    stepped.step(2)
    assert msgspec.json.decode(stepped.exposition.health())["lane_actions"] == {"spot": "abandon_lane"}


def test_runs_with_nothing_left_to_do_stand_behind_those_that_may_be_late(
    start: Callable[..., Stepped], tmp_path: Path
) -> None:
    """A complete run's slack goes on falling below 0, and nobody has to hurry for it."""
    ledger = tmp_path / "l.jsonl"
    run_open = b'{"event":"run_open","run":"%s","deadline_ms":3600000,"tasks":%d,"ts_ms":%d}\n'
    done = b'{"event":"complete","task_id":"t","run":"%s","output_tokens":1,"restart_tokens":0,"ts_ms":%d}\n'
    lines = run_open % (b"over", 1, T0_MS - 7_200_000) + done % (b"over", T0_MS - 7_000_000)
    lines += run_open % (b"night", 2, T0_MS - 60_000) + done % (b"night", T0_MS - 30_000)
    lines += run_open % (b"more", 1, T0_MS - 7_200_000) + done % (b"more", T0_MS - 7_000_000)
    lines += b'{"event":"enqueue","task_id":"u","run":"more","ts_ms":%d}\n' % T0_MS
    ledger.write_bytes(lines)
    stepped = start(ledger)
    stepped.step(2)
    runs = msgspec.json.decode(stepped.exposition.runs())
    assert [(run["run"], run["remaining"]) for run in runs] == [("more", 0), ("night", 1), ("over", 0)]
    assert runs[2]["projected_slack_seconds"] < 0


def test_a_ledger_per_job_leaves_nothing_behind_a_day_after_it_is_gone(
    start: Callable[..., Stepped], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of jobs are deleted when they are done: what told their repeats must not add up for ever."""
    monkeypatch.setattr(expiry, "GONE_LEDGERS_KEPT", 0)
    folder, state, clock = tmp_path / "jobs", tmp_path / "state", FixedClock(T0_MS)
    folder.mkdir()
    for job in range(5):
        (folder / f"{job}.jsonl").write_text(heartbeats(1))
    stepped = start(folder, clock, state)
    stepped.step()
    for job in range(4):
        (folder / f"{job}.jsonl").unlink()

    def names_after(ms: int) -> list[str]:
        clock.advance(ms)
        stepped.step(2)
        return sorted(Path(memory.name).name for memory in stepped.reader.watched.figures.ledgers)

    assert len(names_after(60_000)) == 5
    stepped.end()
    stepped = start(folder, clock, state)
    stepped.step()
    assert len(names_after(60_000)) == 5
    assert names_after(24 * 60 * 60 * 1000) == ["4.jsonl"]
    assert stepped.scrape().value("preempt_ledger_lines_total") == 5


def test_the_only_ledger_is_named_and_none_of_several(start: Callable[..., Stepped], tmp_path: Path) -> None:
    """Rotated forms are the same ledger; another one beside it leaves nothing to name."""
    line = b'{"event":"enqueue","task_id":"t","ts_ms":1}\n'
    (tmp_path / "l.jsonl.1").write_bytes(line)
    (tmp_path / "l.jsonl").write_bytes(line * 2)
    stepped = start(tmp_path)
    assert msgspec.json.decode(stepped.exposition.health())["ledger"] is None
    stepped.step(2)
    assert msgspec.json.decode(stepped.exposition.health())["ledger"] == str(tmp_path / "l.jsonl")
    (tmp_path / "m.jsonl").write_bytes(line)
    stepped.step(2)
    assert msgspec.json.decode(stepped.exposition.health())["ledger"] is None


def test_a_name_that_is_no_text_is_shown_with_escapes(start: Callable[..., Stepped], tmp_path: Path) -> None:
    """A file may have any name; the page and its API go on, and show which one it is."""
    (tmp_path / "l\udcff.jsonl").write_bytes(b'{"event":"enqueue","task_id":"t","ts_ms":1}\n')
    stepped = start(tmp_path)
    stepped.step(2)
    health = msgspec.json.decode(stepped.exposition.health())
    assert [file["path"] for file in health["files"]] == [f"{tmp_path}/l\\xff.jsonl"]
    assert (health["lines"], health["ledger"]) == (1, None)


def test_a_ledger_that_is_not_there_yet_is_said(
    start: Callable[..., Stepped], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It may come later, or its path is wrong: nobody should have to guess from zeros."""
    start(tmp_path / "nowhere.jsonl").step(2)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["no ledger is there yet"]


def test_it_is_ready_no_sooner_than_its_scrape_is(
    start: Callable[..., Stepped], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits for readiness and then asks gets the ledger's families, whatever the reader does in between."""
    ledger = tmp_path / "l.jsonl"
    ledger.write_text(heartbeats(2))
    stepped = start(ledger)
    seen = []

    def look(reader: Reader) -> None:
        seen.append((stepped.exposition.ready(), "preempt_events_total" in stepped.scrape().names()))

    monkeypatch.setattr(Reader, "_do_what_is_due", look)
    stepped.step(2)
    assert seen == [(False, False), (True, True)]


def test_the_folders_are_let_go_before_the_last_state_is_written(
    start: Callable[..., Stepped], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state may lie among the ledgers: what tells of changes there must not be told of it while it ends."""
    stepped = start(tmp_path / "l.jsonl", state=tmp_path / "state")
    order = []
    close, write = Watch.close, SnapshotKeeper.write
    monkeypatch.setattr(Watch, "close", lambda watch: (order.append("let go"), close(watch)))
    monkeypatch.setattr(SnapshotKeeper, "write", lambda keeper, *rest: (order.append("written"), write(keeper, *rest)))
    stepped.end()
    assert order == ["let go", "written"]
