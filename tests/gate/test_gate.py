"""The gate's operations: what they decide, what they write, what they refuse."""

from pathlib import Path

import pytest

from preempt_exporter.errors import LedgerWriteError, UnreadableInput, UsageError
from preempt_exporter.gate.request import TaskRequest
from preempt_exporter.gate.settings import GateSettings
from preempt_exporter.gate.switches import SwitchFile
from preempt_exporter.ledger.records import (
    Admit,
    Checkpoint,
    Complete,
    Drain,
    Enqueue,
    Heartbeat,
    LaneDrain,
    LaneResume,
    Mode,
    Preempt,
    Record,
    Reject,
    RunClose,
    RunResume,
    RunStop,
)
from preempt_exporter.ledger.writer import LedgerWriter
from preempt_exporter.settings import TaskDefaults, Thresholds
from tests.gate.gates import KEY, REQUEST, START_MS, FailingSink, Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """An empty ledger."""
    return Place(tmp_path)


def test_a_life_without_preemption(place: Place) -> None:
    """Enqueue, admit, checkpoint, complete: a line each, with everything that those who watch need."""
    gate = place.gate()
    assert gate.enqueue(KEY, REQUEST).outcome == "queued"
    place.clock.advance(1000)
    admitted = gate.admit(KEY, REQUEST)
    assert (admitted.outcome, admitted.verdict, admitted.queue_age_ms) == ("admitted", "admit", 1000)
    assert gate.checkpoint(KEY, checkpoint_tokens=100, input_digest="sha256:aa").checkpoint_tokens == 100
    done = gate.complete(KEY, output_tokens=200)
    assert (done.outcome, done.state, done.restart_tokens) == ("recorded", "complete", 0)
    enqueue, admit, checkpoint, complete = place.records()
    assert isinstance(enqueue, Enqueue)
    assert isinstance(admit, Admit)
    assert isinstance(checkpoint, Checkpoint)
    assert isinstance(complete, Complete)
    assert (admit.run, admit.task_id, admit.lane, admit.host) == ("r", "t", "free", "h1")
    assert (admit.queue_age_ms, admit.deadline_slack_ms, admit.preempts) == (1000, 119_000, 0)
    assert (admit.enqueued_ms, admit.deadline_ms, admit.task_budget) == (START_MS, 120_000, 10_000)
    assert (admit.prompt_tokens, admit.target_tokens, checkpoint.input_digest) == (800, 200, "sha256:aa")
    assert (complete.output_tokens, complete.restart_tokens) == (200, 0)
    ids = [record.id for record in (enqueue, admit, checkpoint, complete)]
    assert len(set(ids)) == 4
    assert all(line_id is not None and line_id.startswith("gate-") for line_id in ids)


def test_a_preemption_wastes_prompt_and_progress_since_the_checkpoint(place: Place) -> None:
    """800 + 140 - 100, twice told: progress falls back to the checkpoint."""
    gate = place.gate()
    gate.admit(KEY, REQUEST)
    gate.checkpoint(KEY, checkpoint_tokens=100)
    gate.heartbeat(KEY, output_tokens=140)
    first = gate.preempt(KEY)
    assert (first.wasted_tokens, first.restart_tokens, first.preempts, first.state) == (840, 840, 1, "preempted")
    again = gate.admit(KEY, REQUEST)
    assert (again.outcome, again.checkpoint_tokens) == ("admitted", 100)
    second = gate.preempt(KEY)
    assert (second.wasted_tokens, second.restart_tokens, second.preempts) == (800, 1640, 2)
    line = place.records()[-1]
    assert isinstance(line, Preempt)
    assert (line.wasted_tokens, line.restart_tokens, line.preempts, line.host) == (800, 1640, 2, "h1")


def test_a_preemption_may_say_how_far_the_worker_had_got(place: Place) -> None:
    """Better known than from the last sign of life: 800 + 30."""
    gate = place.gate()
    gate.admit(KEY, REQUEST)
    assert gate.preempt(KEY, output_tokens=30).wasted_tokens == 830


