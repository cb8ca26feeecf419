"""A lane: what its lines add up to, and the short memory its rates are measured from."""

from bisect import bisect_left

from msgspec import Struct, field

from preempt_exporter.ledger.records import EVENT_NAMES, REJECT_REASONS, Attempt

OTHER = "other"
"""The label value for whatever exceeds a bound."""

MAX_LANES = 100
WINDOW_ATTEMPTS = 10_000
FORGOTTEN_TOGETHER = 1_000
RATE_STEPS = 1_000
ADMISSION_WAITS = 1_000
MAX_HOSTS = 1_000
MAX_PREEMPTS_PER_HOST = 1_000
HOST_WINDOW_MS = 24 * 60 * 60 * 1000

BUCKETS_S = (1, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 86400)

ATTEMPT_OUTCOMES = ("ok", "preempted", "failed")


class Histogram(Struct, gc=False):
    """Counts per bucket (not cumulative; the last is beyond the largest bound), and the sum in seconds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    sum_s: float = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration of `seconds`; one below 0 counts as 0."""
        if seconds < 0:
            seconds = 0.0
        self.counts[bisect_left(BUCKETS_S, seconds)] += 1
        self.sum_s += seconds


class HostPreemptions(Struct):
    """When one host lost slots: `preempt` events and preempted attempt lines apart, since both may tell of one loss."""

    events_ms: list[int] = field(default_factory=list)
    attempts_ms: list[int] = field(default_factory=list)

    def most_since(self, since_ms: int) -> int:
        """The larger of the two counts after `since_ms`."""
        return max(
            sum(moment > since_ms for moment in self.events_ms),
            sum(moment > since_ms for moment in self.attempts_ms),
        )


class Lane(Struct, kw_only=True):
    """Counters, switches and measurement windows of one lane. `name` is its bounded label value."""

    name: str
    events: dict[str, int] = field(default_factory=lambda: dict.fromkeys(EVENT_NAMES, 0))
    rejects: dict[str, int] = field(default_factory=lambda: dict.fromkeys((*REJECT_REASONS, OTHER), 0))
    restart_tokens: int = 0
    output_tokens: int = 0
    deadlines_missed: int = 0
    draining: bool = False
    action: str | None = None
    """The action the lane is under, None once resumed."""
    last_enqueue_ms: int | None = None
    hosts: dict[str, HostPreemptions] = field(default_factory=dict)
    waits_ms: list[int] = field(default_factory=list)
    """Enqueue to first admit, of the newest lives and of some older ones."""
    step_tokens: list[int] = field(default_factory=list)
    """Tokens gained in the newest checkpoint steps, and in some older ones."""
    step_durations_ms: list[int] = field(default_factory=list)
    """How long each of these steps took. Two lists of numbers: the collector has nothing to look at in them."""
    attempts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ATTEMPT_OUTCOMES, 0))
    jobs_completed: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    interventions: int = 0
    wait: Histogram = field(default_factory=Histogram)
    run: Histogram = field(default_factory=Histogram)
    attempts_kept: list[Attempt] = field(default_factory=list)
    """The newest attempts and, so that forgetting stays cheap, some older ones."""
    window_version: int = 0
    """Changes whenever `window()` does, so that figures are computed once per change."""

    def record_step(self, tokens: int, elapsed_ms: int) -> None:
        """Remember one checkpoint step of `tokens` gained in `elapsed_ms`, both above 0."""
        self.step_tokens.append(tokens)
        self.step_durations_ms.append(elapsed_ms)

    def forget_old_steps(self) -> None:
        """Keep the newest `RATE_STEPS` and, so that it stays cheap, as many older ones again at most."""
        if len(self.step_durations_ms) > 2 * RATE_STEPS:
            del self.step_tokens[:-RATE_STEPS]
            del self.step_durations_ms[:-RATE_STEPS]

    def decode_tokens_per_ms(self) -> float | None:
        """Tokens per millisecond over the newest `RATE_STEPS` checkpoint steps; None before the first."""
        elapsed_ms = sum(self.step_durations_ms[-RATE_STEPS:])
        return sum(self.step_tokens[-RATE_STEPS:]) / elapsed_ms if elapsed_ms else None

    def record_wait(self, wait_ms: int) -> None:
        """Remember how long a life waited for its first admission."""
        self.waits_ms.append(wait_ms)
        if len(self.waits_ms) == 2 * ADMISSION_WAITS:
            del self.waits_ms[:ADMISSION_WAITS]

    def newest_waits_ms(self) -> list[int]:
        """How long the newest `ADMISSION_WAITS` lives waited."""
        return self.waits_ms[-ADMISSION_WAITS:]

    def record_attempt(self, attempt: Attempt) -> None:
        """Remember an attempt in the window, which holds the newest `WINDOW_ATTEMPTS`."""
        self.attempts_kept.append(attempt)
        if len(self.attempts_kept) >= WINDOW_ATTEMPTS + FORGOTTEN_TOGETHER:
            del self.attempts_kept[:-WINDOW_ATTEMPTS]
        self.window_version += 1

    def window(self) -> list[Attempt]:
        """The newest attempts, for the figures that must equal `report`'s."""
        return self.attempts_kept[-WINDOW_ATTEMPTS:]

    def forget_attempts_before(self, moment_ms: int) -> None:
        """Drop attempts older than `moment_ms` by their `ts_ms`; those without one stay."""
        kept = [attempt for attempt in self.window() if attempt.ts_ms is None or attempt.ts_ms >= moment_ms]
        if len(kept) < min(len(self.attempts_kept), WINDOW_ATTEMPTS):
            self.attempts_kept = kept
            self.window_version += 1

    def host_losses(self, host: str) -> HostPreemptions:
        """The record of one host; the one that was told of least recently makes room when there are too many."""
        losses = self.hosts.pop(host, None)
        if losses is None:
            if len(self.hosts) >= MAX_HOSTS:
                del self.hosts[next(iter(self.hosts))]
            losses = HostPreemptions()
        self.hosts[host] = losses  # told of last, it stands last
        return losses

    def host_preempts_max(self, now_ms: int) -> int:
        """The most preemptions that one host had in the 24 h before `now_ms`."""
        since_ms = now_ms - HOST_WINDOW_MS
        return max((losses.most_since(since_ms) for losses in self.hosts.values()), default=0)


def remember_loss(moments_ms: list[int], moment_ms: int) -> None:
    """Add a loss to one host's list, which keeps the newest `MAX_PREEMPTS_PER_HOST`."""
    moments_ms.append(moment_ms)
    if len(moments_ms) > MAX_PREEMPTS_PER_HOST:
        del moments_ms[0]
