"""A lane's worker process as its driver holds it: at most one job in flight, started anew when its slot was lost."""

import contextlib
import subprocess
import sys
from pathlib import Path
from typing import IO, Literal

import msgspec

from preempt_exporter.drill.batch_worker import Assignment, Ended

STOP_PATIENCE_S = 5.0


class LaneWorker:
    """Started at the first assignment."""

    def __init__(self, lane: str, *, state: Path, step_bytes: int, step_s: float) -> None:
        """`state` is the batch database, which the worker opens itself."""
        self.lane = lane
        self.in_flight: int | None = None
        """The sequence number of the attempt that it works on."""
        self.broken: str | None = None
        """Why it ended by itself, if it did: that is no preemption, and would happen again."""
        self._command = [
            *(sys.executable, "-m", "preempt_exporter.drill.batch_worker"),
            *(str(state.absolute()), str(step_bytes), str(step_s)),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process's id, if there is one."""
        return None if self._process is None else self._process.pid

    @property
    def answers(self) -> IO[bytes]:
        """What to wait on while an attempt is in flight."""
        assert self._process is not None
        assert self._process.stdout is not None
        return self._process.stdout

    def send(self, assignment: Assignment) -> None:
        """Hand it a job. Whether it is still there is seen when the answer comes, or does not."""
        if self._process is None:
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None
        self.in_flight = assignment.sequence
        try:
            self._process.stdin.write(msgspec.json.encode(assignment) + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return

    def outcome(self) -> Literal["ok", "failed", "preempted"]:
        """How the attempt in flight ended: waits for it. `preempted` where a signal took the process away."""
        line = self.answers.readline()
        sequence, self.in_flight = self.in_flight, None
        if line.endswith(b"\n"):
            ended = msgspec.json.decode(line, type=Ended)
            assert ended.sequence == sequence
            return ended.outcome
        status = self.stop()
        if status < 0:
            return "preempted"
        self.broken = f"the worker of lane {self.lane} ended by itself with status {status} in attempt {sequence}"
        return "failed"

    def stop(self) -> int:
        """Let the process end, or end it; its exit status, below 0 for a signal."""
        if self._process is None:
            return 0
        process, self._process = self._process, None
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        try:
            return process.wait(STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()
        finally:
            process.stdout.close()
