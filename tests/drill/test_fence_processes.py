"""`drill fence --processes`: real workers, killed and stopped for real, on real stores."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_killed_and_stopped_processes_leave_one_artifact_per_shard(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """`kill -9` in mid-write, SIGSTOP past the lease and SIGCONT: nothing is billed twice, every zombie is refused."""
    if kind == "sqlite":
        url = f"sqlite:///{tmp_path / 'spend.db'}"
    else:
        new_url: Callable[[], str] = request.getfixturevalue("new_postgres_url")
        url = new_url()
    ledger = tmp_path / "ledger.jsonl"
    command = [sys.executable, "-m", "preempt_exporter.cli.main", "drill", "fence"]
    flags = ["--processes", "2", "--preemptions", "16", "--shards", "2", "--budget", "3700", "--seed", "7"]
    done = subprocess.run(
        [*command, *flags, "--store", url, "--ledger", ledger, "--json"],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        env=os.environ | {"LEDGER_PATH": ""},
    )
    assert done.returncode == 0, done.stderr + done.stdout
    said = json.loads(done.stdout)
    assert (said["preemptions"], said["artifacts"], said["ok"]) == (16, {"0": 1, "1": 1}, True)
    assert said["refusals"]["commit/STALE_EPOCH"] > 0
    lines = [json.loads(line) for line in ledger.read_text().splitlines()]
    assert sum(line["event"] == "commit" for line in lines) == 2
    assert done.stderr == ""


def heed_interrupts() -> None:
    """A suite that runs in the background hands down that SIGINT is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize(("stop", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_drill_ends_at_once(stop: signal.Signals, status: int, tmp_path: Path) -> None:
    """An interrupt at the terminal, or SIGTERM, calls every slot off: no rest is waited for, no process stays."""
    ledger = tmp_path / "ledger.jsonl"
    command = [sys.executable, "-m", "preempt_exporter.cli.main", "drill", "fence"]
    flags = ["--processes", "2", "--preemptions", "100000", "--ledger", str(ledger), "--json"]
    with (
        # Not in tmp_path: the worker processes' socket is there as well, and its name may not be long.
        tempfile.TemporaryDirectory() as temporary,
        subprocess.Popen(
            [*command, *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=os.environ | {"TMPDIR": temporary},
            preexec_fn=heed_interrupts,
        ) as drill,
    ):
        try:
            give_up_at_s = time.monotonic() + 60
            while not (ledger.exists() and ledger.read_text().count('"reserve"') > 2):
                assert drill.poll() is None and time.monotonic() < give_up_at_s
            if stop is signal.SIGINT:
                os.killpg(drill.pid, stop)
            else:
                drill.send_signal(stop)
            # Whoever stays behind holds the pipes open.
            said = drill.communicate(timeout=60)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(drill.pid, signal.SIGKILL)
        assert (drill.returncode, *said) == (status, "", "")
        assert not list(Path(temporary).glob("drill-fence-*"))