def test_a_third_start_never_begins_and_the_task_is_failed_instead(place: Place) -> None:
    """After two preemptions admission is refused, and reject and drain stand in one write."""
    gate = place.gate()
    for _ in range(2):
        assert gate.admit(KEY, REQUEST).outcome == "admitted"
        gate.preempt(KEY)
    refused = gate.admit(KEY, REQUEST)
    assert (refused.outcome, refused.verdict, refused.reason) == ("rejected", "reject_preempt_budget", "preempt_budget")
    assert (refused.drained, refused.state) == (True, "drained")
    reject, drain = place.records()[-2:]
    assert isinstance(reject, Reject)
    assert isinstance(drain, Drain)
    assert (reject.reason, drain.action) == ("preempt_budget", "fail_task_not_replay")
    assert (gate.admit(KEY, REQUEST).outcome, gate.admit(KEY, REQUEST).reason) == ("refused", "ended")
    assert place.events().count("admit") == 2


def test_restart_tokens_over_the_budget_drain_the_task(place: Place) -> None:
    """840 wasted of a budget of 1000 at a fraction of 0.2; at 4200 the fraction is met and not exceeded."""
    gate = place.gate()
    for task, budget, outcome in (
        ("small", 1000, "rejected"),
        ("exact", 4200, "admitted"),
        ("under", 4199, "rejected"),
    ):
        request = TaskRequest(prompt_tokens=800, deadline_ms=120_000, task_budget=budget)
        gate.admit(("r", task), request)
        assert gate.preempt(("r", task), output_tokens=40).wasted_tokens == 840
        assert gate.admit(("r", task), request).outcome == outcome


def test_a_rejected_task_keeps_its_enqueue_moment_and_can_come_back(place: Place) -> None:
    """A draining lane rejects; once resumed the same life is admitted, as old as it is."""
    gate, switches = place.gate(), SwitchFile(place.ledger)
    sink = LedgerWriter(place.ledger, fsync=False)
    switches.change(LaneDrain(lane="free", action="reject_enqueue", ts_ms=1), sink)
    rejected = gate.admit(KEY, REQUEST)
    assert (rejected.outcome, rejected.reason, rejected.state) == ("rejected", "drain_mode", "rejected")
    assert rejected.drained is False
    switches.change(LaneResume(lane="free", ts_ms=2), sink)
    place.clock.advance(5000)
    assert gate.enqueue(KEY, REQUEST).queue_age_ms == 5000
    assert gate.admit(KEY, REQUEST).queue_age_ms == 5000
    assert place.events() == ["lane_drain", "enqueue", "reject", "lane_resume", "enqueue", "admit"]
    assert {record.enqueued_ms for record in place.records() if isinstance(record, Enqueue | Admit)} == {START_MS}


@pytest.mark.parametrize("before", ["queued", "rejected", "preempted"])
def test_limits_said_with_a_rejected_admission_stand_on_the_ledger(place: Place, before: str) -> None:
    """What a rejected admission said of its task is answered, written and holds for the next, after a restart too."""
    gate = place.gate()
    gate.enqueue(KEY, TaskRequest(lane="free", deadline_ms=3_600_000))
    if before == "rejected":
        place.clock.advance(1_800_001)
        gate.admit(KEY, TaskRequest())
    elif before == "preempted":
        gate.admit(KEY, TaskRequest())
        gate.preempt(KEY)
    place.clock.advance(600)
    late = gate.admit(KEY, TaskRequest(deadline_ms=1000, task_budget=50))
    age_ms = late.queue_age_ms
    assert age_ms is not None
    assert (late.outcome, late.deadline_slack_ms) == ("rejected", 1000 - age_ms)
    rejects = [record for record in place.records() if isinstance(record, Reject)]
    enqueues = [record for record in place.records() if isinstance(record, Enqueue)]
    assert rejects[-1].deadline_slack_ms == late.deadline_slack_ms
    assert (enqueues[-1].enqueued_ms, enqueues[-1].deadline_ms, enqueues[-1].task_budget) == (START_MS, 1000, 50)
    lines = len(place.records())
    again = place.gate().admit(KEY, TaskRequest())
    if before == "preempted":
        assert (again.outcome, again.reason) == ("refused", "ended")
    else:
        assert (again.outcome, again.deadline_slack_ms) == ("rejected", 1000 - age_ms)
        assert place.events()[lines:] == ["reject"]


def drain(place: Place, action: str) -> None:
    """Put the lane `free` under `action`."""
    SwitchFile(place.ledger).change(LaneDrain(lane="free", action=action), LedgerWriter(place.ledger, fsync=False))


