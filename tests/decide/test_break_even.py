"""The break-even figures against hand-worked numbers and a slow reference."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preempt_exporter.decide.break_even import (
    LaneAccumulator,
    lane_figures,
    p95,
    required_slack_s,
    slack_verdict,
)
from preempt_exporter.ledger.records import Attempt


def attempt(
    job_id: str = "j", outcome: str = "ok", *, wait_s: float = 0.0, run_s: float = 0.0, **more: object
) -> Attempt:
    """An attempt that waited and ran so long; tokens 0 unless given."""
    fields: dict[str, object] = {
        "job_id": job_id,
        "lane": "free",
        "attempt": 1,
        "enqueue_s": 100.0,
        "start_s": 100.0 + wait_s,
        "end_s": 100.0 + wait_s + run_s,
        "outcome": outcome,
        "tokens_in": 0,
        "tokens_out": 0,
        "interventions": 0,
    }
    return Attempt(**(fields | more))  # type: ignore[arg-type]


def test_two_attempts_at_one_job() -> None:
    """A preempted and an `ok` attempt: rework 2, every figure worked out by hand."""
    first = attempt("b", "preempted", wait_s=800, run_s=120, tokens_in=9000, tokens_out=2000, interventions=1)
    second = attempt("b", "ok", wait_s=1200, run_s=130, tokens_in=9000, tokens_out=2100)
    figures = lane_figures("free", [first, second], margin_s=300)
    assert (figures.completed, figures.jobs, figures.attempts) == (1, 1, 2)
    assert (figures.preempted, figures.failed) == (1, 0)
    assert figures.completion_rate == 1.0
    assert figures.rework_multiplier == 2.0
    assert figures.s_per_completed_job == 250.0
    assert (figures.p95_wait_s, figures.p95_run_s) == (1200.0, 130.0)
    assert figures.tokens_per_completed_job == 22_100.0
    assert figures.interventions_per_100 == 100.0
    assert figures.required_slack_s == 1200 + 2 * 130 + 300
    assert (figures.rework_tokens_in, figures.rework_tokens_out) == (9000, 2000)
    requeue = lane_figures("free", [first, second], margin_s=300, model="requeue")
    assert requeue.required_slack_s == 2 * (1200 + 130) + 300


def test_nothing_completed_divides_by_one() -> None:
    """Failures alone give figures, not an error: rework is the number of attempts."""
    figures = lane_figures("free", [attempt("a", "preempted", run_s=5), attempt("b", "oom", run_s=5)], margin_s=0)
    assert (figures.completed, figures.completion_rate, figures.rework_multiplier) == (0, 0.0, 2.0)
    assert (figures.preempted, figures.failed, figures.s_per_completed_job) == (1, 1, 10.0)


def test_no_attempt_gives_zeroes_and_unknown_tokens() -> None:
    """An empty window is no error."""
    figures = lane_figures("free", [], margin_s=300)
    assert (figures.completed, figures.p95_wait_s, figures.required_slack_s) == (0, 0.0, 300.0)
    assert figures.tokens_per_completed_job is None


def test_jobs_are_distinct_by_run_and_id() -> None:
    """The same id in two runs, and in none, is three jobs; a job done twice counts once."""
    attempts = [attempt("a"), attempt("a", run="r1"), attempt("a", run="r2"), attempt("a")]
    figures = lane_figures("free", attempts, margin_s=0)
    assert (figures.completed, figures.jobs, figures.attempts) == (3, 3, 4)


def test_durations_below_zero_count_as_zero() -> None:
    """A skewed clock cannot make a wait or a run negative."""
    skewed = attempt(wait_s=-50, run_s=-10)
    figures = lane_figures("free", [skewed], margin_s=0)
    assert (figures.p95_wait_s, figures.p95_run_s, figures.s_per_completed_job) == (0.0, 0.0, 0.0)


def test_unknown_tokens_are_left_out_and_counted() -> None:
    """A job of which nothing is known neither adds tokens nor dilutes the ratio; half-known counts as unknown."""
    figures = lane_figures(
        "free",
        [
            attempt("a", tokens_in=100, tokens_out=50),
            attempt("b", tokens_in=None, tokens_out=None),
            attempt("c", tokens_in=7, tokens_out=None),
        ],
        margin_s=0,
    )
    assert figures.tokens_per_completed_job == 150.0
    assert figures.unknown_token_attempts == 2
    assert figures.completed_with_known_tokens == 1
    nothing = lane_figures("free", [attempt("b", tokens_in=None, tokens_out=None)], margin_s=0)
    assert nothing.tokens_per_completed_job is None


def test_an_unknown_attempt_of_a_known_job_leaves_the_job_in() -> None:
    """Of a job with one known and one unknown attempt the known tokens count, and the job does."""
    figures = lane_figures(
        "free",
        [
            attempt("a", "preempted", tokens_in=None, tokens_out=None),
            attempt("a", tokens_in=100, tokens_out=50),
            attempt("b", tokens_in=100, tokens_out=150),
        ],
        margin_s=0,
    )
    assert figures.tokens_per_completed_job == 200.0


def test_a_second_ok_attempt_is_rework() -> None:
    """The first `ok` attempt is the useful one; a batch that runs a job again pays for rework."""
    figures = lane_figures(
        "free", [attempt("a", tokens_in=10, tokens_out=1), attempt("a", tokens_in=20, tokens_out=2)], margin_s=0
    )
    assert (figures.rework_tokens_in, figures.rework_tokens_out) == (20, 2)


@pytest.mark.parametrize(
    ("count", "index"), [(1, 0), (2, 1), (3, 2), (10, 9), (11, 10), (12, 10), (20, 18), (21, 19), (31, 28), (101, 95)]
)
def test_p95_is_the_value_at_the_half_even_index(count: int, index: int) -> None:
    """min(n-1, round_half_even(0.95 x (n-1))): 9.5 rounds to 10 and 28.5 to 28."""
    assert p95(array("d", [float(v) for v in range(count)][::-1])) == float(index)


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=300))
def test_p95_equals_the_sorted_list(values: list[float]) -> None:
    """Picking the largest few agrees with sorting all."""
    expected = sorted(values)[min(len(values) - 1, round(0.95 * (len(values) - 1)))]
    assert p95(array("d", values)) == expected


@st.composite
def lane_attempts(draw: st.DrawFn) -> list[Attempt]:
    """Attempts of a few jobs in a few runs, with clock skew and unknown tokens."""
    one = st.fixed_dictionaries(
        {
            "run": st.sampled_from([None, "r1", "r2"]),
            "job_id": st.sampled_from("abcdef"),
            "outcome": st.sampled_from(["ok", "preempted", "failed", "timeout"]),
            "wait_s": st.integers(-5, 5000).map(float),
            "run_s": st.integers(-5, 5000).map(float),
            "tokens_in": st.one_of(st.none(), st.integers(0, 10_000)),
            "tokens_out": st.integers(0, 10_000),
            "interventions": st.integers(0, 3),
        }
    )
    return [attempt(**fields) for fields in draw(st.lists(one, min_size=1, max_size=60))]


@given(lane_attempts())
def test_figures_equal_a_slow_reading_of_the_definitions(attempts: list[Attempt]) -> None:
    """The streaming accumulator agrees with a fold that keeps every row."""
    figures = lane_figures("free", attempts, margin_s=300)
    done = {(a.run, a.job_id) for a in attempts if a.outcome == "ok"}
    per_job = max(1, len(done))
    waits = sorted(max(a.start_s - a.enqueue_s, 0) for a in attempts)
    runs = sorted(max(a.end_s - a.start_s, 0) for a in attempts)
    known = [a for a in attempts if a.tokens_in is not None]
    known_done = {(a.run, a.job_id) for a in known} & done
    index = min(len(attempts) - 1, round(0.95 * (len(attempts) - 1)))
    assert figures.completed == len(done)
    assert figures.completion_rate == len(done) / len({(a.run, a.job_id) for a in attempts})
    assert figures.rework_multiplier == len(attempts) / per_job
    assert figures.s_per_completed_job == pytest.approx(sum(runs) / per_job)
    assert (figures.p95_wait_s, figures.p95_run_s) == (waits[index], runs[index])
    assert figures.interventions_per_100 == 100 * sum(a.interventions for a in attempts) / per_job
    assert figures.required_slack_s == waits[index] + len(attempts) / per_job * runs[index] + 300
    if known:
        tokens = sum((a.tokens_in or 0) + (a.tokens_out or 0) for a in known)
        assert figures.tokens_per_completed_job == tokens / max(1, len(known_done))
    else:
        assert figures.tokens_per_completed_job is None


def test_the_verdict_is_ok_at_exactly_the_required_slack() -> None:
    """Enough is enough; no slack given, no verdict."""
    assert slack_verdict(100.0, 100.0) == "OK"
    assert slack_verdict(100.0, 99.999) == "TOO TIGHT"
    assert slack_verdict(100.0, None) is None


def test_requeueing_pays_the_wait_per_attempt() -> None:
    """Rework 3 waits three times, or once in the plain model."""
    assert required_slack_s(10, 100, 3, 5) == 10 + 300 + 5
    assert required_slack_s(10, 100, 3, 5, "requeue") == 30 + 300 + 5


def test_an_accumulator_can_be_read_while_it_grows() -> None:
    """Figures are a view: reading them changes nothing."""
    lane = LaneAccumulator("free")
    lane.add(attempt("a", wait_s=5))
    before = lane.figures(margin_s=0)
    assert lane.figures(margin_s=0) == before
    lane.add(attempt("b", wait_s=7))
    assert lane.figures(margin_s=0).completed == 2
