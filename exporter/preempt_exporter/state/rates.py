"""What a lane's lines measure: its waits, its speeds, and the break-even figures of its window."""

from array import array

from msgspec import Struct

from preempt_exporter.decide.break_even import LaneFigures, lane_figures, p95
from preempt_exporter.settings import LaneSettings, Thresholds
from preempt_exporter.state.figures import Figures
from preempt_exporter.state.lane import Lane


class LaneRates(Struct, frozen=True, gc=False):
    """What a restart in the lane has to reckon with; None while unmeasured."""

    wait_p95_s: float | None
    decode_tokens_per_s: float | None
    prefill_tokens_per_s: float | None


class LaneMeasurements:
    """Computes window figures once per change of a lane's window, however often they are asked for."""

    def __init__(self, lanes: LaneSettings, thresholds: Thresholds) -> None:
        """`lanes` gives the window's age limit and prefill rates, `thresholds` the margin of required slack."""
        self._lanes = lanes
        self._margin_s = thresholds.margin_s
        self._windows: dict[str, tuple[int, LaneFigures]] = {}

    def window_figures(self, lane: Lane, now_ms: int) -> LaneFigures | None:
        """The break-even figures of the attempts in the lane's window at `now_ms`; None while it is empty."""
        lane.forget_attempts_before(now_ms - self._lanes.window_ms)
        if not lane.attempts_kept:
            return None
        version, figures = self._windows.get(lane.name, (-1, None))
        if figures is None or version != lane.window_version:
            figures = lane_figures(lane.name, lane.window(), margin_s=self._margin_s)
            self._windows[lane.name] = (lane.window_version, figures)
        return figures

    def rates(self, lane: Lane, now_ms: int) -> LaneRates:
        """The lane's p95 wait (of its attempts, else of first admissions) and its decode and prefill rates."""
        window = self.window_figures(lane, now_ms)
        wait_p95_s: float | None = None
        if window is not None:
            wait_p95_s = window.p95_wait_s
        elif lane.waits_ms:
            wait_p95_s = p95(array("d", lane.newest_waits_ms())) / 1000
        per_ms = lane.decode_tokens_per_ms()
        decode = None if per_ms is None else per_ms * 1000
        return LaneRates(wait_p95_s, decode, self._lanes.prefill_tokens_per_s.get(lane.name))

    def all_rates(self, figures: Figures, now_ms: int) -> dict[str, LaneRates]:
        """The rates of every lane by its label."""
        return {name: self.rates(lane, now_ms) for name, lane in figures.lanes.items()}