@pytest.mark.parametrize("action", ["reject_enqueue", "drain_and_reject", "abandon_lane", "route_to_paid"])
def test_a_draining_lane_finishes_what_is_in_flight(place: Place, action: str) -> None:
    """Running tasks go on under every action; all but `route_to_paid` admit no new one."""
    gate = place.gate()
    gate.admit(KEY, REQUEST)
    drain(place, action)
    assert gate.in_flight("free") == 1
    assert gate.heartbeat(KEY).outcome == "recorded"
    assert gate.admit(("r", "new"), REQUEST).outcome == ("admitted" if action == "route_to_paid" else "rejected")
    assert gate.complete(KEY).state == "complete"


@pytest.mark.parametrize("action", ["reject_enqueue", "route_to_paid"])
def test_a_lane_that_takes_no_new_tasks_replays_the_old_ones(place: Place, action: str) -> None:
    """A preemption there is one line, and the task is admitted again."""
    gate = place.gate()
    gate.admit(KEY, REQUEST)
    drain(place, action)
    lost = gate.preempt(KEY)
    assert (lost.state, lost.drained, lost.verdict) == ("preempted", False, None)
    assert place.events()[-1] == "preempt"
    assert gate.admit(KEY, REQUEST).outcome == "admitted"


@pytest.mark.parametrize("action", ["drain_and_reject", "abandon_lane"])
@pytest.mark.parametrize("seen", [True, False])
def test_in_a_lane_that_replays_nothing_a_task_fails_with_its_preemption(
    place: Place, action: str, *, seen: bool
) -> None:
    """In one write with the `preempt`, whether the loss was seen or inferred, and with totals that count it."""
    writes: list[int] = []

    class CountingWrites(LedgerWriter):
        def append(self, *records: Record) -> None:
            writes.append(len(records))
            super().append(*records)

    gate = place.gate(sink=CountingWrites(place.ledger, fsync=False))
    gate.admit(KEY, REQUEST)
    gate.heartbeat(KEY, output_tokens=30, next_within_ms=1000)
    drain(place, action)
    writes.clear()
    place.clock.advance(1001)
    if seen:
        lost = gate.preempt(KEY)
        assert (lost.outcome, lost.verdict, lost.reason) == ("recorded", "reject_drain_mode", "drain_mode")
        assert (lost.state, lost.drained, lost.wasted_tokens, lost.preempts) == ("drained", True, 830, 1)
    else:
        assert gate.reap() == [KEY]
    assert (writes, place.events()[-3:]) == ([3], ["preempt", "reject", "drain"])
    reject = place.records()[-2]
    assert isinstance(reject, Reject)
    assert (reject.reason, reject.preempts, reject.restart_tokens) == ("drain_mode", 1, 830)
    for known in (gate, place.gate()):
        assert (known.about(KEY) or lost).state == "drained"
        assert known.admit(KEY, REQUEST).reason == "ended"


def test_a_preemption_is_told_while_the_switch_file_cannot_be_read(place: Place) -> None:
    """What happened is written down; whether the task is replayed is decided at its next admission."""
    gate = place.gate()
    gate.admit(KEY, REQUEST)
    SwitchFile(place.ledger).path.write_text("{")
    assert gate.preempt(KEY).state == "preempted"
    assert place.events()[-1] == "preempt"


def test_the_mode_of_the_switch_file_holds_over_the_initial_one(place: Place) -> None:
    """Forced rejection from the start, then switched to normal, without a restart."""
    gate = place.gate(GateSettings(initial_mode="reject_preempt_budget"))
    assert gate.admit(KEY, REQUEST).verdict == "reject_preempt_budget"
    SwitchFile(place.ledger).change(Mode(mode="normal"), LedgerWriter(place.ledger, fsync=False))
    assert gate.admit(KEY, REQUEST).verdict == "admit"


def test_a_stopped_run_starts_nothing_and_loses_nothing(place: Place) -> None:
    """Refused without a line, so that the task waits until the run is resumed; other runs go on."""
    gate, switches = place.gate(), SwitchFile(place.ledger)
    sink = LedgerWriter(place.ledger, fsync=False)
    switches.change(RunStop(run="r"), sink)
    assert gate.enqueue(KEY, REQUEST).outcome == "queued"
    assert gate.admit(KEY, REQUEST).reason == "run_stopped"
    assert gate.admit(("other", "t"), REQUEST).outcome == "admitted"
    switches.change(RunResume(run="r"), sink)
    assert gate.admit(KEY, REQUEST).outcome == "admitted"


