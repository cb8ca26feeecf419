"""`emit`: one valid line, or one line that says why not."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from preempt_exporter.cli.emit import CLOSED_WORDS, KINDS, emit, record_from_words
from preempt_exporter.cli.main import main
from preempt_exporter.clock import FixedClock
from preempt_exporter.errors import UsageError
from preempt_exporter.ledger.decode import decode_line
from preempt_exporter.ledger.records import Attempt, Drain, Enqueue

DRAIN = ["drain", "task_id=t-1", "action=fail_task_not_replay"]


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "l.jsonl"
    monkeypatch.setenv("LEDGER_PATH", str(path))
    return path


def test_a_line_is_appended_in_silence(ledger: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The line is valid, carries an id, and nothing is printed."""
    assert main(["emit", *DRAIN, "ts_ms=5"]) == 0
    assert main(["emit", *DRAIN, "ts_ms=6"]) == 0
    assert capfd.readouterr() == ("", "")
    first, second = (decode_line(line) for line in ledger.read_bytes().splitlines())
    assert isinstance(first, Drain)
    assert isinstance(second, Drain)
    assert (first.task_id, first.ts_ms, second.ts_ms) == ("t-1", 5, 6)
    assert first.id
    assert first.id != second.id


def test_the_line_is_printed_when_asked(ledger: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """`--print` shows exactly the line that was appended, wherever the flag stands."""
    for words in (["--print", *DRAIN], [DRAIN[0], "--print", *DRAIN[1:]], [*DRAIN, "--print"]):
        ledger.unlink(missing_ok=True)
        assert main(["emit", *words]) == 0
        assert capfd.readouterr().out == ledger.read_text()


def test_the_flag_goes_over_the_environment(ledger: Path, tmp_path: Path) -> None:
    """`--ledger` names the ledger where LEDGER_PATH does too."""
    assert main(["emit", "--ledger", str(tmp_path / "other.jsonl"), *DRAIN]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["other.jsonl"]


def test_now_fills_in(tmp_path: Path) -> None:
    """Without `ts_ms` the line is of now, attempts too."""
    path = tmp_path / "l.jsonl"
    emit(DRAIN[0], DRAIN[1:], str(path), environ={}, clock=FixedClock(1795956016050))
    assert json.loads(path.read_bytes())["ts_ms"] == 1795956016050


@pytest.mark.parametrize(
    ("word", "field", "value"),
    [
        ("task_id=0042", "task_id", "0042"),
        ("task_id=null", "task_id", "null"),
        ("task_id=a=b c\n", "task_id", "a=b c\n"),
        ("run=7", "run", "7"),
        ("run=", "run", None),
        ("deadline_ms=0360", "deadline_ms", 360),
        ("deadline_ms=1.2e3", "deadline_ms", 1200),
        ("deadline_ms=null", "deadline_ms", None),
        ("ts_ms=9007199254740992", "ts_ms", 2**53),
    ],
)
def test_a_value_has_its_fields_type(word: str, field: str, value: object) -> None:
    """Strings stay as they are typed, numbers are numbers, null and an empty run are absent."""
    words = [word] if word.startswith("task_id=") else ["task_id=t", word]
    record = record_from_words("enqueue", words, now_ms=5)
    assert isinstance(record, Enqueue)
    assert getattr(record, field) == value
    assert type(getattr(record, field)) is type(value)


def test_an_attempt_line_has_no_event() -> None:
    """`emit attempt` makes an attempt line; its token counts may be null, its seconds fractions."""
    words = "job_id=12 lane=free attempt=1 enqueue_s=0 start_s=.5 end_s=-2e-1 outcome=ok tokens_in=null tokens_out=3"
    record = record_from_words("attempt", [*words.split(), "interventions=0", "idempotent=true"], now_ms=5)
    assert isinstance(record, Attempt)
    assert (record.job_id, record.start_s, record.end_s, record.tokens_in) == ("12", 0.5, -0.2, None)
    assert (record.idempotent, record.ts_ms) == (True, 5)


SAMPLES = {
    "task_id": "t",
    "run": "r",
    "lane": "free",
    "shard": "3/30-49",
    "reason": "queue_age",
    "mode": "normal",
    "op": "grant",
    "input_digest": "sha256:aa",
    "artifact_digest": "sha256:bb",
    "job_id": "j",
    "outcome": "ok",
}


@pytest.mark.parametrize("event", KINDS)
def test_every_event_can_be_emitted_and_says_what_it_needs(event: str) -> None:
    """Adding what the error asks for, and nothing else, ends in a valid line of that event."""
    with pytest.raises(UsageError, match=f"^{event} needs ") as caught:
        record_from_words(event, [], now_ms=5)
    needed = str(caught.value).removeprefix(f"{event} needs ").replace("=...", "").split()
    words = {name: CLOSED_WORDS.get((event, name), (SAMPLES.get(name, "1"),)) for name in needed}
    record = record_from_words(event, [f"{name}={options[-1]}" for name, options in words.items()], now_ms=5)
    assert type(record) is KINDS[event]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["drian", "task_id=t"], "no event 'drian' (did you mean drain?)"),
        (["drain", "taskid=t"], "no field 'taskid' (did you mean task_id?); it has ts_ms, task_id, action, lane"),
        (["drain", "gpu_util_lie=0.04"], "no field 'gpu_util_lie'"),
        (["drain", "task_id=t"], "drain needs action=..."),
        (["drain", "lane=free"], "drain needs task_id=... action=..."),
        (["drain", "task_id=null", "action="], "drain needs action=..."),
        (["drain", "task_id=", "action=a"], "drain needs task_id=..."),
        (["drain", "task_id"], "'task_id' is not key=value"),
        (["drain"], "key=value"),
        ([*DRAIN, "task_id=t-2"], "task_id is given twice"),
        ([*DRAIN, "ts_ms=soon"], "ts_ms=soon: expected a number"),
        ([*DRAIN, "ts_ms="], "ts_ms=: expected a number"),
        ([*DRAIN, "ts_ms=1_000"], "expected a number"),
        ([*DRAIN, "ts_ms=0x10"], "expected a number"),
        ([*DRAIN, "ts_ms=nan"], "expected a number"),
        ([*DRAIN, "ts_ms=1.5"], "ts_ms: expected a whole number"),
        ([*DRAIN, "ts_ms=-1"], "ts_ms: less than 0"),
        ([*DRAIN, "ts_ms=" + "9" * 5000], "ts_ms: past 2^53"),
        (["enqueue", "task_id=t", "deadline_ms=1e999"], "deadline_ms: past 2^53"),
        ([*DRAIN, "lane=" + "x" * 65], "lane: more than 64 bytes"),
        ([*DRAIN, "run=\udcff"], "not valid UTF-8"),
        (["drain", "task_id=t", "action=foo"], "action=foo: expected one of fail_task_not_replay"),
        (["lane_drain", "lane=free", "action=drain_and_rejct"], "(did you mean drain_and_reject?): expected one of"),
        (
            ["release", "run=r", "shard=3", "epoch=0", "tokens=1", "reason=expired"],
            "expected one of lease_expired, cancelled, superseded",
        ),
        (["mode", "mode=off"], "expected one of normal, reject_preempt_budget"),
        (["preempt", "task_id=t", "wasted_tokens=1", "restart_tokens=1", "preempts=1", "inferred=1"], "true or false"),
        (["--ledger", "/", *DRAIN], "Is a directory"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    ledger: Path, capfd: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    """A mistake is exit 2 and one line on standard error that names it; nothing is written."""
    try:
        status: object = main(["emit", *words])
    except SystemExit as stopped:
        status = stopped.code
    out, err = capfd.readouterr()
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
    assert not ledger.exists()


def test_without_a_ledger_it_says_how_to_name_one(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Neither LEDGER_PATH nor --ledger: exit 2, and both are named."""
    monkeypatch.delenv("LEDGER_PATH", raising=False)
    assert main(["emit", *DRAIN]) == 2
    assert "LEDGER_PATH" in capfd.readouterr().err


def test_many_shells_may_emit_at_once(ledger: Path) -> None:
    """Processes started together lose no line and tear none."""
    code = "import sys; from preempt_exporter.cli.main import main; sys.exit(main(sys.argv[1:]))"
    shells = [subprocess.Popen([sys.executable, "-c", code, "emit", *DRAIN]) for _ in range(6)]
    assert [shell.wait() for shell in shells] == [0] * 6
    records = [decode_line(line) for line in ledger.read_bytes().splitlines()]
    assert len({record.id for record in records if isinstance(record, Drain)}) == 6
