"""Hypothesis strategies for ledger lines of every kind.

The pools of names, runs, lanes, hosts and line ids are small on purpose: repeats, collisions, late lines, stamps from
the future, lives after ends and several ledgers that tell of one task must be the rule, not the exception.
"""

from typing import Any

from hypothesis import strategies as st

from preempt_exporter.settings import (
    HOUR_MS,
    MINUTE_MS,
    SECOND_MS,
    LaneSettings,
    TaskDefaults,
    TaskSettings,
    Thresholds,
)
from tests.state.reference import Settings
from tests.state.reference_reading import LedgerLine

START_MS = 1_795_956_000_000
LEDGERS = ("/ledgers/a.jsonl", "/ledgers/b.jsonl")
TASKS = ("t1", "t2", 7, "w0")
RUNS = (None, None, "r1", 2)
LANES = (None, None, "free", "paid")
HOSTS = (None, "h1", "h2")
LINE_IDS = (None, None, None, None, None, "i1", "i2", "i3")
SHARDS = (3, "4", "3/0-1", "3/2-3", "3/2-2")
OVERLAPS = {"4/2-3": {"4/2-2"}, "4/2-2": {"4/2-3"}}
SMALL_COUNTS = (0, 1, 2, 3)
TOKENS = (0, 10, 100, 240, 840)
DURATIONS_MS = (0, SECOND_MS, 30 * SECOND_MS, 2 * MINUTE_MS, 20 * MINUTE_MS)
REASONS = ("slack_zero", "queue_age", "preempt_budget", "restart_tokens", "restart_cannot_finish", "drain_mode", "mood")
REFUSED = ("STALE_EPOCH", "OVER_BUDGET", "WEATHER")

MOMENTS = ("ts_ms", "enqueued_ms", "lease_expires_ms")

Fields = dict[str, Any]


def fields(required: dict[str, st.SearchStrategy[Any]], optional: dict[str, st.SearchStrategy[Any]]) -> Any:
    """A line's own fields: all of `required`, any of `optional`."""
    return st.fixed_dictionaries(required, optional=optional)


counts = st.sampled_from(SMALL_COUNTS)
tokens = st.sampled_from(TOKENS)
durations_ms = st.sampled_from(DURATIONS_MS)
slacks_ms = st.sampled_from((*DURATIONS_MS, -SECOND_MS))
runs = st.sampled_from([run for run in RUNS if run is not None])
advances_ms = st.sampled_from((0, 0, 1, SECOND_MS, SECOND_MS, MINUTE_MS, 15 * MINUTE_MS, 2 * HOUR_MS))
digests = st.sampled_from(("sha256:aa", "sha256:bb"))
prompts_within = st.sampled_from((SECOND_MS, 30 * SECOND_MS, 2 * MINUTE_MS))


def admission_fields(moments_ms: st.SearchStrategy[int]) -> dict[str, st.SearchStrategy[Any]]:
    """What `enqueue` and `admit` may carry."""
    return {
        "enqueued_ms": moments_ms,
        "deadline_ms": durations_ms,
        "task_budget": tokens,
        "prompt_tokens": tokens,
        "target_tokens": tokens,
    }


