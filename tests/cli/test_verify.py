"""`verify`: agrees with an exporter that read everything, and names what one did not read."""

import json
from pathlib import Path

import pytest

from preempt_exporter.ledger.records import MAX_LINE_BYTES
from tests.running_exporter import is_one_line, serving, told

LINES = [json.dumps({"event": "heartbeat", "task_id": f"t{number}", "ts_ms": number}) + "\n" for number in range(9)]
OVERLONG = "x" * (MAX_LINE_BYTES * 3 // 2) + "\n"


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"l.jsonl": "".join(LINES)}, id="plain"),
        pytest.param({"l.jsonl": LINES[0] + LINES[1].rstrip("\n")}, id="last line without its end"),
        pytest.param({"l.jsonl.1": LINES[0].rstrip("\n"), "l.jsonl": LINES[1]}, id="rotated without its end"),
        pytest.param({"l.jsonl.1": "".join(LINES[:3]), "l.jsonl": "".join(LINES[:5])}, id="copy of the live file"),
        pytest.param({"l.jsonl": LINES[0] + OVERLONG}, id="over-long last line"),
        pytest.param({"l.jsonl": "\ufeff\n" + LINES[0] + OVERLONG + "\0\0" + LINES[1] + "{\n"}, id="odd content"),
    ],
)
def test_it_agrees_with_an_exporter_that_read_everything(tmp_path: Path, files: dict[str, str]) -> None:
    """Whatever an exporter holds back or skips, the cold read holds back and skips as well, to the byte."""
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    with serving(tmp_path / "l.jsonl") as exporter:
        exporter.wait_until_ready()
        told_of = told("verify", tmp_path / "l.jsonl", "--url", exporter.url)
    assert (told_of.returncode, told_of.stderr) == (0, ""), told_of.stdout


def test_it_names_what_differs(tmp_path: Path) -> None:
    """Of another ledger than the exporter reads: exit status 1, and the counters as text and as JSON."""
    (tmp_path / "l.jsonl").write_text("".join(LINES[:2]), encoding="utf-8")
    (tmp_path / "other.jsonl").write_text("".join(LINES[:1]), encoding="utf-8")
    with serving(tmp_path / "l.jsonl") as exporter:
        exporter.wait_until_ready()
        text = told("verify", tmp_path / "other.jsonl", "--url", exporter.url)
        objects = told("verify", tmp_path / "other.jsonl", "--url", exporter.url, "--json")
    assert text.returncode == objects.returncode == 1
    assert "preempt_ledger_lines_total{}: exporter 2, cold read 1" in text.stdout
    differing = {found["name"]: (found["exporter"], found["cold_read"]) for found in json.loads(objects.stdout)}
    assert differing["preempt_events_total"] == (2, 1)


def test_no_exporter_is_one_line(tmp_path: Path) -> None:
    """Nobody answers: exit status 2."""
    (tmp_path / "l.jsonl").write_text(LINES[0], encoding="utf-8")
    refused = told("verify", tmp_path / "l.jsonl", "--url", "http://127.0.0.1:1")
    assert refused.returncode == 2 and is_one_line(refused.stderr)
