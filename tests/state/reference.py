"""A second opinion on the exporter's state: the ledger's contract as a slow fold that keeps every line.

`tell(lines, settings, now_ms)` answers what every figure must be after these lines, read in this order, at this
moment. It shares no code with the state it is held against but the settings' records and the closed sets of words.
"""

from collections import Counter
from dataclasses import dataclass, field

from preempt_exporter.ledger.records import REJECT_REASONS
from preempt_exporter.settings import HOUR_MS, LaneSettings, TaskSettings, Thresholds
from tests.state.reference_attempts import AttemptLane, kept, p95, tell_attempts, wait_s
from tests.state.reference_lives import LIVE_STATES, Life, TaskKey, TaskLine, tell_lives
from tests.state.reference_reading import Deviations, LedgerLine, Line, Reading, read
from tests.state.reference_runs import Run, lines_of, refusals_of, tell_run

DAY_MS = 24 * HOUR_MS
REMEMBERED_STEPS = 1000
REMEMBERED_WAITS = 1000
THRESHOLDS = ("queue_age_frac", "restart_frac", "max_preempts", "slack_zero", "restart_cannot_finish")


@dataclass(frozen=True)
class Settings:
    """What an operator may have set."""

    task: TaskSettings = field(default_factory=lambda: TaskSettings(series_of_worst=None))
    lane: LaneSettings = field(default_factory=LaneSettings)
    thresholds: Thresholds = field(default_factory=Thresholds)
    deviations: Deviations = frozenset()


@dataclass(frozen=True)
class Task:
    """One task at `now_ms`; None: unknown, or no longer so because the life ended."""

    lane: str
    state: str
    reason: str | None
    queue_age_ms: int | None
    deadline_slack_ms: int | None
    restart_tokens: int
    preempts: int
    checkpoint_tokens: int
    task_budget: int | None
    deadline_ms: int | None
    restart_cost_ms: float | None
    over: frozenset[str]
    """The thresholds that it is past, of live lives."""
    silent: bool
    series: frozenset[str]
    """The per-task families that a scrape at `now_ms` has for it."""


@dataclass
class Lane:
    """One lane at `now_ms`, but for the figures that attempt lines alone tell."""

    tasks: Counter[str] = field(default_factory=Counter)
    over_threshold: Counter[str] = field(default_factory=Counter)
    queue_age_ratio_max: float | None = None
    restart_ratio_max: float | None = None
    deadline_slack_ms_min: int | None = None
    silent: int = 0
    without_limit: Counter[str] = field(default_factory=Counter)
    draining: bool = False
    host_preempts_max: int = 0
    last_enqueue_ms: int | None = None
    events: Counter[str] = field(default_factory=Counter)
    rejects: Counter[str] = field(default_factory=Counter)
    restart_tokens: int = 0
    output_tokens: int = 0
    deadline_missed: int = 0


@dataclass
class Figures:
    """Everything that the lines say at one moment."""

    reading: Reading
    tasks: dict[TaskKey, Task]
    lanes: dict[str, Lane]
    attempt_lanes: dict[str, AttemptLane]
    runs: dict[str, Run]
    """Runs that a scrape still shows."""
    refusals: Counter[tuple[str, str]]


def tell(lines: list[LedgerLine], settings: Settings, now_ms: int) -> Figures:
    """What the contract says of these lines, read in this order, at `now_ms`."""
    reading = read(lines)
    fresh = reading.fresh
    lives, told = tell_lives(fresh, settings.task, settings.lane.default)
    tasks = {key: tell_task(life, told, fresh, settings, now_ms) for key, life in lives.items()}
    runs = {
        name: tell_run(name, lines_of(name, fresh), told, lives, now_ms, settings.task, settings.deviations)
        for name in {line.run for line in fresh}
        if name is not None and lines_of(name, fresh)
    }
    return Figures(
        reading=reading,
        tasks=tasks,
        lanes=tell_lanes(fresh, told, lives, tasks, settings, now_ms),
        attempt_lanes=tell_attempts(fresh, now_ms, settings.lane, settings.thresholds, settings.deviations),
        runs={name: run for name, run in runs.items() if now_ms <= run.leaves_ms},
        refusals=refusals_of(fresh),
    )


