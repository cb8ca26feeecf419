"""What happens at night, from ledger lines through the exporter's scrape into promtool."""

from pathlib import Path

from .story import Story, pages, without_room

MINUTE_MS = 60_000
HOUR_S = 3_600


def test_a_quiet_queue_raises_nothing(tmp_path: Path) -> None:
    """Tasks came and were completed; for half an hour there is nothing: no alert, and nothing is absent."""
    story = Story(tmp_path)
    for n in range(5):
        story.write("enqueue", f"t-{n}", 1_000, deadline_ms=600_000, task_budget=1000)
        story.write("admit", f"t-{n}", 2_000, queue_age_ms=1_000, deadline_slack_ms=599_000, preempts=0)
    story.until(60)
    for n in range(5):
        story.write("complete", f"t-{n}", 61_000, output_tokens=500, restart_tokens=0)
    story.until(1_860)
    assert story.firing(60, 300, 900, 1_860) == [set(), set(), set(), set()]


def test_a_queue_that_is_quiet_because_work_was_dropped_says_so(tmp_path: Path) -> None:
    """The queue is empty as before, but its tasks were rejected."""
    story = Story(tmp_path)
    story.write("enqueue", "t-0", 1_000, deadline_ms=600_000)
    story.until(60)
    story.write("reject", "t-0", 61_000, reason="queue_age")
    story.until(600)
    assert story.firing(60, 300) == [set(), {"WorkDropped ticket"}]


def test_at_02_14_one_preemption_of_a_prompt_heavy_task_pages(tmp_path: Path) -> None:
    """Queue age 11 minutes, slack 8, one preemption: its restart tokens page, its age is a ticket."""
    story = Story(tmp_path)
    story.write("enqueue", "t-7", 0, deadline_ms=19 * MINUTE_MS, task_budget=1000, prompt_tokens=800, run="nightly")
    story.write(
        "admit", "t-7", 1_000, queue_age_ms=1_000, deadline_slack_ms=19 * MINUTE_MS - 1_000, preempts=0, run="nightly"
    )
    story.until(10 * 60)
    story.write("preempt", "t-7", 10 * MINUTE_MS + 1, wasted_tokens=840, restart_tokens=840, preempts=1, run="nightly")
    story.until(11 * 60)
    before, at_02_14 = story.firing(9 * 60, 11 * 60)
    assert before == set()
    assert at_02_14 == {
        "RestartTokensBeatSlack page",
        "LaneRestartTokensBeatSlack page",
        "QueueAgeHalfDeadline ticket",
        "LaneQueueAgeHalfDeadline ticket",
    }


def test_300_tasks_reclaimed_at_once_are_one_event(tmp_path: Path) -> None:
    """The lane pages as reclaimed within a scrape, and what else pages is what that alert holds back."""
    story = Story(tmp_path)
    for n in range(300):
        story.write("enqueue", f"t-{n}", 1_000, deadline_ms=6 * HOUR_S * 1000, task_budget=1000, prompt_tokens=500)
        story.write(
            "admit", f"t-{n}", 2_000, queue_age_ms=1_000, deadline_slack_ms=6 * HOUR_S * 1000 - 1_000, preempts=0
        )
    story.until(330)
    for n in range(300):
        story.write("preempt", f"t-{n}", 331_000, wasted_tokens=700, restart_tokens=700, preempts=1)
    story.until(600)
    before, at_once, later = story.firing(330, 345, 600)
    assert before == set()
    held_back = {"RestartTokensBeatSlack", "LaneRestartTokensBeatSlack"}
    assert pages(at_once) == pages(later) == {"LaneReclaimed", *held_back}


def test_a_lane_that_was_born_with_its_reclaim_is_seen(tmp_path: Path) -> None:
    """All of it happens between two scrapes of a lane that nobody had configured."""
    story = Story(tmp_path)
    story.until(600)
    for n in range(40):
        story.write("admit", f"t-{n}", 601_000, queue_age_ms=0, deadline_slack_ms=9_000_000, preempts=0, lane="new")
        story.write("preempt", f"t-{n}", 602_000, wasted_tokens=1, restart_tokens=1, preempts=1, lane="new")
    story.until(700)
    assert "LaneReclaimed page" in story.firing(630)[0]


