"""`drill batch` end to end: lanes and their limits, resuming, asking, cleaning up."""

import json
import os
import signal
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from preempt_exporter.cli.main import main
from preempt_exporter.clock import FixedClock, SystemClock
from preempt_exporter.drill.batch_cleanup import set_require_slack_s
from preempt_exporter.drill.batch_database import BatchDatabase
from preempt_exporter.drill.batch_folder import BatchFolder
from preempt_exporter.drill.batch_jobs import BatchJob, read_jobs, write_jobs
from preempt_exporter.drill.batch_state import BatchState
from preempt_exporter.errors import UsageError
from preempt_exporter.gate.switches import SwitchFile
from preempt_exporter.ledger.records import Attempt, LaneDrain, LaneResume
from preempt_exporter.ledger.writer import LedgerWriter
from tests.drill.killed_batch import PATIENCE_S, KilledBatch, wait_until

TWO_LANES = """\
# ours
router:
  lanes:
    - {name: free, checkpoint: required, idempotency_key: "{{ run }}/{{ job_id }}"}
    - {name: paid, max_attempts: 1}
  admission:
    require_slack_s: 60  # measured in June
"""


class Drill:
    """`drill batch` in a folder of its own, with quick steps."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.telemetry = folder / "t.jsonl"
        self.jobs = folder / "jobs.jsonl"
        self.router_yml = folder / "router.yml"
        self.router_yml.write_text(TWO_LANES)
        self._capsys = capsys

    def run(self, *flags: str) -> tuple[int, str, str]:
        """Exit status, standard output and error."""
        files = ["--jobs", str(self.jobs), "--telemetry", str(self.telemetry)]
        status = main(["drill", "batch", *files, "--count", "20", "--output-bytes", "16", "--step-ms", "0", *flags])
        shown = self._capsys.readouterr()
        return status, shown.out, shown.err

    def summary(self, *flags: str) -> dict[str, object]:
        """What `--json` says; the drill must succeed."""
        status, out, err = self.run(*flags, "--json")
        assert (status, err) == (0, "")
        summary: dict[str, object] = json.loads(out)
        return summary

    def lines(self) -> list[dict[str, object]]:
        """The telemetry."""
        return [json.loads(line) for line in self.telemetry.read_text().splitlines()]

    def outcomes(self, job_id: str) -> list[tuple[object, object, object]]:
        """The job's attempts: lane, number, outcome."""
        return [(n["lane"], n["attempt"], n["outcome"]) for n in self.lines() if n["job_id"] == job_id]

    def preempted(self, job: BatchJob, times: int, *, ago_ms: int = 0) -> None:
        """A batch of this job whose driver died so many times right after it dispatched it to the free lane.

        It was begun `ago_ms` ago.
        """
        write_jobs(self.jobs, [job])
        folder = BatchFolder(self.telemetry)
        with folder.held(), closing(BatchDatabase(folder.state_path)) as database:
            clock = FixedClock(SystemClock().now_ms() - ago_ms)
            state = BatchState(database, clock)
            state.begin("r", read_jobs(self.jobs, "r"), lambda job: f"r/{job.job_name}")
            clock.advance(ago_ms)
            for _ in range(times):
                state.give_up_open_attempts()
                with database.changing():
                    state.dispatch(job.job_name, "free")


