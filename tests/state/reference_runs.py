"""Runs and spend, told slowly: reservations are found by reading every spend line of the run again."""

import re
from collections import Counter
from dataclasses import dataclass, field

from preempt_exporter.ledger.records import REFUSAL_OPS, REFUSAL_REASONS
from preempt_exporter.settings import HOUR_MS, TaskSettings
from tests.state.reference_attempts import Job, job_of
from tests.state.reference_lives import Life, TaskKey, TaskLine
from tests.state.reference_reading import Deviations, Line

PART = re.compile(r"(?P<shard>.+)/(?P<first>\d+)-(?P<last>\d+)", re.ASCII)


@dataclass
class Run:
    """What the lines that name one run say of it."""

    leaves_ms: int
    """After this moment the run has no series."""
    tasks: Counter[str] = field(default_factory=Counter)
    deadline_ms: int | None = None
    projected_slack_s: float | None = None
    budget_tokens: int | None = None
    reserved_tokens: int = 0
    leases_open: int = 0
    leases_overdue: int = 0
    committed_tokens: int = 0
    burned_tokens: int = 0
    shards_accepted: int = 0
    compensations: int = 0


@dataclass(frozen=True)
class Reservation:
    """One epoch of one shard, as its lines tell it."""

    tokens: int
    lease_expires_ms: int
    ended: bool


def lines_of(name: str, lines: list[Line]) -> list[Line]:
    """The lines that are about a run: what drains a lane or changes the mode is about no run, whatever it names."""
    return [line for line in lines if line.run == name and line.event not in ("lane_drain", "lane_resume", "mode")]


def reservations(lines: list[Line]) -> list[Reservation]:
    """Every epoch that was reserved. One that was committed or released has ended, wherever that line stood."""
    found: list[Reservation] = []
    for shard, epoch in sorted({(line.get("shard"), line.get("epoch")) for line in lines if line.event == "reserve"}):
        mine = [line for line in lines if (line.get("shard"), line.get("epoch")) == (shard, epoch)]
        leases = [line.get("lease_expires_ms") for line in mine if line.event in ("reserve", "renew")]
        tokens = [line.get("tokens") for line in mine if line.event == "reserve"]
        ended = any(line.event in ("commit", "release") for line in mine)
        found.append(Reservation(tokens[-1], leases[-1], ended))
    return found


def whole_shards_accepted(lines: list[Line]) -> set[str]:
    """The shards that stand accepted after these lines: whole, or by parts that cover each case once.

    Nothing but a compensation, of the shard or of a part of it, takes an acceptance back.
    """
    accepted: dict[str, int] = {}
    whole: set[str] = set()
    cases_per_shard: int | None = None
    for line in lines:
        name = line.get("shard")
        if line.event == "run_open" and line.has("cases_per_shard"):
            cases_per_shard = line.get("cases_per_shard")
        elif line.event == "commit":
            accepted[name] = line.get("epoch")
            if not cases_of(name):
                whole.add(name)
        elif line.event == "compensate" and accepted.get(name) == line.get("epoch"):
            del accepted[name]
            whole.discard(shard_of(name))
        whole |= {shard for shard in map(shard_of, accepted) if covered(shard, accepted, cases_per_shard)}
    return whole


def shard_of(name: str) -> str:
    """The shard that a part is of; a name that gives no cases is the shard's own."""
    part = PART.fullmatch(name)
    return part["shard"] if part is not None and cases_of(name) else name


def cases_of(name: str) -> range:
    """The cases that a part's name gives (`3/30-49`); none for a whole shard."""
    part = PART.fullmatch(name)
    return range(int(part["first"]), int(part["last"]) + 1) if part is not None else range(0)


def covered(shard: str, accepted: dict[str, int], cases_per_shard: int | None) -> bool:
    """Whether the shard's accepted parts hold each of its cases once."""
    cases = [case for name in accepted if shard_of(name) == shard for case in cases_of(name)]
    return bool(cases_per_shard) and sorted(cases) == list(range(cases_per_shard or 0))


