"""The reference itself, pinned by sentences of the contract: runs, leases, shards and their parts."""

import pytest

from tests.state.ledger_lines import OTHER_LEDGER, at, attempt, figures, line, spend
from tests.state.reference_reading import LedgerLine
from tests.state.reference_runs import Run

HOUR_S = 3_600


def run(*lines: LedgerLine, now: float) -> Run:
    """Run `r` as the reference tells it."""
    return figures(*lines, now=now).runs["r"]


def test_a_lease_is_live_while_now_is_before_it_expires() -> None:
    """Before: open; from then on: overdue, its tokens still reserved; after the release: neither."""
    reserve = spend("reserve", 0)
    assert (run(reserve, now=59.999).leases_open, run(reserve, now=59.999).leases_overdue) == (1, 0)
    expired = run(reserve, now=60)
    assert (expired.leases_open, expired.leases_overdue, expired.reserved_tokens) == (0, 1, 1850)
    released = run(reserve, spend("release", 61, burned_tokens=1110), now=61)
    assert (released.leases_overdue, released.reserved_tokens, released.burned_tokens) == (0, 0, 1110)


def test_a_renewed_lease_lives_longer() -> None:
    """`renew` moves the moment at which the lease of its epoch expires."""
    assert run(spend("reserve", 0), spend("renew", 5), now=119).leases_open == 1
    assert run(spend("reserve", 0), spend("renew", 5, epoch=1), now=119).leases_open == 0


def test_a_commit_bills_and_accepts() -> None:
    """The reservation ends, its tokens are committed, the shard is accepted once."""
    told = run(spend("reserve", 0), spend("commit", 5), now=6)
    assert (told.committed_tokens, told.reserved_tokens, told.shards_accepted) == (1850, 0, 1)


def test_an_epoch_ends_once() -> None:
    """A commit read before its reservation, from another ledger, leaves nothing reserved."""
    told = run(spend("commit", 5), spend("reserve", 0, ledger=OTHER_LEDGER), now=6)
    assert (told.reserved_tokens, told.leases_open) == (0, 0)


def test_a_compensated_shard_can_be_accepted_again() -> None:
    """Its tokens stay committed; the next acceptance counts anew."""
    told = run(spend("commit", 0), spend("compensate", 1), spend("commit", 2, epoch=1, tokens=50), now=3)
    assert (told.committed_tokens, told.shards_accepted, told.compensations) == (1900, 2, 1)


@pytest.mark.parametrize(
    ("parts", "accepted"),
    [
        (("3/0-29",), 0),
        (("3/0-29", "3/30-49"), 1),
        (("3/30-49", "3/0-29"), 1),
        (("3/0-29", "3/31-49"), 0),
        (("3/0-30", "3/30-49"), 0),
        (("3/0-49",), 1),
        (("3/0-29", "4/30-49"), 0),
    ],
)
def test_parts_accept_their_shard_once_they_cover_each_case_once(parts: tuple[str, ...], accepted: int) -> None:
    """A gap or an overlap does not."""
    commits = [spend("commit", second, shard=part) for second, part in enumerate(parts)]
    assert run(line("run_open", 0, run="r", cases_per_shard=50), *commits, now=9).shards_accepted == accepted


def test_without_cases_per_shard_parts_accept_nothing() -> None:
    """How many cases there are is the run's to say, and may be said last."""
    commit, opened = spend("commit", 1, shard="3/0-49"), line("run_open", 2, run="r", cases_per_shard=50)
    assert run(commit, now=9).shards_accepted == 0
    assert run(commit, opened, now=9).shards_accepted == 1


def test_a_compensated_part_takes_its_shard_back() -> None:
    """Then and only then: a later `cases_per_shard` undoes no acceptance."""
    opened = line("run_open", 0, run="r", cases_per_shard=50, tasks=9, deadline_ms=10_000_000)
    parts = (spend("commit", 1, shard="3/0-29"), spend("commit", 2, shard="3/30-49"))
    again = spend("commit", 4, shard="3/0-29", epoch=1)
    assert run(opened, *parts, again, now=9).shards_accepted == 1
    assert run(opened, *parts, spend("compensate", 3, shard="3/0-29"), again, now=9).shards_accepted == 2
    fewer = line("run_open", 3, run="r", cases_per_shard=40)
    assert run(opened, *parts, fewer, now=9).projected_slack_s == run(opened, *parts, now=9).projected_slack_s


def test_refusals_by_op_and_reason() -> None:
    """Without run; what no page names is `other`."""
    told = figures(
        spend("refuse", 0, op="commit", reason="STALE_EPOCH"), spend("refuse", 1, op="borrow", reason="?"), now=2
    )
    assert told.refusals == {("commit", "STALE_EPOCH"): 1, ("other", "other"): 1}


