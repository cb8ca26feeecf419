"""Lanes: live tasks in sum, counters, histograms, and the window figures."""

from itertools import accumulate

from preempt_exporter.decide.break_even import LaneFigures
from preempt_exporter.metrics.text import label_value, number
from preempt_exporter.state.figures import Figures
from preempt_exporter.state.lane import BUCKETS_S, Histogram, Lane
from preempt_exporter.state.rates import LaneMeasurements
from preempt_exporter.state.survey import LaneSurvey, Survey

Lines = dict[str, list[str]]


def lane_samples(figures: Figures, survey: Survey, measurements: LaneMeasurements) -> Lines:
    """By family, the lines of every lane."""
    lines: Lines = {}
    for lane in figures.lanes.values():
        label = f'lane="{label_value(lane.name)}"'
        _survey_lines(lines, label, survey.lanes[lane.name])
        _lane_lines(lines, label, lane, survey.now_ms)
        _attempt_lines(lines, label, lane)
        window = measurements.window_figures(lane, survey.now_ms)
        if window is not None:
            _window_lines(lines, label, window)
    return lines


def _add(lines: Lines, name: str, labels: str, value: float) -> None:
    lines.setdefault(name, []).append(f"{name}{{{labels}}} {number(value)}")


def _survey_lines(lines: Lines, label: str, lane: LaneSurvey) -> None:
    for state, count in lane.states.items():
        _add(lines, "preempt_tasks", f'{label},state="{state}"', count)
    for threshold, count in lane.over.items():
        _add(lines, "preempt_tasks_over_threshold", f'{label},threshold="{threshold}"', count)
    for name, figure in (
        ("preempt_task_queue_age_ratio_max", lane.age_ratio_max),
        ("preempt_task_restart_ratio_max", lane.restart_ratio_max),
        ("preempt_task_deadline_slack_ms_min", lane.slack_ms_min),
    ):
        if figure is not None:
            _add(lines, name, label, figure)
    _add(lines, "preempt_tasks_silent", label, lane.silent)
    _add(lines, "preempt_tasks_without_limit", f'{label},missing="deadline"', lane.without_deadline)
    _add(lines, "preempt_tasks_without_limit", f'{label},missing="budget"', lane.without_budget)


def _lane_lines(lines: Lines, label: str, lane: Lane, now_ms: int) -> None:
    _add(lines, "preempt_lane_draining", label, int(lane.draining))
    _add(lines, "preempt_lane_host_preempts_max", label, lane.host_preempts_max(now_ms))
    if lane.last_enqueue_ms is not None:
        _add(lines, "preempt_last_enqueue_timestamp_seconds", label, lane.last_enqueue_ms / 1000)
    for event, count in lane.events.items():
        _add(lines, "preempt_events_total", f'{label},event="{event}"', count)
    for reason, count in lane.rejects.items():
        _add(lines, "preempt_rejects_total", f'{label},reason="{reason}"', count)
    _add(lines, "preempt_restart_tokens_total", label, lane.restart_tokens)
    _add(lines, "preempt_output_tokens_total", label, lane.output_tokens)
    _add(lines, "preempt_deadline_missed_total", label, lane.deadlines_missed)


def _attempt_lines(lines: Lines, label: str, lane: Lane) -> None:
    for outcome, count in lane.attempts.items():
        _add(lines, "preempt_lane_attempts_total", f'{label},outcome="{outcome}"', count)
    _add(lines, "preempt_lane_jobs_completed_total", label, lane.jobs_completed)
    _add(lines, "preempt_lane_tokens_total", f'{label},direction="in"', lane.tokens_in)
    _add(lines, "preempt_lane_tokens_total", f'{label},direction="out"', lane.tokens_out)
    _add(lines, "preempt_lane_interventions_total", label, lane.interventions)
    _histogram_lines(lines, "preempt_lane_wait_seconds", label, lane.wait)
    _histogram_lines(lines, "preempt_lane_run_seconds", label, lane.run)


def _histogram_lines(lines: Lines, name: str, label: str, histogram: Histogram) -> None:
    out = lines.setdefault(name, [])
    cumulative = list(accumulate(histogram.counts))
    bounds = [*(f"{bound}.0" for bound in BUCKETS_S), "+Inf"]
    out += [f'{name}_bucket{{{label},le="{le}"}} {count}' for le, count in zip(bounds, cumulative, strict=True)]
    out.append(f"{name}_sum{{{label}}} {number(histogram.sum_s)}")
    out.append(f"{name}_count{{{label}}} {cumulative[-1]}")


def _window_lines(lines: Lines, label: str, window: LaneFigures) -> None:
    for name, figure in (
        ("preempt_lane_window_jobs_completed", window.completed),
        ("preempt_lane_completion_ratio", window.completion_rate),
        ("preempt_lane_rework_multiplier", window.rework_multiplier),
        ("preempt_lane_seconds_per_completed_job", window.s_per_completed_job),
        ("preempt_lane_wait_p95_seconds", window.p95_wait_s),
        ("preempt_lane_run_p95_seconds", window.p95_run_s),
        ("preempt_lane_tokens_per_completed_job", window.tokens_per_completed_job),
        ("preempt_lane_interventions_per_100_jobs", window.interventions_per_100),
        ("preempt_lane_required_slack_seconds", window.required_slack_s),
    ):
        if figure is not None:
            _add(lines, name, label, figure)
