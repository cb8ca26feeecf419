"""The memory of attempt lines against a list of them."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preempt_exporter.ledger.records import Attempt
from preempt_exporter.state import repeats
from preempt_exporter.state.repeats import LedgerMemory, attempt_name
from tests.state.folding import attempt

REMEMBERED = 5

few_attempts = st.builds(
    lambda job, number, end_s, outcome: msgspec.convert(
        attempt(job_id=job, attempt=number, end_s=end_s, outcome=outcome), Attempt
    ),
    st.sampled_from("ab"),
    st.integers(1, 2),
    st.integers(60, 62),
    st.sampled_from(["ok", "preempted"]),
)


@pytest.fixture(autouse=True, scope="module")
def small_memory():
    """Five attempts are remembered, older ones are dropped two by two."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repeats, "REMEMBERED_ATTEMPTS", REMEMBERED)
        patch.setattr(repeats, "FORGOTTEN_TOGETHER", 2)
        yield


@given(st.lists(few_attempts, max_size=40), st.sets(st.integers(0, 39)))
@settings(max_examples=300)
def test_repeats_conflicts_and_completed_jobs_are_those_of_the_last_attempts(lines, restarts: set[int]) -> None:
    """Also after the state was loaded anew."""
    memory, remembered = LedgerMemory(name="l"), []
    for number, line in enumerate(lines):
        name, last = attempt_name(line), remembered[-REMEMBERED:]
        assert memory.knows_name(name) == (name in map(attempt_name, last))
        assert memory.knows_completed_job(name) == any(
            known.outcome == "ok" and attempt_name(known)[:3] == name[:3] for known in last
        )
        repeat = line in last
        assert (memory.knows_name(name) and memory.is_repeat(line, name)) == repeat
        if not repeat:
            memory.remember_attempt(line, name)
            remembered.append(line)
        assert len(memory.attempts) < REMEMBERED + 2
        if number in restarts:
            memory = msgspec.msgpack.decode(msgspec.msgpack.encode(memory), type=LedgerMemory)
