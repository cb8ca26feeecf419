"""Attempt lines, told slowly: counters over all of them, window gauges with the definitions of `report`."""

from collections import Counter
from dataclasses import dataclass, field

from preempt_exporter.settings import LaneSettings, Thresholds
from tests.state.reference_reading import Deviations, Line

WINDOW_ATTEMPTS = 10_000
BUCKETS_S = (1, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 86400)

Job = tuple[str | None, str]
"""(`run`, `job_id`): what makes jobs distinct."""


@dataclass(frozen=True)
class Window:
    """What `report` says of the kept attempts of a lane."""

    jobs_completed: int
    completion_ratio: float
    rework_multiplier: float
    seconds_per_completed_job: float
    wait_p95_seconds: float
    run_p95_seconds: float
    tokens_per_completed_job: float | None
    """None where no attempt knows both its counts."""
    interventions_per_100_jobs: float
    required_slack_seconds: float


@dataclass
class AttemptLane:
    """What attempt lines say of one lane."""

    attempts: Counter[str] = field(default_factory=Counter)
    jobs_completed: int = 0
    tokens: Counter[str] = field(default_factory=Counter)
    interventions: int = 0
    waits_s: list[float] = field(default_factory=list)
    runs_s: list[float] = field(default_factory=list)
    window: Window | None = None


def job_of(line: Line) -> Job:
    """The distinct job that an attempt was for."""
    return (line.run, line.get("job_id"))


def wait_s(line: Line) -> float:
    """Seconds in the queue; below 0 counts as 0."""
    return float(max(0, line.get("start_s") - line.get("enqueue_s")))


def run_s(line: Line) -> float:
    """Seconds in the slot; below 0 counts as 0."""
    return float(max(0, line.get("end_s") - line.get("start_s")))


def p95(values: list[float]) -> float:
    """The value at index min(n-1, round_half_even(0.95*(n-1))) of the sorted list."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))]


def kept(lines: list[Line], lane: str, window_ms: int, now_ms: int) -> list[Line]:
    """The lane's last 10,000 attempts, none older than the window where lines say when they were."""
    last = [line for line in lines if line.event == "" and line.lane == lane][-WINDOW_ATTEMPTS:]
    return [line for line in last if not line.has("ts_ms") or now_ms - line.moment_ms <= window_ms]


def window_of(attempts: list[Line], margin_s: float) -> Window | None:
    """`report`'s figures; None where nothing is kept."""
    if not attempts:
        return None
    completed = len({job_of(line) for line in attempts if line.get("outcome") == "ok"})
    per_job = max(1, completed)
    rework = len(attempts) / per_job
    wait_p95_s = p95([wait_s(line) for line in attempts])
    run_p95_s = p95([run_s(line) for line in attempts])
    return Window(
        jobs_completed=completed,
        completion_ratio=completed / len({job_of(line) for line in attempts}),
        rework_multiplier=rework,
        seconds_per_completed_job=sum(run_s(line) for line in attempts) / per_job,
        wait_p95_seconds=wait_p95_s,
        run_p95_seconds=run_p95_s,
        tokens_per_completed_job=tokens_per_completed_job(attempts),
        interventions_per_100_jobs=100 * sum(line.get("interventions") for line in attempts) / per_job,
        required_slack_seconds=wait_p95_s + rework * run_p95_s + margin_s,
    )


def tokens_per_completed_job(attempts: list[Line]) -> float | None:
    """Of attempts that know both counts, since unknown is never 0, and of the completed jobs that have such ones."""
    knowing = [line for line in attempts if line.has("tokens_in", "tokens_out")]
    if not knowing:
        return None
    completed = {job_of(line) for line in attempts if line.get("outcome") == "ok"} & {job_of(line) for line in knowing}
    tokens = sum(int(line.get("tokens_in") + line.get("tokens_out")) for line in knowing)
    return tokens / max(1, len(completed))


def tell_attempts(
    lines: list[Line], now_ms: int, lanes: LaneSettings, thresholds: Thresholds, deviations: Deviations
) -> dict[str, AttemptLane]:
    """Every lane that an attempt line names."""
    told: dict[str, AttemptLane] = {}
    completed: set[tuple[str, str, Job]] = set()
    for line in lines:
        if line.event != "":
            continue
        name = str(line.lane)
        lane = told.setdefault(name, AttemptLane())
        outcome = line.get("outcome")
        lane.attempts[outcome if outcome in ("ok", "preempted") else "failed"] += 1
        within = line.ledger if "jobs are distinct within a ledger" in deviations else ""
        if outcome == "ok" and (within, name, job_of(line)) not in completed:
            completed.add((within, name, job_of(line)))
            lane.jobs_completed += 1
        lane.tokens["in"] += line.get("tokens_in") or 0
        lane.tokens["out"] += line.get("tokens_out") or 0
        lane.interventions += line.get("interventions")
        lane.waits_s.append(wait_s(line))
        lane.runs_s.append(run_s(line))
    for name, lane in told.items():
        lane.window = window_of(kept(lines, name, lanes.window_ms, now_ms), thresholds.margin_s)
    return told