@st.composite
def task_events(draw: st.DrawFn, moments_ms: st.SearchStrategy[int], *, of_one_task: bool = False) -> Fields:
    """One admission event, of one and the same task if need be."""
    age_ms = draw(durations_ms)
    ages_and_slacks = {
        "queue_age_ms": st.just(age_ms),
        "deadline_slack_ms": durations_ms.map(lambda deadline_ms: deadline_ms - age_ms),
    }
    totals = {"preempts": counts, "restart_tokens": tokens}
    own: dict[str, Any] = {
        "enqueue": fields({}, admission_fields(moments_ms)),
        "admit": fields({**ages_and_slacks, "preempts": counts}, admission_fields(moments_ms)),
        "reject": fields({"reason": st.sampled_from(REASONS)}, {**ages_and_slacks, **totals, "task_budget": tokens}),
        "heartbeat": fields({}, {"output_tokens": tokens, "next_within_ms": prompts_within}),
        "preempt": fields(
            {"wasted_tokens": tokens, **totals}, {"deadline_slack_ms": slacks_ms, "inferred": st.booleans()}
        ),
        "checkpoint": fields(
            {"checkpoint_tokens": tokens},
            {"output_tokens": tokens, "input_digest": digests, "next_within_ms": prompts_within},
        ),
        "drain": fields({"action": st.just("fail_task_not_replay")}, {}),
        "complete": fields({"output_tokens": tokens, "restart_tokens": tokens}, {}),
    }
    event = draw(st.sampled_from(sorted(own)))
    return {
        "event": event,
        "task_id": "t1" if of_one_task else draw(st.sampled_from(TASKS)),
        "run": None if of_one_task else draw(st.sampled_from(RUNS)),
        "lane": draw(st.sampled_from(LANES)),
        "host": draw(st.sampled_from(HOSTS)),
        "ts_ms": draw(moments_ms),
        **draw(own[event]),
    }


@st.composite
def attempts(draw: st.DrawFn, moments_ms: st.SearchStrategy[int]) -> Fields:
    """One attempt line; few values, so that equal and conflicting ones abound."""
    return {
        "job_id": draw(st.sampled_from(("j1", "j2"))),
        "lane": draw(st.sampled_from(("free", "paid"))),
        "attempt": draw(st.sampled_from((1, 2))),
        "enqueue_s": draw(st.sampled_from((0, 1.5))),
        "start_s": draw(st.sampled_from((0, 5, 812))),
        "end_s": draw(st.sampled_from((5, 934.25))),
        "outcome": draw(st.sampled_from(("ok", "ok", "preempted", "oom"))),
        "tokens_in": draw(st.sampled_from((None, 0, 9100))),
        "tokens_out": draw(st.sampled_from((None, 2050))),
        "interventions": draw(st.sampled_from((0, 1))),
        **draw(fields({}, {"ts_ms": moments_ms, "host": st.sampled_from(("h1", "h2")), "run": runs})),
    }


@st.composite
def switches(draw: st.DrawFn, moments_ms: st.SearchStrategy[int]) -> Fields:
    """One run, lane or mode event."""
    own: dict[str, Any] = {
        "run_open": fields(
            {"run": runs},
            {
                "budget_tokens": tokens,
                "deadline_ms": st.sampled_from((2 * MINUTE_MS, HOUR_MS)),
                "tasks": counts,
                "cases_per_shard": st.sampled_from((3, 4)),
            },
        ),
        "run_close": fields({"run": runs}, {}),
        "run_stop": fields({"run": runs}, {}),
        "run_resume": fields({"run": runs}, {}),
        "lane_drain": fields(
            {"lane": st.sampled_from(("free", "paid")), "action": st.just("drain_and_reject")}, {"run": runs}
        ),
        "lane_resume": fields({"lane": st.sampled_from(("free", "paid"))}, {}),
        "mode": fields({"mode": st.sampled_from(("normal", "reject_preempt_budget"))}, {}),
    }
    event = draw(st.sampled_from((*sorted(own), "run_open", "run_open")))
    return {
        "event": event,
        "ts_ms": draw(moments_ms),
        **draw(own[event]),
        **draw(fields({}, {"by": st.just("operator"), "reason": st.just("drill")})),
    }


@st.composite
def unlikely_spend_events(draw: st.DrawFn, moments_ms: st.SearchStrategy[int]) -> Fields:
    """One spend event, whatever came before: no store would write them in this order."""
    own: dict[str, Any] = {
        "reserve": fields({"tokens": tokens, "lease_expires_ms": moments_ms, "input_digest": digests}, {}),
        "renew": fields({"lease_expires_ms": moments_ms}, {}),
        "shard_checkpoint": fields({"index": counts, "tokens": tokens, "input_digest": digests}, {}),
        "resume": fields({"index": counts}, {}),
        "commit": fields({"tokens": tokens, "artifact_digest": digests}, {}),
        "release": fields(
            {"tokens": tokens, "reason": st.sampled_from(("lease_expired", "cancelled", "superseded"))},
            {"burned_tokens": tokens},
        ),
        "compensate": fields({"artifact_digest": digests, "reason": st.just("wrong answers")}, {}),
    }
    event = draw(st.sampled_from((*sorted(own), "reserve", "commit")))
    return {
        "event": event,
        "run": draw(runs),
        "shard": draw(st.sampled_from(SHARDS)),
        "epoch": draw(st.sampled_from((0, 1, 2))),
        "ts_ms": draw(moments_ms),
        **draw(own[event]),
    }


