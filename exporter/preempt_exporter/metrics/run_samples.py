"""Runs: tasks by state, hand-over, spend; and the refusals, which belong to no run."""

from collections.abc import Iterable

from preempt_exporter.metrics.text import sample
from preempt_exporter.state.figures import Figures
from preempt_exporter.state.lane import OTHER
from preempt_exporter.state.run import Run, RunCounters
from preempt_exporter.state.survey import RUN_STATES, Survey

Lines = dict[str, list[str]]


def run_samples(figures: Figures, survey: Survey) -> Lines:
    """By family, the lines of the runs that have not left; those without a label of their own in sum as `other`."""
    now_ms = survey.now_ms
    lines: Lines = {}
    present = [run for run in figures.runs.values() if run.name is not None and not run.has_left(now_ms)]
    for run in present:
        if run.labelled:
            _own_lines(lines, run, survey)
    crowd = [run for run in present if not run.labelled]
    if crowd or figures.other_runs != RunCounters():
        _sum_lines(lines, OTHER, crowd, survey)
        _counter_lines(lines, OTHER, figures.other_runs)
    for op, reasons in figures.refusals.items():
        for reason, count in reasons.items():
            _add(lines, "preempt_spend_refusals_total", count, op=op, reason=reason)
    return lines


def _own_lines(lines: Lines, run: Run, survey: Survey) -> None:
    name = run.name or ""
    _sum_lines(lines, name, [run], survey)
    if run.deadline_at_ms is not None:
        _add(lines, "preempt_run_deadline_timestamp_seconds", run.deadline_at_ms / 1000, run=name)
    projected_s = run.projected_slack_s(survey.now_ms)
    if projected_s is not None:
        _add(lines, "preempt_run_projected_slack_seconds", projected_s, run=name)
    if run.budget_tokens is not None:
        _add(lines, "preempt_spend_budget_tokens", run.budget_tokens, run=name)
    _counter_lines(lines, name, run.counters)


def _sum_lines(lines: Lines, name: str, runs: Iterable[Run], survey: Survey) -> None:
    runs = list(runs)
    for state in RUN_STATES:
        count = sum(survey.runs[run.name][state] for run in runs)
        _add(lines, "preempt_run_tasks", count, run=name, state=state)
    _add(lines, "preempt_spend_reserved_tokens", sum(run.reserved_tokens() for run in runs), run=name)
    _add(lines, "preempt_leases_open", sum(run.leases_open(survey.now_ms) for run in runs), run=name)
    _add(lines, "preempt_leases_overdue", sum(run.leases_overdue(survey.now_ms) for run in runs), run=name)


def _counter_lines(lines: Lines, name: str, counters: RunCounters) -> None:
    _add(lines, "preempt_spend_committed_tokens_total", counters.committed_tokens, run=name)
    _add(lines, "preempt_spend_burned_tokens_total", counters.burned_tokens, run=name)
    _add(lines, "preempt_shards_accepted_total", counters.shards_accepted, run=name)
    _add(lines, "preempt_compensations_total", counters.compensations, run=name)


def _add(lines: Lines, name: str, value: float, **labels: str) -> None:
    lines.setdefault(name, []).append(sample(name, value, **labels))