def test_a_switch_file_that_cannot_be_read_admits_nothing(place: Place) -> None:
    """A drain may stand there."""
    gate = place.gate()
    SwitchFile(place.ledger).path.write_text("{")
    with pytest.raises(UnreadableInput, match="is no switch file"):
        gate.admit(KEY, REQUEST)
    assert place.events() == []


def test_a_second_start_while_it_runs_is_refused(place: Place) -> None:
    """Two workers, one slot; the line count stays."""
    gate = place.gate()
    gate.admit(KEY, REQUEST)
    assert gate.admit(KEY, REQUEST).reason == "already_running"
    assert gate.enqueue(KEY, REQUEST).reason == "already_live"
    assert place.events() == ["admit"]


@pytest.mark.parametrize("end", ["complete", "drain"])
def test_an_ended_task_starts_again_only_as_a_new_life(place: Place, end: str) -> None:
    """Refused for ever, and with `new_life` a fresh life with fresh totals."""
    gate = place.gate()
    gate.admit(KEY, REQUEST)
    gate.preempt(KEY)
    gate.admit(KEY, REQUEST)
    getattr(gate, end)(KEY)
    for refused in (gate.admit(KEY, REQUEST), gate.enqueue(KEY, REQUEST), gate.heartbeat(KEY), gate.drain(KEY)):
        assert (refused.outcome, refused.reason) == ("refused", "ended")
    again = gate.admit(KEY, TaskRequest(deadline_ms=60_000, new_life=True))
    assert (again.outcome, again.preempts, again.restart_tokens, again.queue_age_ms) == ("admitted", 0, 0, 0)


def test_a_worker_that_lost_its_slot_is_told(place: Place) -> None:
    """Heartbeat, checkpoint, preempt and complete of a task that does not run are refused and written nowhere."""
    gate = place.gate()
    assert gate.heartbeat(KEY).reason == "unknown_task"
    gate.admit(KEY, REQUEST)
    gate.preempt(KEY)
    lines = place.events()
    for answer in (
        gate.heartbeat(KEY),
        gate.checkpoint(KEY, checkpoint_tokens=5),
        gate.preempt(KEY),
        gate.complete(KEY),
    ):
        assert (answer.outcome, answer.reason) == ("refused", "not_running")
    assert place.events() == lines


def test_a_worker_that_cannot_have_lost_its_slot_runs_again(place: Place) -> None:
    """A heartbeat that says so undoes a preemption that was inferred, and no end."""
    gate = place.gate()
    gate.admit(KEY, REQUEST)
    gate.preempt(KEY, inferred=True)
    again = gate.heartbeat(KEY, still_holds_slot=True)
    assert (again.outcome, again.state, again.preempts) == ("recorded", "running", 1)
    gate.complete(KEY)
    assert gate.heartbeat(KEY, still_holds_slot=True).reason == "ended"


def test_a_checkpoint_of_another_input_is_refused(place: Place) -> None:
    """A changed prompt must not resume from the old prompt's progress."""
    gate = place.gate()
    gate.admit(KEY, REQUEST)
    gate.checkpoint(KEY, checkpoint_tokens=100, input_digest="sha256:aa")
    refused = gate.checkpoint(KEY, checkpoint_tokens=200, input_digest="sha256:bb")
    assert (refused.outcome, refused.reason, refused.checkpoint_tokens) == ("refused", "digest_mismatch", 100)
    assert gate.checkpoint(KEY, checkpoint_tokens=200, input_digest="sha256:aa").outcome == "recorded"
    assert gate.checkpoint(KEY, checkpoint_tokens=200).outcome == "recorded"


def test_reap_declares_lost_what_broke_its_promise(place: Place) -> None:
    """At the promised moment nothing, a millisecond later an inferred preemption; renewed promises keep the slot."""
    gate = place.gate()
    for task in ("silent", "loud", "promised nothing"):
        gate.admit(("r", task), REQUEST)
    for task in ("silent", "loud"):
        gate.heartbeat(("r", task), output_tokens=30, next_within_ms=1000)
    place.clock.advance(1000)
    assert gate.reap() == []
    gate.heartbeat(("r", "loud"))
    place.clock.advance(1)
    assert gate.reap() == [("r", "silent")]
    line = place.records()[-1]
    assert isinstance(line, Preempt)
    assert (line.task_id, line.inferred, line.wasted_tokens) == ("silent", True, 830)
    assert gate.reap() == []
    assert gate.admit(("r", "silent"), REQUEST).preempts == 1