def lines(*, unlikely: bool) -> st.SearchStrategy[Fields]:
    """One valid line of any kind, its moments relative to its reading: mostly just then, long ago, or in the future.

    `unlikely` lets spend events in that no store would write.
    """
    moments_ms = st.sampled_from((0, 0, 0, 0, -1, -SECOND_MS, -SECOND_MS, -2 * MINUTE_MS, 5 * SECOND_MS, 26 * HOUR_MS))
    task = task_events(moments_ms)
    other = st.one_of(attempts(moments_ms), switches(moments_ms), refusals(moments_ms))
    if unlikely:
        other = st.one_of(other, unlikely_spend_events(moments_ms))
    named = st.one_of(task, task, other)
    return st.builds(with_extras, named, st.sampled_from(LINE_IDS), st.booleans())


def lines_of_one_task() -> st.SearchStrategy[Fields]:
    """Admission events of one task, within seconds of their reading, so that each meets what the others left."""
    moments_ms = st.sampled_from((0, 0, 0, -1, -SECOND_MS, -30 * SECOND_MS, 5 * SECOND_MS))
    return st.builds(with_extras, task_events(moments_ms, of_one_task=True), st.none(), st.just(False))


def read_at(read_ms: int, line: Fields) -> Fields:
    """The line with its moments on the clock of its reader."""
    return line | {name: line[name] + read_ms for name in MOMENTS if name in line}


@st.composite
def refusals(draw: st.DrawFn, moments_ms: st.SearchStrategy[int]) -> Fields:
    """What the store said no to; some of it nothing that a page names."""
    return {
        "event": "refuse",
        "run": draw(runs),
        "shard": draw(st.sampled_from(SHARDS)),
        "ts_ms": draw(moments_ms),
        "op": draw(st.sampled_from(("commit", "grant", "borrow"))),
        "reason": draw(st.sampled_from(REFUSED)),
        **draw(fields({}, {"epoch": counts, "tokens": tokens, "host": st.sampled_from(("h1", "h2"))})),
    }


def with_extras(line: Fields, line_id: str | None, lies_about_the_gpu: bool) -> Fields:
    """The line as a writer would put it: without what it does not know, perhaps with a name and an unknown field."""
    kept = {name: value for name, value in line.items() if value is not None or name.startswith("tokens_")}
    if line_id is not None:
        kept["id"] = line_id
    if lies_about_the_gpu:
        kept["gpu_util_lie"] = 0.04
    return kept


