"""The example in docs/spend.md runs as it stands."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

DOC = Path(__file__).resolve().parents[2] / "docs" / "spend.md"


def test_the_example_commits_its_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copied into a file and run, it ends with one artifact of 1850 tokens."""
    (example,) = re.findall(r"```python\n(.*?)```", DOC.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(example, str(DOC), "exec"), names)
    with closing(sqlite3.connect("spend.db")) as store:
        assert store.execute("SELECT committed_tokens, reserved_tokens FROM spend_runs").fetchall() == [(1850, 0)]
    assert '"event":"commit"' in (tmp_path / "ledger.jsonl").read_text()