def test_when_the_exporters_host_dies_with_live_tasks_someone_is_woken(tmp_path: Path) -> None:
    """Alerts of its tasks end because nobody looks; the exporter's own page takes their place and stays."""
    story = Story(tmp_path)
    story.write("enqueue", "t-7", 1_000, deadline_ms=600_000, task_budget=1000)
    story.write("admit", "t-7", 2_000, queue_age_ms=1_000, deadline_slack_ms=599_000, preempts=0)
    story.write("preempt", "t-7", 3_000, wasted_tokens=840, restart_tokens=840, preempts=1)
    story.until(120)
    story.is_up = False
    story.until(2 * HOUR_S)
    before, blip, dead, long_dead = story.firing(120, 180, 270, 2 * HOUR_S)
    assert pages(before) == {"RestartTokensBeatSlack", "LaneRestartTokensBeatSlack"}
    assert "ExporterDownTasksLive page" not in blip
    assert "ExporterDownTasksLive page" in dead
    assert pages(long_dead) == {"ExporterDownTasksLive"}


def test_an_idle_exporter_that_dies_is_a_ticket(tmp_path: Path) -> None:
    """Without live tasks nobody is woken."""
    story = Story(tmp_path)
    story.until(120)
    story.is_up = False
    story.until(900)
    assert story.firing(900) == [{"ExporterDown ticket"}]


def test_an_exporter_that_restarts_and_reads_all_again_raises_nothing_new(tmp_path: Path) -> None:
    """300 preemptions of an hour ago are history, whoever counts them anew."""
    story = Story(tmp_path)
    for n in range(300):
        story.write("admit", f"t-{n}", 2_000, queue_age_ms=0, deadline_slack_ms=90_000_000, preempts=0)
        story.write("preempt", f"t-{n}", 3_000, wasted_tokens=1, restart_tokens=1, preempts=1)
    story.until(60 * 60)
    story.is_up = False
    story.until(60 * 60 + 45)
    story.is_up = True
    story.start()
    story.until(60 * 60 + 900)
    assert story.firing(3_600, 3_690, 3_900, 4_200) == [set(), set(), set(), set()]


def test_a_full_disk_under_the_ledger_is_told_before_and_after(tmp_path: Path) -> None:
    """No room is a ticket; then a torn line, then silence from every task: the ledger is named."""
    story = Story(tmp_path)
    for n in range(3):
        story.write("admit", f"t-{n}", 1_000, queue_age_ms=0, deadline_slack_ms=9_000_000, preempts=0)
        story.write("heartbeat", f"t-{n}", 2_000, next_within_ms=30_000)
    story.until(30)
    story.reading = without_room(story.reading)
    story.append('{"event": "heartbeat", "task_id": "t-0", "ts_')
    story.until(900)
    torn, silent = story.firing(60, 600)
    assert torn == {"LedgerLineErrors ticket"}
    assert silent == {"LedgerLineErrors ticket", "LedgerDiskLow ticket", "LedgerSilent ticket", "TasksSilent ticket"}


def test_a_worker_that_vanishes_is_told_apart_from_a_ledger_that_stops(tmp_path: Path) -> None:
    """One of two workers falls silent: its task is to be reclaimed, and the ledger is well."""
    story = Story(tmp_path)
    for task in ("stays", "vanishes"):
        story.write("admit", task, 1_000, queue_age_ms=0, deadline_slack_ms=9_000_000, preempts=0)
        story.write("heartbeat", task, 2_000, next_within_ms=40_000)
    story.until(600, lambda now_ms: story.write("heartbeat", "stays", now_ms, next_within_ms=40_000))
    assert story.firing(60, 300) == [set(), {"TasksSilent ticket"}]


