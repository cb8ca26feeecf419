"""Everything that the lines add up to, as one record: what a snapshot holds beside the read positions."""

from msgspec import Struct, field

from preempt_exporter.ledger.decode import LINE_ERROR_REASONS
from preempt_exporter.ledger.records import REFUSAL_OPS, REFUSAL_REASONS
from preempt_exporter.state.lane import MAX_LANES, OTHER, Lane
from preempt_exporter.state.repeats import LedgerMemory
from preempt_exporter.state.run import MAX_LIVE_RUNS, Run, RunCounters

HOUR_MS = 60 * 60 * 1000


class LineCounts(Struct):
    """What was counted of lines, whatever they said."""

    lines: int = 0
    bytes: int = 0
    errors: dict[str, int] = field(default_factory=lambda: dict.fromkeys(LINE_ERROR_REASONS, 0))
    duplicates: int = 0
    conflicting: int = 0
    ignored: int | None = None
    """Lines that a field mapping says nothing about; None where nothing is mapped."""


class Skew(Struct):
    """The largest `ts_ms` ahead of its reading within the last one to two hours, in milliseconds."""

    hour: int = 0
    largest_ms: int = 0
    before_ms: int = 0

    def record(self, ahead_ms: int, now_ms: int) -> None:
        """A line was `ahead_ms` ahead when it was read at `now_ms`."""
        self._turn(now_ms)
        self.largest_ms = max(self.largest_ms, ahead_ms)

    def largest(self, now_ms: int) -> int:
        """Milliseconds; 0 when no recent line was ahead."""
        self._turn(now_ms)
        return max(self.largest_ms, self.before_ms)

    def _turn(self, now_ms: int) -> None:
        hour = now_ms // HOUR_MS
        if hour != self.hour:
            self.before_ms = self.largest_ms if hour == self.hour + 1 else 0
            self.hour, self.largest_ms = hour, 0


def _no_refusals() -> dict[str, dict[str, int]]:
    reasons = (*REFUSAL_REASONS, OTHER)
    return {op: dict.fromkeys(reasons, 0) for op in (*REFUSAL_OPS, OTHER)}


class Figures(Struct, dict=True):
    """Lives (by run), lanes, runs and counters, with the order in which lives ended."""

    counts: LineCounts = field(default_factory=LineCounts)
    skew: Skew = field(default_factory=Skew)
    ledgers: list[LedgerMemory] = field(default_factory=list)
    lanes: dict[str, Lane] = field(default_factory=dict)
    runs: dict[str | None, Run] = field(default_factory=dict)
    other_runs: RunCounters = field(default_factory=RunCounters)
    """Counters of the runs that share the label value `other`; they stay when such a run leaves."""
    refusals: dict[str, dict[str, int]] = field(default_factory=_no_refusals)
    mode: str = "normal"
    last_line_read_ms: int | None = None
    evicted: int = 0
    lives_kept: int = 0
    ends: list[tuple[str | None, str, int]] = field(default_factory=list)
    """Ended lives in the order of their ends: run, task, end; the oldest make room first."""

    def __post_init__(self) -> None:
        """Who holds a label value follows from the runs, so a snapshot does without it."""
        self._holders = {name: run for name, run in self.runs.items() if run.labelled}
        """Runs with a label value of their own, but for those in `_away`."""
        self._away: dict[str | None, Run] = {}
        """Those that had left when another asked for room, and of which no line was read since."""

    def lane(self, name: str) -> Lane:
        """The lane under its bounded label: a name beyond the first `MAX_LANES` is `other`."""
        lane = self.lanes.get(name)
        if lane is None:
            if len(self.lanes) >= MAX_LANES and name != OTHER:
                return self.lane(OTHER)
            lane = self.lanes[name] = Lane(name=name)
        return lane

    def run(self, name: str | None, now_ms: int) -> Run:
        """The run of that name, begun if it is new; None holds the lives of no run.

        A run that is really called `other` shares that label value, as a lane does: two sums under one name would be
        the same series twice.
        """
        run = self.runs.get(name)
        if run is None:
            labelled = name is not None and name != OTHER and self._has_room_for_a_run(now_ms)
            run = self.runs[name] = Run(name=name, labelled=labelled)
            if labelled:
                self._holders[name] = run
        elif name in self._away:
            self._holders[name] = self._away.pop(name)
        return run

    def forget_run(self, name: str | None) -> None:
        """Drop a run that holds no lives."""
        for runs in (self.runs, self._holders, self._away):
            runs.pop(name, None)

    def _has_room_for_a_run(self, now_ms: int) -> bool:
        """Whether fewer than `MAX_LIVE_RUNS` runs hold label values.

        A run that has left is looked at once, until another line of it is read: years of old runs cost no more.
        """
        if len(self._holders) >= MAX_LIVE_RUNS:
            for name, run in list(self._holders.items()):
                if not run.labelled:
                    del self._holders[name]
                elif run.has_left(now_ms):
                    self._away[name] = self._holders.pop(name)
        return len(self._holders) < MAX_LIVE_RUNS

    def counters_of(self, run: Run) -> tuple[RunCounters, ...]:
        """Where a count of `run` goes: its own, and the shared `other` when it has no label value of its own."""
        return (run.counters,) if run.labelled else (run.counters, self.other_runs)

    def make_labels_known(self, lane_names: tuple[str, ...]) -> None:
        """Begin the lanes that the configuration names, so that their counters start at 0."""
        for name in lane_names:
            self.lane(name)