@st.composite
def workloads(draw: st.DrawFn) -> list[LedgerLine]:
    """A believable batch: tasks that say what they need, are admitted, checkpoint, are preempted, and end or do not.

    One ledger per task, so that a ledger that is read late tells of the past in the right order.
    """
    by_ledger: list[list[LedgerLine]] = []
    for number, ledger in enumerate(LEDGERS[: draw(st.integers(1, 2))]):
        moment_ms = START_MS + draw(st.sampled_from((0, SECOND_MS, MINUTE_MS)))
        of_task = {"task_id": f"w{number}", "run": draw(runs), "lane": draw(st.sampled_from(("free", "paid")))}
        needs = {"deadline_ms": 20 * MINUTE_MS, "task_budget": 1000, "prompt_tokens": 800, "target_tokens": 400}
        said: list[Fields] = [{"event": "enqueue", **needs}]
        done, preempts = 0, 0
        for step in draw(st.lists(st.sampled_from(("admit", "checkpoint", "checkpoint", "preempt")), max_size=8)):
            if step == "admit":
                said.append(
                    {"event": "admit", "queue_age_ms": 0, "deadline_slack_ms": 20 * MINUTE_MS, "preempts": preempts}
                )
            elif step == "checkpoint":
                done += draw(st.sampled_from((100, 40, 0)))
                said.append({"event": "checkpoint", "checkpoint_tokens": done})
            else:
                preempts += 1
                said.append({"event": "preempt", "wasted_tokens": 90, "restart_tokens": 90 * preempts})
                said[-1]["preempts"] = preempts
        if draw(st.booleans()):
            said.append({"event": "complete", "output_tokens": done, "restart_tokens": 90 * preempts})
        told: list[LedgerLine] = []
        for line in said:
            moment_ms += draw(st.sampled_from((0, 250, SECOND_MS, MINUTE_MS)))
            told.append((ledger, {**of_task, **line, "ts_ms": moment_ms}, moment_ms))
        by_ledger.append(told)
    merged = [line for told in by_ledger for line in told]
    return sorted(merged, key=lambda line: line[2]) if draw(st.booleans()) else read_later(merged)


@st.composite
def spending(draw: st.DrawFn) -> list[LedgerLine]:
    """What a store writes about a few shards and parts of one run: epochs rise, each is reserved once and ends once."""
    run = draw(runs)
    moment_ms = START_MS
    opened = {"run": run, "cases_per_shard": 4, "budget_tokens": 7400, "tasks": 3, "deadline_ms": 2 * HOUR_MS}
    said: list[Fields] = [{"event": "run_open", "ts_ms": moment_ms, **opened}]
    highest: dict[str, int] = {}
    reserved: dict[str, int] = {}
    accepted: dict[str, int] = {}
    for _ in range(draw(st.integers(0, 14))):
        moment_ms += draw(st.sampled_from((0, SECOND_MS, MINUTE_MS, 20 * MINUTE_MS)))
        shard = draw(st.sampled_from(("3", "4/0-1", "4/2-3", "4/2-2")))
        about = {"run": run, "shard": shard, "ts_ms": moment_ms}
        if shard in accepted:
            if draw(st.booleans()):
                done = {"epoch": accepted.pop(shard), "artifact_digest": "sha256:aa", "reason": "wrong answers"}
                said.append({"event": "compensate", **about, **done})
        elif shard not in reserved and not OVERLAPS.get(shard, set()) & (reserved.keys() | accepted.keys()):
            reserved[shard] = highest[shard] = highest.get(shard, -1) + 1
            lease = {"tokens": 100, "lease_expires_ms": moment_ms + 2 * MINUTE_MS, "input_digest": "sha256:aa"}
            said.append({"event": "reserve", "epoch": reserved[shard], **about, **lease})
        elif shard in reserved:
            epoch = {"epoch": reserved[shard]}
            op = draw(st.sampled_from(("renew", "shard_checkpoint", "commit", "commit", "release")))
            own: dict[str, Fields] = {
                "renew": {"lease_expires_ms": moment_ms + 4 * MINUTE_MS},
                "shard_checkpoint": {"index": 2, "tokens": 60, "input_digest": "sha256:aa"},
                "commit": {"tokens": 100, "artifact_digest": "sha256:aa"},
                "release": {"tokens": 100, "reason": "lease_expired", "burned_tokens": 60},
            }
            said.append({"event": op, **epoch, **about, **own[op]})
            if op == "commit":
                accepted[shard] = reserved.pop(shard)
            elif op == "release":
                del reserved[shard]
    told: list[LedgerLine] = [
        (LEDGERS[0], {**line, "id": f"spend-{number}"}, line["ts_ms"]) for number, line in enumerate(said)
    ]
    return told if draw(st.booleans()) else read_later(told)


def read_later(history: list[LedgerLine]) -> list[LedgerLine]:
    """The same lines, all found at the end of it."""
    end_ms = max(read_ms for _, _, read_ms in history)
    return [(ledger, line, end_ms) for ledger, line, _ in history]


