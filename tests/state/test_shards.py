"""Names of shards and their parts, as the spend store reads them too."""

import msgspec
import pytest

from preempt_exporter.spend.parts import read_shard_name
from preempt_exporter.state import shards
from preempt_exporter.state.shards import AcceptedShards, part_of
from tests.state.folding import T0_MS, fold, watched


@pytest.mark.parametrize(
    "name",
    [
        "3",
        "3/30-49",
        "3/030-0000000000000000049",
        "3/٣-٤",
        "a/b/0-0",
        "3/0-9007199254740992",
        "3/-4",
        "/0-1",
        "x\n/0-1",
    ],
)
def test_exporter_and_store_read_a_shards_name_alike(name: str) -> None:
    """What the store accepts as a part is a part to the exporter, and what it accepts whole is whole."""
    read = read_shard_name(name)
    expected = None if read.cases is None else (read.base, read.cases.first, read.cases.last)
    assert part_of(name) == expected


def test_cases_past_what_a_number_holds_are_none() -> None:
    """The store refuses such a name; on a line by hand it is a whole shard's, and the state can be kept."""
    name = "3/0-" + "9" * 30
    commit = {"event": "commit", "run": "r", "shard": name, "epoch": 0, "ts_ms": T0_MS}
    state = fold(watched(), commit | {"tokens": 1, "artifact_digest": "d"})
    assert state.figures.runs["r"].counters.shards_accepted == 1
    assert msgspec.msgpack.encode(state.figures)


def test_parts_are_held_against_the_whole_only_when_they_are_as_many_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shard of thousands of parts is not sorted anew at each of them."""
    looks = []
    covers = shards._covers_each_once
    monkeypatch.setattr(
        shards, "_covers_each_once", lambda parts, cases: (looks.append(cases), covers(parts, cases))[1]
    )
    accepted = AcceptedShards()
    assert sum(accepted.accept(f"3/{case}-{case}", 0, 5_000) for case in range(5_000)) == 1
    assert looks == [5_000]


def test_cases_are_counted_on_over_repeats_compensations_and_a_restart() -> None:
    """Each case once: a part named twice, taken back, kept in the state file, and brought again."""
    accepted = AcceptedShards()
    assert [accepted.accept(name, 0, 20) for name in ("3/0-9", "3/0-9", "3/5-9")] == [0, 0, 0]
    accepted.take_back("3/5-9", 0)
    accepted.take_back("3/0-9", 1)  # an epoch that brought nothing
    kept = msgspec.msgpack.decode(msgspec.msgpack.encode(accepted), type=AcceptedShards)
    assert [kept.accept("3/10-19", 1, 20), kept.accept("3/10-19", 2, 20)] == [1, 0]