def tell_task(life: Life, told: list[TaskLine], fresh: list[Line], settings: Settings, now_ms: int) -> Task:
    """One task's figures."""
    defaults = settings.task.defaults
    state = life.state_at(now_ms, settings.task)
    live = state in LIVE_STATES
    lane = life.named_lane() or settings.lane.default
    deadline_ms = life.deadline_ms(defaults.deadline_ms)
    task_budget = life.task_budget(defaults.task_budget)
    age_ms = life.age_ms(now_ms)
    slack_ms = None if deadline_ms is None else deadline_ms - age_ms
    restart_cost_ms = restart_cost_of(life, lane, told, fresh, settings, now_ms)
    over = frozenset(
        name
        for name, is_over in (
            ("queue_age_frac", deadline_ms is not None and age_ms > settings.thresholds.queue_age_frac * deadline_ms),
            (
                "restart_frac",
                task_budget is not None
                and life.largest("restart_tokens") > settings.thresholds.restart_frac * task_budget,
            ),
            ("max_preempts", life.largest("preempts") >= settings.thresholds.max_preempts),
            ("slack_zero", slack_ms is not None and slack_ms <= 0),
            (
                "restart_cannot_finish",
                slack_ms is not None and restart_cost_ms is not None and restart_cost_ms > slack_ms,
            ),
        )
        if is_over
    )
    promised_ms = life.next_within_ms(settings.task.silent_after_ms)
    rejects = [line for line in life.in_order() if line.event == "reject"]
    return Task(
        lane=lane,
        state=state,
        reason=rejects[-1].get("reason") if rejects else None,
        queue_age_ms=age_ms if live else None,
        deadline_slack_ms=slack_ms if live else None,
        restart_tokens=life.largest("restart_tokens"),
        preempts=life.largest("preempts"),
        checkpoint_tokens=life.checkpoint_tokens(),
        task_budget=task_budget,
        deadline_ms=deadline_ms,
        restart_cost_ms=restart_cost_ms if live else None,
        over=over if live else frozenset(),
        silent=state == "running" and promised_ms is not None and now_ms - life.last().moment_ms > promised_ms,
        series=series_of(life, state, settings, now_ms, restart_cost_ms),
    )


def series_of(life: Life, state: str, settings: Settings, now_ms: int, restart_cost_ms: float | None) -> frozenset[str]:
    """Which per-task families stay: the waiting ones while it is live, the totals until the linger is over."""
    totals = {"restart_tokens", "preempts", "checkpoint_tokens"}
    if life.task_budget(settings.task.defaults.task_budget) is not None:
        totals.add("task_budget")
    if state in LIVE_STATES:
        waiting = {"queue_age_ms"}
        if life.deadline_ms(settings.task.defaults.deadline_ms) is not None:
            waiting |= {"deadline_slack_ms", "deadline_ms"}
        if restart_cost_ms is not None:
            waiting.add("preempt_task_restart_cost_ms")
        return frozenset(totals | waiting)
    if state == "complete":
        return frozenset()
    end_ms = life.abandoned_ms(settings.task) if state == "abandoned" else life.last().moment_ms
    return frozenset(totals if now_ms <= end_ms + settings.task.linger_ms else ())


def restart_cost_of(
    life: Life, lane: str, told: list[TaskLine], fresh: list[Line], settings: Settings, now_ms: int
) -> float | None:
    """The lane's p95 wait + prompt / prefill rate + what is left of the target / decode rate; None while unknown."""
    prompt, target = life.newest_or_filled("prompt_tokens"), life.newest_or_filled("target_tokens")
    wait_ms = p95_wait_ms(lane, told, fresh, settings, now_ms)
    if prompt is None or target is None or wait_ms is None:
        return None
    steps = [one.step for one in told if one.lane == lane and one.step is not None][-REMEMBERED_STEPS:]
    decode_per_ms = sum(tokens for tokens, _ in steps) / sum(ms for _, ms in steps) if steps else None
    prefill_per_s = settings.lane.prefill_tokens_per_s.get(lane)
    prefill_per_ms = decode_per_ms if prefill_per_s is None else prefill_per_s / 1000
    left = max(0, target - life.checkpoint_tokens())
    cost_ms = wait_ms
    for tokens, rate_per_ms in ((prompt, prefill_per_ms), (left, decode_per_ms)):
        if tokens > 0:
            if rate_per_ms is None:
                return None
            cost_ms += tokens / rate_per_ms
    return cost_ms