def acceptances(lines: list[Line]) -> list[int]:
    """The moments at which a shard that was not accepted became so."""
    moments: list[int] = []
    for count, line in enumerate(lines, start=1):
        if line.event in ("run_open", "commit"):
            newly = whole_shards_accepted(lines[:count]) - whole_shards_accepted(lines[: count - 1])
            moments.extend(line.moment_ms for _ in newly)
    return moments


def jobs_done(lines: list[Line]) -> list[Line]:
    """The first success of each distinct job."""
    done: dict[Job, Line] = {}
    for line in lines:
        if line.event == "" and line.get("outcome") == "ok":
            done.setdefault(job_of(line), line)
    return list(done.values())


def tell_run(
    name: str,
    lines: list[Line],
    told: list[TaskLine],
    lives: dict[TaskKey, Life],
    now_ms: int,
    task: TaskSettings,
    deviations: Deviations,
) -> Run:
    """One run at `now_ms`, from the lines that name it."""
    opens = [line for line in lines if line.event == "run_open"]
    hand_over = [line for line in lines if line.event in ("run_open", "run_close")]
    leaves_ms = max(line.moment_ms for line in lines) + 24 * HOUR_MS
    if hand_over and hand_over[-1].event == "run_close":
        leaves_ms = min(leaves_ms, hand_over[-1].moment_ms + HOUR_MS)
    run = Run(leaves_ms=leaves_ms)
    run.tasks = Counter(life.state_at(now_ms, task) for key, life in lives.items() if key[0] == name)
    run.budget_tokens = next((one.get("budget_tokens") for one in reversed(opens) if one.has("budget_tokens")), None)
    deadline = next((one.get("deadline_ms") for one in reversed(opens) if one.has("deadline_ms")), None)
    if deadline is not None:
        run.deadline_ms = opens[0].moment_ms + deadline

    open_ones = [one for one in reservations(lines) if not one.ended]
    run.reserved_tokens = sum(one.tokens for one in open_ones)
    run.leases_open = sum(now_ms < one.lease_expires_ms for one in open_ones)
    run.leases_overdue = len(open_ones) - run.leases_open
    run.committed_tokens = sum(line.get("tokens") for line in lines if line.event == "commit")
    run.burned_tokens = sum(line.get("burned_tokens") or 0 for line in lines if line.event == "release")
    run.shards_accepted = len(acceptances(lines))
    run.compensations = sum(line.event == "compensate" for line in lines)

    tasks = next((one.get("tasks") for one in reversed(opens) if one.has("tasks")), None)
    if tasks is not None and run.deadline_ms is not None:
        moments = [one.line.moment_ms for one in told if one.line.run == name and one.completed]
        moments += [line.moment_ms for line in jobs_done(lines) if line.has("ts_ms")] + acceptances(lines)
        completed = run.tasks["complete"] + len(jobs_done(lines)) + len(whole_shards_accepted(lines))
        remaining = max(0, tasks - completed)
        first_ms = min(line.moment_ms for line in lines)
        if "a run that is as old as now has a rate" in deviations:
            first_ms = min(first_ms, now_ms - 1)
        run.projected_slack_s = projected_slack_s(run.deadline_ms, remaining, moments, first_ms, now_ms)
    return run


def projected_slack_s(
    deadline_ms: int, remaining: int, completion_moments: list[int], first_ms: int, now_ms: int
) -> float | None:
    """Seconds from the projected hand-over to the deadline, at the last hour's rate; None while that is unknown."""
    if remaining == 0:
        return (deadline_ms - now_ms) / 1000
    recent = sum(now_ms - HOUR_MS < moment <= now_ms for moment in completion_moments)
    observed_ms = min(HOUR_MS, now_ms - first_ms)
    if recent == 0 or observed_ms <= 0:
        return None
    return (deadline_ms - now_ms - remaining * observed_ms / recent) / 1000


def refusals_of(lines: list[Line]) -> Counter[tuple[str, str]]:
    """`refuse` lines by op and reason; what no page names is `other`."""
    refusals: Counter[tuple[str, str]] = Counter()
    for line in lines:
        if line.event == "refuse":
            op, reason = line.get("op"), line.get("reason")
            refusals[op if op in REFUSAL_OPS else "other", reason if reason in REFUSAL_REASONS else "other"] += 1
    return refusals
