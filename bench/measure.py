"""How things are measured here: base and peer in turn, processor time of this thread or process, the median ratio."""

import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence

from msgspec import Struct

ROUNDS = 3


class Result(Struct, frozen=True):
    """One line of the table."""

    what: str
    ratio: float
    wanted: str
    note: str


def seconds_of(work: Callable[[], object]) -> float:
    """Processor seconds that this thread spends on `work`."""
    begun_s = time.thread_time()
    work()
    return time.thread_time() - begun_s


def seconds_of_command(command: Sequence[str]) -> float:
    """Processor seconds of a command, its own threads in sum; `CalledProcessError` when it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def wall_seconds_of_command(command: Sequence[str]) -> float:
    """Seconds from start to end of a command; `CalledProcessError` when it fails."""
    begun_s = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - begun_s


def ratio_in_turn(numerator: Callable[[], float], denominator: Callable[[], float], rounds: int = ROUNDS) -> float:
    """The median over rounds of numerator / denominator, each measured right after the other."""
    return statistics.median(numerator() / denominator() for _ in range(rounds))