def test_a_nightly_batch_on_course_pages_nobody(tmp_path: Path) -> None:
    """40 tasks of 25 minutes on 4 slots with 5 hours: half of them wait past half their deadline, and all is well.

    Checkpoints keep what a restart would cost below the slack, down to the last task.
    """
    story = Story(tmp_path, every_s=60)
    deadline_ms = 5 * HOUR_S * 1000
    run = {"run": "nightly"}
    story.append(f'{{"event": "run_open", "run": "nightly", "ts_ms": 0, "deadline_ms": {deadline_ms}, "tasks": 40}}')
    for n in range(40):
        story.write(
            "enqueue",
            f"t-{n}",
            0,
            deadline_ms=deadline_ms,
            task_budget=20_000,
            prompt_tokens=1_000,
            target_tokens=5_000,
            **run,
        )

    def batch(now_ms: int) -> None:
        wave, minute = divmod(now_ms // MINUTE_MS, 25)
        for n in range(wave * 4, min(wave * 4 + 4, 40)):
            if minute == 0:
                slack_ms = deadline_ms - now_ms
                story.write(
                    "admit", f"t-{n}", now_ms, queue_age_ms=now_ms, deadline_slack_ms=slack_ms, preempts=0, **run
                )
            elif minute == 24:
                story.write("complete", f"t-{n}", now_ms, output_tokens=5_000, restart_tokens=0, **run)
            else:
                tokens = 5_000 * minute // 24
                story.write("checkpoint", f"t-{n}", now_ms, checkpoint_tokens=tokens, output_tokens=tokens, **run)

    story.until(5 * HOUR_S + 1_800, batch)
    moments = range(600, 5 * HOUR_S + 1_800, 600)
    told = dict(zip(moments, story.firing(*moments), strict=True))
    assert {moment: pages(firing) for moment, firing in told.items() if pages(firing)} == {}
    assert "QueueAgeHalfDeadline ticket" in told[3 * HOUR_S]
    assert told[moments[-1]] == set()


def test_a_nightly_batch_that_loses_its_slots_pages_before_its_deadline(tmp_path: Path) -> None:
    """Three of four slots are gone after an hour: the run will miss its hand-over, hours before it does."""
    story = Story(tmp_path, every_s=60)
    story.append(
        f'{{"event": "run_open", "run": "nightly", "ts_ms": 0, "deadline_ms": {5 * HOUR_S * 1000}, "tasks": 40}}'
    )

    def batch(now_ms: int) -> None:
        minute = now_ms // MINUTE_MS
        if minute and minute % 24 == 0:
            for slot in range(4 if minute <= 60 else 1):
                story.write("complete", f"t-{minute}-{slot}", now_ms, output_tokens=1, restart_tokens=0, run="nightly")

    story.until(3 * HOUR_S, batch)
    on_course, missing = story.firing(55 * 60, 3 * HOUR_S)
    assert on_course == set()
    assert pages(missing) == {"RunWillMissHandover"}


def test_a_task_that_is_drained_within_a_millisecond_is_seen(tmp_path: Path) -> None:
    """Enqueued, admitted, preempted and drained between two scrapes: the ticket says what it cost."""
    story = Story(tmp_path)
    story.until(600)
    moment_ms = 604_000
    story.write("enqueue", "t-7", moment_ms, deadline_ms=600_000, task_budget=1000, prompt_tokens=800)
    story.write("admit", "t-7", moment_ms, queue_age_ms=0, deadline_slack_ms=600_000, preempts=0)
    story.write("preempt", "t-7", moment_ms, wasted_tokens=840, restart_tokens=840, preempts=1)
    story.write("reject", "t-7", moment_ms, reason="restart_tokens")
    story.write("drain", "t-7", moment_ms + 1, action="fail_task_not_replay")
    story.until(2_400)
    before, seen, lingering, over = story.firing(600, 615, 900, 2_400)
    assert before == set()
    assert seen == lingering == {"RestartTokensBeatSlack ticket", "WorkDropped ticket"}
    assert over == set()
