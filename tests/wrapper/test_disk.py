"""The ledger's disk fills up or becomes read-only: admission fails closed and says so."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from preempt_exporter.cli.main import main
from preempt_exporter.ledger.decode import decode_chunk
from preempt_exporter.ledger.records import Admit
from tests.ledger.small_disk import SmallDisk
from tests.wrapper.wrapped import DECIDING, Wrapped

MANY = 1000


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallDisk]:
    for name in DECIDING:
        monkeypatch.delenv(name, raising=False)
    disk = SmallDisk(tmp_path / "small")
    yield disk
    disk.remove()


def admit(ledger: Path, task_id: str) -> int:
    return main(["admit", "--ledger", str(ledger), "--task", task_id, "--deadline", "5h"])


def admitted(ledger: Path) -> set[str]:
    return {r.task_id for r in decode_chunk(ledger.read_bytes()).records if isinstance(r, Admit)}


def test_a_full_disk_admits_nobody(disk: SmallDisk, capfd: pytest.CaptureFixture[str]) -> None:
    """Every task that was told yes is on the disk, the first that is not is a one-line error, nothing starts."""
    ledger = disk.folder / "l.jsonl"
    told: set[str] = set()
    with disk.limited():
        for number in range(MANY):
            if admit(ledger, f"t{number}") != 0:
                break
            told.add(f"t{number}")
        else:
            pytest.fail("the disk did not fill up")
        said = capfd.readouterr().err
        assert said.count("\n") == 1
        assert "l.jsonl" in said
        assert "nothing was done" in said
        wrapped = Wrapped(disk.folder)
        marker = disk.folder.parent / "started"
        # Whatever room is left is for less than a line.
        filler = disk.folder / "filler"
        _fill(filler)
        refused = wrapped.run("--task", "another", "--deadline", "5h", command=["touch", str(marker)])
        filler.unlink(missing_ok=True)
    assert (refused.returncode, marker.exists()) == (75, False)
    assert refused.stderr.count(b"\n") == 1
    assert told == admitted(ledger)

    disk.make_room()
    assert admit(ledger, "afterwards") == 0
    decoded = decode_chunk(ledger.read_bytes())
    assert len(decoded.bad) <= 1
    assert admitted(ledger) == told | {"afterwards"}


def test_a_torn_line_costs_only_itself(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What a crash tore is a bad line; the tasks before and after it are whole, and the torn task is decided again."""
    ledger = tmp_path / "l.jsonl"
    assert admit(ledger, "before") == 0
    with ledger.open("ab") as file:
        file.write(b'{"event":"admit","task_id":"torn","ts')
    assert admit(ledger, "torn") == admit(ledger, "after") == 0
    assert (admitted(ledger), len(decode_chunk(ledger.read_bytes()).bad)) == ({"before", "torn", "after"}, 1)
    assert capfd.readouterr().out == "admit\n" * 3


COMPLETE = b"""{"event":"admit","task_id":"t","ts_ms":1,"queue_age_ms":0,"deadline_slack_ms":9000000,"preempts":0}
{"event":"complete","task_id":"t","ts_ms":2,"output_tokens":1,"restart_tokens":0}"""


@pytest.mark.parametrize("command", ["run", "admit"])
def test_a_last_line_without_newline_counts_before_the_decision(tmp_path: Path, command: str) -> None:
    """A task that such a line completes is not replayed: our own append would end the line, after the decision."""
    wrapped, marker = Wrapped(tmp_path), tmp_path / "started"
    wrapped.ledger.write_bytes(COMPLETE)
    if command == "run":
        assert wrapped.run("--task", "t", command=["touch", str(marker)]).returncode == 75
    else:
        assert wrapped.admit("--task", "t").stdout == b"refused ended\n"
    assert (marker.exists(), wrapped.ledger.read_bytes()) == (False, COMPLETE + b"\n")


def test_a_ledger_made_read_only_admits_nobody(
    disk: SmallDisk, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A disk that the kernel made read-only: an error, nothing written, and the task is admitted once it is back."""
    ledger = disk.folder / "l.jsonl"
    assert admit(ledger, "before") == 0
    content = ledger.read_bytes()
    with disk.read_only(monkeypatch):
        assert admit(ledger, "t") == 2
    assert "Read-only file system" in capfd.readouterr().err
    assert ledger.read_bytes() == content
    assert admit(ledger, "t") == 0
    assert json.loads(ledger.read_bytes().splitlines()[-1])["task_id"] == "t"


def _fill(path: Path) -> None:
    try:
        with path.open("wb", buffering=0) as file:
            while file.write(b"\0" * 512):
                pass
    except OSError:
        return
