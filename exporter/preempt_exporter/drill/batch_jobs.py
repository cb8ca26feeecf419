"""The jobs of `drill batch`: a file of JSON Lines, written by the drill itself where there is none yet."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from preempt_exporter.errors import UnreadableInput, UsageError, why_not_written
from preempt_exporter.ledger.records import MAX_ID_BYTES, Count
from preempt_exporter.own_file import own_file
from preempt_exporter.router.job_request import JobRequest

DEFAULT_JOBS = 400
DEFAULT_OUTPUT_BYTES = 2048
BYTES_PER_TOKEN = 4
"""How the drill counts: a token of output is four bytes of text."""
MAX_OUTPUT_BYTES = 1 << 24
SIX_HOURS_MS = 6 * 60 * 60 * 1000

Size = Literal["small", "medium", "large"]
_PROMPT_TOKENS: dict[Size, int] = {"small": 200, "medium": 1000, "large": 4000}
_SIZES_OF_TEN: tuple[Size, ...] = (
    "small",
    "medium",
    "small",
    "small",
    "large",
    "small",
    "medium",
    "small",
    "medium",
    "small",
)
"""60 in 100 small, 30 medium, 10 large, in turn, so that any part of a batch has about the same mix."""


class BatchJob(JobRequest, frozen=True, kw_only=True, omit_defaults=True):
    """A line of the jobs file: what `route --job` takes, and what the drill's worker makes of it."""

    size: Size = "small"
    """Says the prompt's tokens where `prompt_tokens` does not."""
    output_bytes: Annotated[int, Meta(ge=0, le=MAX_OUTPUT_BYTES)] = DEFAULT_OUTPUT_BYTES
    fail_attempts: Count = 0
    """So many of its attempts fail, the first ones, over all lanes: the drill's own fault, to show what follows."""

    @property
    def output_tokens(self) -> int:
        """Tokens of the whole output, the last one perhaps in part."""
        return -(-self.output_bytes // BYTES_PER_TOKEN)


def default_jobs(count: int = DEFAULT_JOBS, output_bytes: int = DEFAULT_OUTPUT_BYTES) -> list[BatchJob]:
    """`count` jobs with 60 small, 30 medium and 10 large prompts in 100, checkpointed, due in six hours."""
    sizes = (_SIZES_OF_TEN[number % 10] for number in range(count))
    return [
        BatchJob(
            job_id=f"job-{number:04d}",
            size=size,
            prompt_tokens=_PROMPT_TOKENS[size],
            output_bytes=output_bytes,
            checkpointed=True,
            deadline_ms=SIX_HOURS_MS,
        )
        for number, size in enumerate(sizes, 1)
    ]


def write_jobs(path: Path, jobs: Sequence[BatchJob]) -> None:
    """Put the jobs into the file at `path`, whole or not at all. Raises `UsageError`."""
    path = own_file(path, "--jobs")
    aside = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        aside.write_bytes(b"".join(msgspec.json.encode(job) + b"\n" for job in jobs))
        aside.replace(path)
    except OSError as error:
        raise UsageError(f"--jobs {path}: {why_not_written(error)}") from error


def read_jobs(path: Path, run: str, *, deadline_ms: int = SIX_HOURS_MS) -> list[BatchJob]:
    """The jobs of the file as jobs of `run`, in order; none of an empty file, or of one that is not there.

    `deadline_ms` is that of jobs which name none: jobs of a batch wait for each other, so it is long by default.
    Raises `UsageError` with the line number for what is no job and for a job id that stands twice, or where `path` is
    no regular file, and `UnreadableInput`.
    """
    own_file(path, "--jobs")
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UnreadableInput(str(path), error) from error
    jobs: dict[str, BatchJob] = {}
    for number, line in _lines(content):
        try:
            job = msgspec.json.decode(line, type=BatchJob)
            job.job_name.encode()
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            fields = ", ".join(BatchJob.__struct_fields__)
            raise UsageError(f"{path}:{number}: not a job: {error}; fields are {fields}") from error
        if len(job.job_name.encode()) > MAX_ID_BYTES:
            raise UsageError(f"{path}:{number}: job_id is over {MAX_ID_BYTES} bytes")
        if job.job_name in jobs:
            raise UsageError(f"{path}:{number}: job {job.job_name!r} stands twice; ids must differ")
        jobs[job.job_name] = replace(
            job,
            job_id=job.job_name,
            run=run,
            target_tokens=job.output_tokens,
            prompt_tokens=_PROMPT_TOKENS[job.size] if job.prompt_tokens is None else job.prompt_tokens,
            deadline_ms=deadline_ms if job.deadline_ms is None else job.deadline_ms,
        )
    return list(jobs.values())


def digest_of(job: BatchJob) -> str:
    """Names everything that the output depends on: a job with another digest is another job."""
    return "sha256:" + hashlib.sha256(msgspec.json.encode(replace(job, run=None))).hexdigest()


def piece_of_output(job: BatchJob, start: int, size: int) -> str:
    """The job's output from byte `start` on: what a model that always says the same would write."""
    words: list[str] = []
    first = start // 64
    last = min(start + size, job.output_bytes)
    for block in range(first, -(-last // 64)):
        words.append(hashlib.sha256(f"{job.job_name}/{job.prompt_tokens}/{block}".encode()).hexdigest())
    text = "".join(words)
    return text[start - first * 64 : last - first * 64]


def _lines(content: bytes) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").splitlines(), 1):
        if line.strip():
            yield number, line