def test_without_a_promise_the_gates_own_patience_counts(place: Place) -> None:
    """`silent_after_ms` reaps a worker that was admitted and never heard of."""
    gate = place.gate(GateSettings(silent_after_ms=500))
    gate.admit(KEY, REQUEST)
    place.clock.advance(501)
    assert gate.reap() == [KEY]


def test_tasks_of_others_are_theirs(place: Place) -> None:
    """A task that a wrapper, or a harness, enqueued is refused here, also one that appears after the start."""
    gate = place.gate()
    others = LedgerWriter(place.ledger, fsync=False)
    others.append(Enqueue(task_id="w", run="r", ts_ms=START_MS, deadline_ms=1000, id="run-x-1"))
    assert gate.admit(("r", "w"), REQUEST).reason == "not_owner"
    assert gate.drain(("r", "w")).reason == "not_owner"
    assert gate.owns(("r", "w")) is False
    others.append(Drain(task_id="w", run="r", ts_ms=START_MS, action="fail_task_not_replay", id="run-x-2"))
    assert gate.admit(("r", "w"), REQUEST).reason == "ended"
    assert gate.admit(("r", "w"), TaskRequest(deadline_ms=9, new_life=True)).outcome == "admitted"
    assert gate.owns(("r", "w")) is True


def test_a_wrapper_decides_about_tasks_of_wrappers_and_harnesses(place: Place) -> None:
    """With another owner the same gate serves a process about one task, and leaves the control service's alone."""
    place.gate().enqueue(("r", "theirs"), REQUEST)
    harness = LedgerWriter(place.ledger, fsync=False, new_name=lambda: "")
    harness.append(Enqueue(task_id="t", run="r", ts_ms=START_MS, deadline_ms=1000, id="harness"))
    wrapper = GateSettings(owner="run", adopts=frozenset({"run", ""}))
    gate = place.gate(wrapper, keep=lambda key: key in (KEY, ("r", "theirs")))
    assert gate.admit(KEY, TaskRequest()).outcome == "admitted"
    assert gate.admit(("r", "theirs"), TaskRequest()).reason == "not_owner"
    assert place.gate().admit(KEY, REQUEST).reason == "not_owner"


def test_defaults_fill_what_the_request_leaves_out_and_stand_on_the_line(place: Place) -> None:
    """So that those who watch know the limits that were decided by."""
    gate = place.gate(GateSettings(defaults=TaskDefaults(deadline_ms=500, task_budget=9), lane_default="spot"))
    gate.admit(KEY, TaskRequest())
    line = place.records()[-1]
    assert isinstance(line, Admit)
    assert (line.deadline_ms, line.task_budget, line.lane, line.deadline_slack_ms) == (500, 9, "spot", 500)


def test_without_a_deadline_a_task_runs_and_no_line_invents_one(place: Place) -> None:
    """An `admit` line would have to name a slack: the task is enqueued, and a heartbeat makes it running."""
    gate = place.gate()
    answer = gate.admit(KEY, TaskRequest(prompt_tokens=10))
    assert (answer.verdict, answer.state, answer.deadline_slack_ms) == ("admit", "running", None)
    assert place.events() == ["enqueue", "heartbeat"]
    gate.preempt(KEY)
    assert gate.admit(KEY, TaskRequest()).outcome == "admitted"
    gate.preempt(KEY)
    rejected = place.gate().admit(KEY, TaskRequest())
    assert (rejected.outcome, rejected.state) == ("rejected", "drained")


def test_enqueued_earlier_counts_and_the_future_does_not(place: Place) -> None:
    """A queue's own moment of enqueue ages the task; one that is ahead of our clock is now."""
    gate = place.gate()
    old = TaskRequest(deadline_ms=1000, enqueued_ms=START_MS - 501)
    assert gate.admit(("r", "old"), old).verdict == "reject_queue_age"
    early = TaskRequest(deadline_ms=1000, enqueued_ms=START_MS + 501)
    assert gate.admit(("r", "early"), early).queue_age_ms == 0


