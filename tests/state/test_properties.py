"""The watched state against the reference: any lines, in any interleaving, from bytes to the text of a scrape."""

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from preempt_exporter.state.task_row import TaskRow
from tests.state import strategies
from tests.state.deviations import DEVIATIONS, Deviation
from tests.state.ledger_lines import at
from tests.state.real_scrape import RealExporter
from tests.state.reference import Settings, Task, tell
from tests.state.reference_reading import LedgerLine, understood
from tests.state.reference_scrape import FAMILIES, TASK_FAMILIES, Samples, disagreements, sample, samples_of

DUPLICATES = sample("preempt_ledger_duplicate_lines_total")
bad_lines = st.lists(st.sampled_from(strategies.BAD_LINES), min_size=1, max_size=4)
VOLATILE = ("preempt_ledger_last_line_timestamp_seconds",)
"""What tells of reading, not of lines."""


def end_of(history: list[LedgerLine]) -> int:
    """The moment at which the last line was read."""
    return history[-1][2] if history else strategies.START_MS


def of_lines(scraped: Samples) -> Samples:
    """A scrape without what tells of reading alone."""
    return {one: value for one, value in scraped.items() if one[0] not in VOLATILE}


@settings(max_examples=10 * settings().max_examples)
@given(strategies.histories(most=15), strategies.settings(), strategies.later_ms)
def test_a_scrape_shows_what_the_contract_says(history: list[LedgerLine], chosen: Settings, later_ms: int) -> None:
    """Every family that lines decide equals the slow reference, sample by sample, at any moment."""
    now_ms = end_of(history) + later_ms
    followed = replace(chosen, deviations=frozenset(DEVIATIONS))
    real = RealExporter(chosen).read(history)
    assert disagreements(samples_of(tell(history, followed, now_ms)), real.scrape(now_ms)) == []
    assert real.bad_lines == 0


@settings(max_examples=3 * settings().max_examples)
@given(strategies.histories(most=15), strategies.settings(), strategies.later_ms)
def test_status_shows_what_the_contract_says(history: list[LedgerLine], chosen: Settings, later_ms: int) -> None:
    """Every task has a row, and state, reason, limits, totals and what ages in it equal the slow reference."""
    now_ms = end_of(history) + later_ms
    must = tell(history, replace(chosen, deviations=frozenset(DEVIATIONS)), now_ms).tasks
    rows = RealExporter(chosen).read(history).rows(now_ms)
    assert {key: shown_of(row) for key, row in rows.items()} == {key: shown_of(task) for key, task in must.items()}
    for key, row in rows.items():
        if must[key].state in ("rejected", "drained"):
            assert row.action == "reject"
        cost_ms = must[key].restart_cost_ms
        assert (row.restart_cost_ms is None) == (cost_ms is None)
        assert cost_ms is None or abs(cost_ms - (row.restart_cost_ms or 0)) <= 0.5


def shown_of(task: Task | TaskRow) -> tuple[object, ...]:
    """What a row of `status` says of a task, but for what is rounded or the policy's."""
    shown = ("lane", "state", "reason", "queue_age_ms", "deadline_slack_ms", "restart_tokens", "preempts")
    return tuple(getattr(task, name) for name in (*shown, "checkpoint_tokens", "task_budget", "deadline_ms"))


@given(strategies.histories(), strategies.settings(), st.data())
def test_scrapes_in_between_change_nothing(history: list[LedgerLine], chosen: Settings, data: st.DataObject) -> None:
    """An exporter that was scraped and swept at any moments says the same as one that was not.

    Sweeping forgets runs that have left, as it should; what comes of such a run later is not compared.
    """
    disturbed, calm = RealExporter(chosen), RealExporter(chosen).read(history)
    for one in history:
        disturbed.read([one])
        if data.draw(st.booleans(), label="scrape"):
            disturbed.scrape(one[2])
            runs = disturbed.watched.figures.runs.values()
            if not any(run.name is not None and run.has_left(one[2]) for run in runs):
                disturbed.watched.expire(one[2])
    now_ms = end_of(history) + data.draw(strategies.later_ms, label="later")
    assert disturbed.scrape(now_ms) == calm.scrape(now_ms)


@given(strategies.histories(most=40, unlikely=True), strategies.settings(), strategies.later_ms)
def test_nothing_in_a_ledger_stops_the_exporter(history: list[LedgerLine], chosen: Settings, later_ms: int) -> None:
    """Any valid lines in any order, even such as no writer would write, fold and render."""
    scraped = RealExporter(chosen).read(history).scrape(end_of(history) + later_ms)
    assert {name for name, _ in scraped} & FAMILIES


@given(strategies.histories(), bad_lines, strategies.settings(), st.data())
def test_a_bad_line_changes_nothing_else(
    history: list[LedgerLine], bad: list[strategies.Fields], chosen: Settings, data: st.DataObject
) -> None:
    """Bad lines anywhere between good ones are counted as such, and nothing else differs."""
    mixed = list(history)
    for one in bad:
        place = data.draw(st.integers(0, len(mixed)), label="place")
        ledger, _, read_ms = mixed[place - 1] if place else (strategies.LEDGERS[0], {}, strategies.START_MS)
        mixed.insert(place, (ledger, one, read_ms))
    now_ms = end_of(mixed)
    with_bad, without = RealExporter(chosen).read(mixed, together=True), RealExporter(chosen).read(history)
    assert with_bad.bad_lines == len(bad)
    counted_apart = ("preempt_ledger_line_errors_total", "preempt_ledger_lines_total")
    shown, must = of_lines(with_bad.scrape(now_ms)), of_lines(without.scrape(now_ms))
    assert {one: v for one, v in shown.items() if one[0] not in counted_apart} == {
        one: v for one, v in must.items() if one[0] not in counted_apart
    }


