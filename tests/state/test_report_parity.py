"""The exporter's window figures and `report --last N` are the same numbers."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preempt_exporter.ledger.chunk import Chunk
from preempt_exporter.ledger.decode import decode_chunk
from preempt_exporter.ledger.records import Attempt
from preempt_exporter.settings import LaneSettings, TaskSettings, Thresholds
from preempt_exporter.state.lane import WINDOW_ATTEMPTS
from preempt_exporter.state.rates import LaneMeasurements
from preempt_exporter.state.repeats import REMEMBERED_ATTEMPTS
from preempt_exporter.state.telemetry import LaneTelemetry, Telemetry
from preempt_exporter.state.watched import Watched

NOW_MS = 1_800_000_000_000

attempts = st.builds(
    Attempt,
    job_id=st.sampled_from("abc"),
    lane=st.sampled_from(["free", "paid"]),
    attempt=st.integers(1, 3),
    enqueue_s=st.integers(0, 5).map(float),
    start_s=st.integers(0, 500).map(float),
    end_s=st.integers(0, 900).map(float),
    outcome=st.sampled_from(["ok", "preempted", "oom"]),
    tokens_in=st.one_of(st.none(), st.integers(0, 99)),
    tokens_out=st.integers(0, 99),
    interventions=st.integers(0, 2),
    run=st.sampled_from([None, "r"]),
    id=st.one_of(st.none(), st.sampled_from(["x", "y", "z"])),
)


def assert_same_figures(chunks: list[Chunk]) -> None:
    """Both ways over the same chunks give the same figures of every lane."""
    watched = Watched(TaskSettings(), LaneSettings())
    for chunk in chunks:
        watched.fold(decode_chunk(chunk.data).records, chunk.ledger, NOW_MS)
    measurements = LaneMeasurements(LaneSettings(), Thresholds(margin_s=7))
    lanes = LaneTelemetry(last=WINDOW_ATTEMPTS)
    for attempt in Telemetry(chunks):
        lanes.add(attempt)
    reported = {lane.lane: lane.figures(margin_s=7) for lane in lanes.accumulators()}
    measured = {name: measurements.window_figures(lane, NOW_MS) for name, lane in watched.figures.lanes.items()}
    assert measured == reported


@given(st.lists(st.tuples(st.sampled_from(["l", "m"]), attempts), max_size=40))
@settings(max_examples=200)
def test_the_window_gauges_equal_the_report(lines: list[tuple[str, Attempt]]) -> None:
    """Whatever the attempts, repeats and unknown tokens, over two ledgers."""
    assert_same_figures(
        [Chunk(ledger=name, path=name, offset=0, data=msgspec.json.encode(a) + b"\n") for name, a in lines]
    )


def test_they_agree_on_which_attempts_are_the_last() -> None:
    """A lane with more attempts than the window holds."""
    many = b"".join(
        b'{"job_id":%d,"lane":"free","attempt":1,"enqueue_s":0,"start_s":%d,"end_s":%d,"outcome":"ok","tokens_in":1,'
        b'"tokens_out":1,"interventions":0}\n' % (number, number % 977, number % 977 + number % 131)
        for number in range(WINDOW_ATTEMPTS + 1234)
    )
    assert_same_figures([Chunk(ledger="l", path="l", offset=0, data=many)])


@pytest.mark.parametrize("between", [REMEMBERED_ATTEMPTS - 1, REMEMBERED_ATTEMPTS])
def test_they_agree_on_how_far_back_a_repeat_is_known(between: int) -> None:
    """An equal line with so many others between: the last one that is a repeat, and the first that is not."""
    fields = (
        b'"lane":"free","attempt":1,"enqueue_s":0,"start_s":1,"end_s":2,"outcome":"ok","tokens_in":1,"tokens_out":1'
    )
    first = b'{"job_id":"again",%s,"interventions":0}\n' % fields
    others = b"".join(b'{"job_id":%d,%s,"interventions":0}\n' % (number, fields) for number in range(between))
    chunks = [Chunk(ledger="l", path="l", offset=0, data=first + others + first + first)]
    assert_same_figures(chunks)
    telemetry = Telemetry(chunks)
    assert len(list(telemetry)) == between + (1 if between < REMEMBERED_ATTEMPTS else 2)