def p95_wait_ms(lane: str, told: list[TaskLine], fresh: list[Line], settings: Settings, now_ms: int) -> float | None:
    """From the lane's kept attempt lines if there are any, else from enqueue to first admit."""
    attempts = kept(fresh, lane, settings.lane.window_ms, now_ms)
    if attempts:
        return 1000 * p95([wait_s(line) for line in attempts])
    waits = [float(one.first_wait_ms) for one in told if one.lane == lane and one.first_wait_ms is not None]
    return p95(waits[-REMEMBERED_WAITS:]) if waits else None


def tell_lanes(
    fresh: list[Line],
    told: list[TaskLine],
    lives: dict[TaskKey, Life],
    tasks: dict[TaskKey, Task],
    settings: Settings,
    now_ms: int,
) -> dict[str, Lane]:
    """Every lane that the configuration, a line or a life names."""
    default = settings.lane.default
    lane_of = {id(one.line): one.lane for one in told}
    events = [(line, lane_of.get(id(line), line.lane or default)) for line in fresh if line.event != ""]
    attempted = (str(line.lane) for line in fresh if line.event == "")
    names = {*settings.lane.names, *attempted, *(lane for _, lane in events), *(task.lane for task in tasks.values())}
    lanes: dict[str, Lane] = {}
    for name in names:
        mine = [line for line, lane in events if lane == name]
        lane = lanes[name] = Lane()
        lane.events = Counter(line.event for line in mine)
        reasons = [line.get("reason") for line in mine if line.event == "reject"]
        lane.rejects = Counter(reason if reason in REJECT_REASONS else "other" for reason in reasons)
        lane.restart_tokens = sum(line.get("wasted_tokens") for line in mine if line.event == "preempt")
        lane.output_tokens = sum(line.get("output_tokens") for line in mine if line.event == "complete")
        lane.deadline_missed = sum(one.missed_deadline for one in told if one.lane == name)
        switches = [line.event for line in mine if line.event in ("lane_drain", "lane_resume")]
        lane.draining = bool(switches) and switches[-1] == "lane_drain"
        enqueues_ms = [one.began_ms for one in told if one.lane == name and one.began_ms is not None]
        lane.last_enqueue_ms = max(enqueues_ms, default=None)
        lane.host_preempts_max = host_preempts_max(name, mine, fresh, now_ms)
        tell_live_tasks(lane, [tasks[key] for key in lives if tasks[key].lane == name])
    return lanes


def tell_live_tasks(lane: Lane, tasks: list[Task]) -> None:
    """The lane's sums and extremes over its live lives."""
    live = [task for task in tasks if task.state in LIVE_STATES]
    lane.tasks = Counter(task.state for task in live)
    lane.over_threshold = Counter(name for task in live for name in task.over)
    lane.silent = sum(task.silent for task in live)
    lane.without_limit = Counter(
        {
            "deadline": sum(task.deadline_ms is None for task in live),
            "budget": sum(task.task_budget is None for task in live),
        }
    )
    ages = [ratio(task.queue_age_ms, task.deadline_ms) for task in live]
    restarts = [ratio(task.restart_tokens, task.task_budget) for task in live]
    slacks = [task.deadline_slack_ms for task in live if task.deadline_slack_ms is not None]
    lane.queue_age_ratio_max = max((one for one in ages if one is not None), default=None)
    lane.restart_ratio_max = max((one for one in restarts if one is not None), default=None)
    lane.deadline_slack_ms_min = min(slacks, default=None)


def ratio(part: int | None, whole: int | None) -> float | None:
    """As PromQL divides: something of nothing is infinite, nothing of nothing is not a number and left out."""
    if part is None or whole is None or part == whole == 0:
        return None
    return part / whole if whole else float("inf")


def host_preempts_max(name: str, events: list[Line], fresh: list[Line], now_ms: int) -> int:
    """The most preemptions that one host had in 24 h: by events or by attempt lines, which tell of the same ones."""
    attempts = [line for line in fresh if line.event == "" and line.lane == name]
    seen = [line for line in events if line.event == "preempt" and line.has("host")]
    tried = [line for line in attempts if line.get("outcome") == "preempted" and line.has("host", "ts_ms")]
    by_host: list[int] = []
    for lines in (seen, tried):
        recent = Counter(line.get("host") for line in lines if now_ms - DAY_MS < line.moment_ms <= now_ms)
        by_host.extend(recent.values())
    return max(by_host, default=0)
