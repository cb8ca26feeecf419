"""A worker process of one lane: `python -m preempt_exporter.drill.batch_worker STATE STEP_BYTES STEP_S`.

It reads assignments from standard input, a JSON line each, and answers each with a line on standard output. It ends
when its input ends, so that a driver that is gone leaves none behind.
"""

import signal
import sys
from contextlib import closing
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from preempt_exporter.clock import SystemClock
from preempt_exporter.drill.batch_database import BatchDatabase
from preempt_exporter.drill.batch_jobs import piece_of_output
from preempt_exporter.drill.batch_progress import AttemptIsClosed, AttemptProgress
from preempt_exporter.errors import StoreUnavailable

PROMPT_TOKENS_PER_STEP = 1000
"""Reading so many tokens of prompt takes as long as writing one step of output."""


class Assignment(Struct, frozen=True, kw_only=True):
    """What the driver sends."""

    sequence: int
    key: str


class Ended(Struct, frozen=True, kw_only=True):
    """What the worker answers."""

    sequence: int
    outcome: Literal["ok", "failed"]


def work_on(
    assignment: Assignment, database: BatchDatabase, clock: SystemClock, *, step_bytes: int, step_s: float
) -> Ended:
    """Go on where the last checkpoint is, checkpoint each step, publish the output under the key.

    Raises `AttemptIsClosed` when the driver gave the attempt up meanwhile.
    """
    progress = AttemptProgress(database, assignment.sequence, clock)
    job, done_bytes, number = progress.begin()
    clock.sleep(step_s * (job.prompt_tokens or 0) / PROMPT_TOKENS_PER_STEP)
    if number <= job.fail_attempts:
        return Ended(sequence=assignment.sequence, outcome="failed")
    progress.step_begins(done_bytes, min(step_bytes, job.output_bytes - done_bytes))
    while done_bytes < job.output_bytes:
        clock.sleep(step_s)
        text = piece_of_output(job, done_bytes, step_bytes)
        rest = job.output_bytes - done_bytes - len(text)
        progress.checkpoint(done_bytes, text, min(step_bytes, rest))
        done_bytes += len(text)
    progress.publish(assignment.key)
    return Ended(sequence=assignment.sequence, outcome="ok")


def main(state: str, step_bytes: str, step_s: str) -> None:
    """Work until the input ends, or until an attempt turns out to be closed: then another driver is at work."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for the driver, which waits for us
    with closing(BatchDatabase(Path(state))) as database:
        for line in sys.stdin.buffer:
            assignment = msgspec.json.decode(line, type=Assignment)
            ended = work_on(assignment, database, SystemClock(), step_bytes=int(step_bytes), step_s=float(step_s))
            sys.stdout.buffer.write(msgspec.json.encode(ended) + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (AttemptIsClosed, BrokenPipeError):
        sys.stderr.close()
        sys.exit(0)
    except StoreUnavailable as error:
        sys.exit(f"drill batch worker: {error}")