@given(strategies.histories(), strategies.settings(), st.data())
def test_a_repeat_changes_nothing_but_its_counter(
    history: list[LedgerLine], chosen: Settings, data: st.DataObject
) -> None:
    """A line of the same ledger with an id that was there, or an attempt line that was, is counted and forgotten."""
    repeatable = [
        (ledger, one) for ledger, one, _ in history if "id" in understood(one) or "event" not in understood(one)
    ]
    assume(repeatable)
    ledger, again = data.draw(st.sampled_from(repeatable), label="again")
    now_ms = end_of(history) + data.draw(strategies.later_ms, label="later")
    once = RealExporter(chosen).read(history)
    twice = RealExporter(chosen).read([*history, (ledger, again, now_ms)])
    shown, must = of_lines(twice.scrape(now_ms)), of_lines(once.scrape(now_ms))
    assert shown.pop(DUPLICATES) == must.pop(DUPLICATES) + 1
    assert shown == must


@given(strategies.histories(), strategies.settings(), st.sampled_from(("enqueue", "admit")))
def test_an_old_life_never_leaks_into_a_new_one(history: list[LedgerLine], chosen: Settings, begins: str) -> None:
    """After a life has ended, a new one of the same task looks as if there had never been another."""
    end_ms = end_of(history)
    needed = {"queue_age_ms": 0, "deadline_slack_ms": 60_000, "preempts": 0} if begins == "admit" else {}
    about = {"task_id": "t1", "run": "r1", "ts_ms": end_ms}
    complete = {"event": "complete", **about, "output_tokens": 1, "restart_tokens": 840}
    fresh = {"event": begins, **about, **needed, "lane": "fresh"}
    ledger, now_ms = strategies.LEDGERS[0], end_ms + 1
    second = RealExporter(chosen).read([*history, (ledger, complete, end_ms), (ledger, fresh, end_ms)])
    first = RealExporter(chosen).read([(ledger, fresh, end_ms)])
    assert of_task(second.scrape(now_ms)) == of_task(first.scrape(now_ms)) != {}


def of_task(scraped: Samples) -> Samples:
    """The per-task series of task `t1` of run `r1`."""
    named = {("task_id", "t1"), ("run", "r1")}
    return {one: value for one, value in scraped.items() if one[0] in TASK_FAMILIES and named <= one[1]}


@given(strategies.histories(), strategies.settings(), strategies.later_ms, st.data())
def test_chunks_may_be_cut_anywhere(
    history: list[LedgerLine], chosen: Settings, later_ms: int, data: st.DataObject
) -> None:
    """Lines that are read together say what they say one by one."""
    read_ms = end_of(history)
    at_once = [(ledger, one, read_ms) for ledger, one, _ in history]
    now_ms = read_ms + later_ms
    one_by_one, cut = RealExporter(chosen).read(at_once), RealExporter(chosen)
    while at_once:
        count = data.draw(st.integers(1, len(at_once)), label="chunk")
        cut.read(at_once[:count], together=True)
        at_once = at_once[count:]
    assert cut.scrape(now_ms) == one_by_one.scrape(now_ms)


@given(strategies.histories(), strategies.settings(), strategies.later_ms)
def test_ledgers_of_different_tasks_may_be_read_in_any_order(
    history: list[LedgerLine], chosen: Settings, later_ms: int
) -> None:
    """Ledgers that share neither tasks, runs nor lanes say the same however their lines are interleaved."""
    read_ms = end_of(history)
    apart = [of_its_own(ledger, one, read_ms) for ledger, one, _ in history]
    by_ledger = [[one for one in apart if one[0] == ledger] for ledger in strategies.LEDGERS]
    now_ms = read_ms + later_ms
    interleaved = RealExporter(chosen).read(apart).scrape(now_ms)
    in_turn = RealExporter(chosen).read([*by_ledger[1], *by_ledger[0]]).scrape(now_ms)
    assert in_turn == interleaved


def of_its_own(ledger: str, one: strategies.Fields, read_ms: int) -> LedgerLine:
    """The line as if its ledger had lanes, runs and tasks that no other has."""
    mark = "b" if ledger == strategies.LEDGERS[1] else ""
    named: strategies.Fields = {
        name: f"{one[name]}{mark}" for name in ("run", "task_id", "job_id", "lane") if name in one
    }
    return (ledger, {**one, "lane": f"default{mark}", **named}, read_ms)


@pytest.mark.parametrize("name", DEVIATIONS)
def test_a_known_deviation_is_still_one(name: str) -> None:
    """What is listed as a difference is one, and following it is all that is needed; what was mended must leave."""
    deviation: Deviation = DEVIATIONS[name]
    now_ms, history = at(deviation.now_s), list(deviation.lines)
    shown = RealExporter(Settings()).read(history).scrape(now_ms)
    assert disagreements(samples_of(tell(history, Settings(), now_ms)), shown) != []
    follow = Settings(deviations=frozenset(DEVIATIONS))
    assert disagreements(samples_of(tell(history, follow, now_ms)), shown) == []