@pytest.fixture
def drill(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Drill:
    """A drill without limits or ledger in its environment."""
    for name in ("LEDGER_PATH", "FREE_LANE_MAX_ATTEMPTS", "FREE_LANE_BUDGET_TOKENS"):
        monkeypatch.delenv(name, raising=False)
    return Drill(tmp_path, capsys)


def test_a_batch_runs_to_its_end_and_says_what_it_did(drill: Drill) -> None:
    """Jobs are written where there are none; each has one attempt, one line and one side effect."""
    summary = drill.summary()
    assert (summary["jobs"], summary["done"], summary["attempts"], summary["side_effects"]) == (20, 20, 20, 20)
    assert (summary["attempts_by_lane"], summary["failed"], summary["replays_refused"]) == ({"free": 20}, [], 0)
    assert len(drill.jobs.read_text().splitlines()) == len(drill.lines()) == 20
    assert main(["check", str(drill.telemetry)]) == 0


def test_a_batch_is_begun_once_and_resumed_as_often_as_one_likes(drill: Drill) -> None:
    """Without `--resume` the second start is refused; with it a finished batch has nothing left to do."""
    first = drill.summary("--resume")
    status, _, err = drill.run()
    assert (status, len(err.splitlines())) == (2, 1)
    assert "--resume" in err
    assert drill.summary("--resume") == first
    assert len(drill.lines()) == 20


def test_failed_attempts_are_used_up_and_the_next_lane_goes_on(drill: Drill) -> None:
    """Two attempts in the free lane by default, then paid; failures are not preemptions."""
    write_jobs(drill.jobs, [BatchJob(job_id="j", deadline_ms=36_000_000, output_bytes=16, fail_attempts=2)])
    summary = drill.summary()
    assert drill.outcomes("j") == [("free", 1, "failed"), ("free", 2, "failed"), ("paid", 1, "ok")]
    assert (summary["failed_attempts"], summary["preempted_attempts"], summary["done"]) == (2, 0, 1)


def test_a_job_that_no_lane_takes_any_more_is_failed_and_listed(drill: Drill) -> None:
    """Free twice, paid once, and that is all; the others are done."""
    late = 36_000_000
    write_jobs(
        drill.jobs,
        [
            BatchJob(job_id="bad", deadline_ms=late, output_bytes=8, fail_attempts=99),
            BatchJob(job_id="good", deadline_ms=late, output_bytes=8),
            BatchJob(job_id="careless", deadline_ms=late, output_bytes=8, idempotent=False),
        ],
    )
    summary = drill.summary("--config", str(drill.router_yml))
    assert [lane for lane, _, _ in drill.outcomes("bad")] == ["free", "free", "paid"]
    failed = summary["failed"]
    assert isinstance(failed, list)
    assert [(job["job_id"], job["reason"].split(":")[0]) for job in failed] == [
        ("bad", "no_lane_left"),
        ("careless", "not_idempotent"),
    ]
    assert (summary["done"], summary["failed_attempts"], summary["side_effects"]) == (1, 3, 1)
    status, out, _ = drill.run("--resume", "--config", str(drill.router_yml))
    assert status == 0
    assert "failed: bad: no_lane_left" in out


@pytest.mark.parametrize(("limit", "lanes"), [("1", ["free", "paid"]), ("2", ["free", "free"])])
def test_recovery_keeps_to_the_attempt_limit(
    drill: Drill, monkeypatch: pytest.MonkeyPatch, limit: str, lanes: list[str]
) -> None:
    """A dispatch that died counts as one, though it is a preemption and no failure."""
    monkeypatch.setenv("FREE_LANE_MAX_ATTEMPTS", limit)
    drill.preempted(BatchJob(job_id="j", deadline_ms=36_000_000, output_bytes=8), times=1)
    summary = drill.summary("--resume")
    assert [lane for lane, _, _ in drill.outcomes("j")] == lanes
    assert (summary["preempted_attempts"], summary["failed_attempts"], summary["done"]) == (1, 0, 1)
    assert drill.lines()[0]["interventions"] == 1


def test_recovery_dispatches_nothing_where_no_lane_is_left(drill: Drill) -> None:
    """One lane, both attempts preempted: the job has failed and is listed, nobody pays a third time."""
    drill.router_yml.write_text('router: {lanes: [{name: free, idempotency_key: "{{ job_id }}"}]}')
    drill.preempted(BatchJob(job_id="j", deadline_ms=36_000_000, output_bytes=8), times=2)
    summary = drill.summary("--resume", "--config", str(drill.router_yml))
    assert drill.outcomes("j") == [("free", 1, "preempted"), ("free", 2, "preempted")]
    assert (summary["done"], summary["failed_attempts"]) == (0, 0)
    assert "no_lane_left" in str(summary["failed"])


def test_an_attempt_waits_from_its_own_enqueue_and_the_job_ages_from_the_first(drill: Drill) -> None:
    """Begun six hours ago and due after ten: too old for the free lane, though the new attempt has just been queued."""
    six_hours_ms = 6 * 3_600_000
    drill.preempted(BatchJob(job_id="j", deadline_ms=10 * 3_600_000, output_bytes=8), times=1, ago_ms=six_hours_ms)
    drill.summary("--resume")
    first, second = drill.lines()
    assert (first["lane"], second["lane"]) == ("free", "paid")
    waits_s = [float(str(line["start_s"])) - float(str(line["enqueue_s"])) for line in (first, second)]
    assert abs(waits_s[0] - six_hours_ms / 1000) < 60
    assert waits_s[1] < 60


def test_the_free_lanes_token_budget_holds(drill: Drill, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its attempts together stay within the budget; what does not fit runs in the paid lane."""
    monkeypatch.setenv("FREE_LANE_BUDGET_TOKENS", "5000")
    assert drill.summary()["done"] == 20
    tokens = {"free": 0, "paid": 0}
    for line in drill.lines():
        tokens[str(line["lane"])] += int(str(line["tokens_in"])) + int(str(line["tokens_out"]))
    assert 4000 < tokens["free"] <= 5000
    assert tokens["paid"] > 5000


def test_a_count_of_zero_closes_the_free_lane(drill: Drill, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts of 0 are legal, and mean none."""
    monkeypatch.setenv("FREE_LANE_MAX_ATTEMPTS", "0")
    assert drill.summary()["attempts_by_lane"] == {"paid": 20}


def test_a_lane_under_an_action_gets_no_job(drill: Drill) -> None:
    """The switch file beside the telemetry holds for the drill as for everybody."""
    switch = LaneDrain(lane="free", action="abandon_lane")
    SwitchFile(drill.telemetry).change(switch, LedgerWriter(drill.telemetry, fsync=False))
    assert drill.summary()["attempts_by_lane"] == {"paid": 20}


def test_jobs_that_only_an_action_keeps_from_a_lane_wait_for_its_end(drill: Drill) -> None:
    """Both lanes closed: nothing is dispatched and nothing failed; once one is open again the batch goes on there."""
    switches, ledger = SwitchFile(drill.telemetry), LedgerWriter(drill.telemetry, fsync=False)
    for lane in ("free", "paid"):
        switches.change(LaneDrain(lane=lane, action="drain_and_reject"), ledger)
    status, out, err = drill.run("--json")
    closed = json.loads(out)
    assert (closed["done"], closed["left"], closed["failed"], closed["attempts"]) == (0, 20, [], 0)
    assert status != 0
    assert "jobs wait for 'act resume'; --resume goes on" in err
    switches.change(LaneResume(lane="paid"), ledger)
    opened = drill.summary("--resume")
    assert (opened["done"], opened["left"], opened["attempts_by_lane"]) == (20, 0, {"paid": 20})


def test_the_router_goes_by_what_the_telemetry_holds_already(drill: Drill) -> None:
    """20 jobs of another run that took two attempts each make the free lane too dear."""
    before = [line_of_another_run(str(n % 20), number=1 + n // 20) for n in range(40)]
    drill.telemetry.write_bytes(b"".join(before))
    assert drill.summary()["attempts_by_lane"] == {"paid": 20}


def line_of_another_run(job_id: str, *, number: int = 1, lane: str = "free") -> bytes:
    """An attempt line that is none of the drill's."""
    attempt = Attempt(
        job_id=job_id,
        lane=lane,
        attempt=number,
        enqueue_s=0,
        start_s=1.5,
        end_s=3.5,
        outcome="ok",
        tokens_in=1,
        tokens_out=1,
        interventions=0,
        run="other",
    )
    return msgspec.json.encode(attempt) + b"\n"


def test_a_line_that_was_written_before_the_kill_is_not_written_again(drill: Drill) -> None:
    """The process died after the line was on disk and before it could note that."""
    drill.summary()
    with closing(BatchDatabase(BatchFolder(drill.telemetry).state_path)) as database, database.changing() as connection:
        connection.execute("UPDATE attempts SET told = 0 WHERE sequence > 10")
    drill.telemetry.write_bytes(b"".join(drill.telemetry.read_bytes().splitlines(keepends=True)[:15]))
    drill.summary("--resume")
    lines = drill.lines()
    assert len(lines) == len({line["id"] for line in lines}) == 20


def test_a_driver_at_work_is_alone_stops_when_told_and_leaves_nothing_open(tmp_path: Path, drill: Drill) -> None:
    """A second driver is refused; SIGTERM lets what is in flight finish and counts no preemption."""
    with KilledBatch(tmp_path, "--count", "60", "--step-ms", "5") as batch:
        driver = batch.start()
        wait_until(lambda: batch.number("SELECT COUNT(*) FROM attempts") > 1)
        status, _, err = drill.run("--resume")
        assert (status, "another 'drill batch'" in err) == (2, True)
        driver.send_signal(signal.SIGTERM)
        out, err_bytes = driver.communicate(timeout=PATIENCE_S)
    assert (driver.returncode, err_bytes) == (130, b"drill batch: stopped; --resume goes on\n")
    assert b"0 preempted" in out
    assert batch.number("SELECT COUNT(*) FROM attempts WHERE end_ms IS NULL") == 0
    summary = drill.summary("--resume")
    assert (summary["done"], summary["attempts"]) == (60, 60)


def test_a_person_asks_what_happened_under_a_key(
    drill: Drill, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the telemetry's name, or bare where only one batch can be meant; keys stay as they were at the beginning."""
    drill.preempted(BatchJob(job_id="j", deadline_ms=36_000_000, output_bytes=8), times=0)
    drill.summary("--resume")
    status, out, _ = drill.run("--query", "r/j")
    assert status == 0
    assert "happened  1" in out
    assert "job j, lane free, attempt 1" in out
    monkeypatch.chdir(drill.folder)
    assert main(["drill", "batch", "--query", "r/k", "--json"]) == 0
    assert '"asked":0,"happened":0' in capsys.readouterr().out
    monkeypatch.setenv("LEDGER_PATH", "elsewhere.jsonl")
    assert main(["drill", "batch", "--query", "r/k"]) == 2


def test_cleanup_drops_telemetry_and_keys_and_sets_the_slack_back(drill: Drill) -> None:
    """Only the value in router.yml changes; the paid lane's measured requirement is rounded up to a second."""
    drill.telemetry.write_bytes(b"".join(line_of_another_run(str(n), lane="paid") for n in range(25)))
    drill.summary("--config", str(drill.router_yml), "--lane", "free")
    status, out, _ = drill.run("--cleanup", "--config", str(drill.router_yml))
    assert status == 0
    assert "holds 25 lines of others" in out
    assert drill.telemetry.exists()
    assert not BatchFolder(drill.telemetry).path.exists()
    assert drill.router_yml.read_text() == TWO_LANES.replace("require_slack_s: 60 ", "require_slack_s: 304 ")
    assert sorted(path.name for path in drill.folder.iterdir()) == ["jobs.jsonl", "router.yml", "t.jsonl"]


def test_cleanup_removes_telemetry_that_is_the_drills_alone(drill: Drill) -> None:
    """Without a config the slack is left alone; a second cleanup finds nothing and is content; a new batch begins."""
    drill.summary()
    assert drill.run("--cleanup")[0] == 0
    assert not drill.telemetry.exists()
    status, out, _ = drill.run("--cleanup")
    assert (status, "no batch there" in out) == (0, True)
    assert drill.router_yml.read_text() == TWO_LANES
    assert drill.summary()["side_effects"] == 20


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--cleanup", "--config", "ROUTER"], "--require-slack-s"),
        (["--cleanup", "--require-slack-s", "5"], "--config"),
        (["--require-slack-s", "5"], "--cleanup"),
        (["--config", "ROUTER", "--lane", "gold"], "free, paid"),
    ],
)
def test_what_cannot_be_done_is_refused_and_changes_nothing(drill: Drill, flags: list[str], words: str) -> None:
    """One line, exit 2, batch and router.yml as they were."""
    drill.summary()
    before = drill.telemetry.read_bytes()
    flags = [str(drill.router_yml) if flag == "ROUTER" else flag for flag in flags]
    status, _, err = drill.run(*flags, *([] if "--cleanup" in flags else ["--resume"]))
    assert (status, len(err.splitlines())) == (2, 1)
    assert words in err
    assert drill.telemetry.read_bytes() == before
    assert drill.router_yml.read_text() == TWO_LANES


def test_nothing_but_regular_files_is_replaced_or_removed(drill: Drill) -> None:
    """A pipe in the place of jobs, telemetry or router.yml is refused in one line and stays what it is."""
    pipe = drill.folder / "pipe"
    os.mkfifo(pipe)
    drill.summary()
    slack = ["--require-slack-s", "5"]
    for flags in (
        ["--jobs", str(pipe), "--resume"],
        ["--telemetry", str(pipe)],
        ["--telemetry", str(pipe), "--cleanup"],
    ):
        status, _, err = drill.run(*flags)
        assert (status, "not a regular file" in err) == (2, True), flags
    with pytest.raises(UsageError, match="not a regular file"):
        set_require_slack_s(pipe, 5, str)
    link = drill.folder / "link.yml"
    link.symlink_to(drill.router_yml)
    assert drill.run("--cleanup", "--config", str(link), *slack)[0] == 0
    assert link.is_symlink()
    assert "require_slack_s: 5 " in drill.router_yml.read_text()
    assert pipe.is_fifo()
    assert not pipe.with_name("pipe.batch").exists()


def test_cleanup_waits_for_what_is_in_flight(tmp_path: Path, drill: Drill) -> None:
    """The driver at work finishes its attempt, dispatches nothing more and leaves; then everything is dropped."""
    with KilledBatch(tmp_path, "--count", "200", "--step-ms", "5") as batch:
        driver = batch.start()
        wait_until(lambda: batch.number("SELECT COUNT(*) FROM attempts") > 1)
        assert driver.poll() is None
        assert drill.run("--cleanup")[0] == 0
        out, err = driver.communicate(timeout=PATIENCE_S)
    assert driver.returncode == 130
    assert b"0 preempted" in out
    assert err == b"drill batch: stopped by --cleanup, which drops the batch; a new one begins without --resume\n"
    assert not batch.telemetry.exists()
    assert not batch.state.parent.exists()