@st.composite
def histories(draw: st.DrawFn, *, most: int = 25, unlikely: bool = False) -> list[LedgerLine]:
    """Up to `most` valid lines in reading order, from two ledgers, while the clock moves on; some are written twice.

    A line may be found again in the other ledger, but for spending: a store writes one ledger. Some are about one task
    alone; some begin with a believable batch or believable spending, which the rest then disturbs; `unlikely` lets
    spend events in that no store would write.
    """
    about = draw(st.sampled_from(("one task", "one task", "everything", "a workload", "spending")))
    begin: dict[str, st.SearchStrategy[list[LedgerLine]]] = {"a workload": workloads(), "spending": spending()}
    history = draw(begin.get(about, st.just([])))
    read_ms = history[-1][2] if history else START_MS
    line_of = lines_of_one_task() if about == "one task" else lines(unlikely=unlikely)
    again = st.integers(0, 30)
    steps = st.tuples(advances_ms, st.sampled_from((LEDGERS[0], *LEDGERS)), line_of, st.none() | st.none() | again)
    for advance_ms, ledger, line, which in draw(st.lists(steps, max_size=most)):
        read_ms += advance_ms
        if which is not None and which < len(history):
            written_in, known, _ = history[which]
            history.append((written_in if "shard" in known else ledger, known, read_ms))
        else:
            history.append((ledger, read_at(read_ms, line), read_ms))
    return history


later_ms = st.sampled_from(
    (0, 1, SECOND_MS, 30 * SECOND_MS, 2 * MINUTE_MS, 11 * MINUTE_MS, 31 * MINUTE_MS, 3 * HOUR_MS, 25 * HOUR_MS)
)
"""How long after the last line somebody looks."""


@st.composite
def settings(draw: st.DrawFn) -> Settings:
    """What an operator may have set, the defaults among them."""
    return Settings(
        task=TaskSettings(
            series_of_worst=None,
            linger_ms=draw(st.sampled_from((5 * MINUTE_MS, 0, 24 * HOUR_MS))),
            abandon_after_ms=draw(st.sampled_from((None, None, MINUTE_MS))),
            silent_after_ms=draw(st.sampled_from((None, 30 * SECOND_MS))),
            defaults=TaskDefaults(
                deadline_ms=draw(st.sampled_from((None, 2 * MINUTE_MS))),
                task_budget=draw(st.sampled_from((None, 1000))),
            ),
        ),
        lane=LaneSettings(
            default=draw(st.sampled_from(("default", "free"))),
            names=draw(st.sampled_from(((), ("free", "paid", "spot")))),
            prefill_tokens_per_s=draw(st.sampled_from(({}, {"free": 4000.0}))),
        ),
        thresholds=draw(st.sampled_from((Thresholds(), Thresholds(queue_age_frac=0, restart_frac=2, max_preempts=1)))),
    )


BAD_LINES: tuple[Fields, ...] = (
    {"event": "resurrect", "task_id": "t1", "ts_ms": START_MS},
    {"event": "admit", "task_id": "t1", "ts_ms": START_MS},
    {"event": "heartbeat", "task_id": "t1", "ts_ms": -1},
    {"event": "heartbeat", "task_id": "t1", "ts_ms": "soon"},
    {"event": "heartbeat", "task_id": True, "ts_ms": START_MS},
    {"event": "heartbeat", "task_id": "t" * 257, "ts_ms": START_MS},
    {"event": "enqueue", "task_id": "t1", "ts_ms": START_MS, "lane": "l" * 65},
    {"event": "enqueue", "task_id": "t1", "ts_ms": START_MS, "task_budget": 2**53 + 1},
    {"event": "preempt", "task_id": "t1", "ts_ms": START_MS, "wasted_tokens": -1, "restart_tokens": 0, "preempts": 1},
    {"event": "complete", "task_id": "t1", "ts_ms": START_MS, "output_tokens": float("nan"), "restart_tokens": 0},
    {"job_id": "j1", "lane": "free", "attempt": 0, "outcome": "ok"},
    {"task_id": "t1"},
)
"""Lines that are no lines: each is skipped and counted, and changes nothing else."""