def test_a_later_run_open_changes_only_what_it_names() -> None:
    """The deadline counts from the first."""
    told = run(
        line("run_open", 0, run="r", budget_tokens=7400, deadline_ms=60_000, tasks=4),
        line("run_open", 30, run="r", deadline_ms=90_000),
        now=31,
    )
    assert (told.budget_tokens, told.deadline_ms) == (7400, at(90))


def test_tasks_of_a_run_by_state() -> None:
    """Every task of the run once, by the state of its current life."""
    told = run(
        line("enqueue", 0, run="r", task_id="a"),
        line("admit", 0, run="r", task_id="b"),
        line("complete", 1, run="r", task_id="b"),
        line("enqueue", 0),
        now=2,
    )
    assert told.tasks == {"queued": 1, "complete": 1}


OPENED = line("run_open", 0, run="r", tasks=4, deadline_ms=10_000_000)


def test_projected_slack_counts_tasks_jobs_and_shards() -> None:
    """What remains at the rate since the run's first line, when that is less than an hour ago."""
    done = (line("complete", 50, run="r"), attempt(60, run="r"), spend("commit", 70))
    told = run(OPENED, *done, now=300)
    assert told.projected_slack_s == pytest.approx(10_000 - 300 - 1 * 300 / 3)


def test_projected_slack_at_the_rate_of_the_last_hour() -> None:
    """Completions an hour ago or longer do not count."""
    done = (line("complete", 50, run="r"), line("complete", 2_000, run="r", task_id="u"))
    told = run(OPENED, *done, now=50 + HOUR_S)
    assert told.projected_slack_s == pytest.approx(10_000 - 3_650 - 2 * HOUR_S / 1)


def test_projected_slack_is_absent_while_unknown() -> None:
    """No completion, no tasks or no deadline: nothing is said."""
    assert run(OPENED, now=300).projected_slack_s is None
    assert run(line("run_open", 0, run="r", tasks=4), line("complete", 50, run="r"), now=300).projected_slack_s is None
    no_tasks = line("run_open", 0, run="r", deadline_ms=10_000)
    assert run(no_tasks, line("complete", 50, run="r"), now=300).projected_slack_s is None


def test_nothing_remains() -> None:
    """Then the slack is the deadline less now, at any rate."""
    opened = line("run_open", 0, run="r", tasks=1, deadline_ms=60_000)
    done = (line("complete", 0, run="r"), line("complete", 0, run="r", task_id="u"))
    assert run(opened, *done, now=20).projected_slack_s == 40
    assert run(opened, *done, now=2 * HOUR_S).projected_slack_s == 60 - 2 * HOUR_S


def test_a_job_completes_once() -> None:
    """A second success of the same job is not another completion; the same job in another run is."""
    lines = (attempt(0), attempt(1, attempt=2), attempt(2, run="r"))
    assert figures(*lines, now=3).attempt_lanes["free"].jobs_completed == 2
    twice = (attempt(10, run="r"), attempt(20, run="r", attempt=2))
    assert run(OPENED, *twice, now=100).projected_slack_s == pytest.approx(10_000 - 100 - 3 * 100 / 1)
    assert run(OPENED, *twice, now=10 + HOUR_S).projected_slack_s is None


def test_a_run_leaves_after_its_hand_over_or_its_last_line() -> None:
    """1 h after `run_close`, or 24 h after the run's last line."""
    opened, closed = line("run_open", 0, run="r"), line("run_close", 10, run="r")
    assert "r" in figures(opened, now=24 * HOUR_S).runs
    assert "r" not in figures(opened, now=24 * HOUR_S + 0.001).runs
    assert "r" in figures(opened, closed, now=HOUR_S + 10).runs
    assert "r" not in figures(opened, closed, now=HOUR_S + 10.001).runs
    assert "r" in figures(opened, closed, line("run_open", 20, run="r"), now=HOUR_S + 10.001).runs


def test_what_drains_a_lane_is_about_no_run() -> None:
    """A lane event that names a run neither begins it nor keeps it."""
    assert figures(line("lane_drain", 0, lane="free", run="r"), now=1).runs == {}


def test_a_task_that_came_back_is_not_completed() -> None:
    """What remains counts tasks whose newest life is complete; the rate counts every completion."""
    done = (line("complete", 50, run="r"), line("complete", 60, run="r", task_id="u"))
    again = line("enqueue", 70, run="r", task_id="u")
    assert run(OPENED, *done, again, now=100).projected_slack_s == pytest.approx(10_000 - 100 - 3 * 100 / 2)


def test_a_job_that_does_not_say_when_is_done_but_has_no_rate() -> None:
    """An attempt without `ts_ms` is no completion of the last hour."""
    jobs = (attempt(0, run="r", ts_ms=None), attempt(50, run="r", job_id="k"))
    assert run(OPENED, *jobs, now=100).projected_slack_s == pytest.approx(10_000 - 100 - 2 * 100 / 1)