def test_a_restart_that_cannot_finish_is_rejected_where_configured(place: Place) -> None:
    """Measured: no wait, 100 tokens per 10 s; 300 tokens of prompt and 100 of output left need 40 s."""
    settings = GateSettings(thresholds=Thresholds(restart_must_fit=True, queue_age_frac=1))
    gate = place.gate(settings)
    gate.admit(("r", "teacher"), REQUEST)
    place.clock.advance(10_000)
    gate.checkpoint(("r", "teacher"), checkpoint_tokens=100)
    for deadline_ms, verdict in ((40_000, "admit"), (39_999, "reject_restart_cannot_finish")):
        request = TaskRequest(lane="free", prompt_tokens=300, target_tokens=100, deadline_ms=deadline_ms)
        assert gate.admit(("r", str(deadline_ms)), request).verdict == verdict


def test_what_a_reader_would_refuse_is_not_written(place: Place) -> None:
    """A negative count is a usage error, and the task stays as it was."""
    gate = place.gate()
    gate.admit(KEY, REQUEST)
    with pytest.raises(UsageError):
        gate.checkpoint(KEY, checkpoint_tokens=-1)
    assert place.events() == ["admit"]
    assert gate.checkpoint(KEY, checkpoint_tokens=1).outcome == "recorded"


def test_closing_a_run_forgets_its_ended_tasks(place: Place) -> None:
    """The batch is handed over; the same ids may begin again in the next."""
    gate = place.gate()
    gate.admit(KEY, REQUEST)
    gate.complete(KEY)
    LedgerWriter(place.ledger, fsync=False).append(RunClose(run="r"))
    gate.in_flight("free")
    assert gate.about(KEY) is None


def test_a_disk_that_refuses_is_told_and_nothing_moves(place: Place) -> None:
    """Admission fails closed; once the disk takes lines again the task is decided as before."""
    sink = FailingSink(place.ledger, good=1)
    gate = place.gate(sink=sink)
    gate.enqueue(KEY, REQUEST)
    with pytest.raises(LedgerWriteError):
        gate.admit(KEY, REQUEST)
    about = gate.about(KEY)
    assert about is not None
    assert about.state == "queued"
    sink.good = 1
    assert gate.admit(KEY, REQUEST).outcome == "admitted"


@pytest.mark.parametrize("leaves", ["all", "first", "torn"])
def test_what_the_disk_holds_after_all_is_read_before_the_next_decision(place: Place, leaves: str) -> None:
    """A write that failed after the bytes were down: the totals count, and nobody is locked out."""
    sink = FailingSink(place.ledger, good=2, leaves=leaves)
    gate = place.gate(sink=sink)
    gate.admit(KEY, REQUEST)
    gate.preempt(KEY)
    with pytest.raises(LedgerWriteError):
        gate.admit(KEY, REQUEST)
    sink.good = 9
    assert gate.admit(KEY, REQUEST).outcome == "admitted"
    assert gate.preempt(KEY).preempts == 2
    assert gate.admit(KEY, REQUEST).outcome == "rejected"


def test_a_preemption_that_was_reported_as_failed_counts_once(place: Place) -> None:
    """The disk had the line: the retry hears that the slot is lost already, and no waste is told twice."""
    sink = FailingSink(place.ledger, good=1, leaves="all")
    gate = place.gate(sink=sink)
    gate.admit(KEY, REQUEST)
    with pytest.raises(LedgerWriteError):
        gate.preempt(KEY)
    sink.good = 9
    retried = gate.preempt(KEY)
    assert (retried.outcome, retried.reason, retried.preempts) == ("refused", "not_running", 1)
    assert place.events() == ["admit", "preempt"]


def test_a_line_that_becomes_whole_later_still_counts(place: Place) -> None:
    """All but the newline was written, and the next writer's newline made a line of it."""
    sink = FailingSink(place.ledger, good=1, leaves="all but the newline")
    gate = place.gate(sink=sink)
    gate.admit(KEY, REQUEST)
    with pytest.raises(LedgerWriteError):
        gate.preempt(KEY)
    sink.good = 9
    about = gate.about(KEY)
    assert about is not None
    assert about.state == "running"
    gate.enqueue(("r", "other"), REQUEST)
    about = gate.about(KEY)
    assert about is not None
    assert (about.state, about.preempts) == ("preempted", 1)


def test_heartbeats_are_lines_too(place: Place) -> None:
    """Every change is on the ledger, with its promise."""
    gate = place.gate()
    gate.admit(KEY, REQUEST)
    gate.heartbeat(KEY, output_tokens=7, next_within_ms=30_000)
    line = place.records()[-1]
    assert isinstance(line, Heartbeat)
    assert (line.output_tokens, line.next_within_ms) == (7, 30_000)
