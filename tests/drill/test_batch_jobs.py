"""The jobs file of `drill batch`."""

import os
from collections import Counter
from pathlib import Path

import pytest

from preempt_exporter.drill.batch_jobs import (
    BatchJob,
    default_jobs,
    digest_of,
    piece_of_output,
    read_jobs,
    write_jobs,
)
from preempt_exporter.errors import UsageError


def test_default_jobs_are_400_of_2_kb_in_three_sizes() -> None:
    """60, 30 and 10 in 100, and about so in every tenth of the batch."""
    jobs = default_jobs()
    assert (len(jobs), {job.output_bytes for job in jobs}) == (400, {2048})
    assert Counter(job.size for job in jobs) == {"small": 240, "medium": 120, "large": 40}
    assert Counter(job.size for job in jobs[:10]) == {"small": 6, "medium": 3, "large": 1}
    assert len({job.prompt_tokens for job in jobs}) == 3


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """With the batch's run and the tokens of the output; the file's own words stay the same job."""
    path = tmp_path / "jobs"
    write_jobs(path, default_jobs(3, 10))
    jobs = read_jobs(path, "r")
    assert [(job.job_name, job.run, job.target_tokens) for job in jobs] == [
        ("job-0001", "r", 3),
        ("job-0002", "r", 3),
        ("job-0003", "r", 3),
    ]
    assert [digest_of(job) for job in jobs] == [digest_of(job) for job in read_jobs(path, "another run")]
    assert list(tmp_path.iterdir()) == [path]


def test_blank_lines_windows_line_ends_and_a_bom_are_no_jobs(tmp_path: Path) -> None:
    """Numbers become names; a file that is not there has no jobs."""
    path = tmp_path / "jobs"
    path.write_bytes(b'\xef\xbb\xbf{"job_id": 1}\r\n\r\n{"job_id": "b", "colour": "red"}')
    assert [job.job_id for job in read_jobs(path, "r")] == ["1", "b"]
    assert [job.deadline_ms for job in read_jobs(path, "r", deadline_ms=7)] == [7, 7]
    assert read_jobs(tmp_path / "none", "r") == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("job", "malformed"),
        ("[]", "Expected `object`"),
        ('{"size": "small"}', "job_id"),
        ('{"job_id": "a"}', "'a' stands twice"),
        ('{"job_id": 1, "output_bytes": -1}', "output_bytes"),
        ('{"job_id": "' + "ü" * 200 + '"}', "256 bytes"),
        ('{"job_id": "\\ud800"}', "not a job"),
    ],
)
def test_what_is_no_job_is_refused_by_line(tmp_path: Path, line: str, words: str) -> None:
    """File, line number, what is wrong."""
    path = tmp_path / "jobs"
    path.write_text(f'{{"job_id": "a"}}\n\n{line}\n', encoding="utf-8")
    with pytest.raises(UsageError, match=words) as refused:
        read_jobs(path, "r")
    assert str(refused.value).startswith(f"{path}:3: ")


def test_what_is_no_regular_file_is_neither_read_nor_replaced(tmp_path: Path) -> None:
    """A pipe, which stands for devices too, is still one after the refusal; so is a folder."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        with pytest.raises(UsageError, match="not a regular file"):
            read_jobs(path, "r")
        with pytest.raises(UsageError, match="not a regular file"):
            write_jobs(path, default_jobs(1))
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_symbolic_link_to_a_jobs_file_stays_one(tmp_path: Path) -> None:
    """The file behind it is written."""
    link = tmp_path / "link"
    link.symlink_to("jobs")
    write_jobs(link, default_jobs(1))
    assert link.is_symlink()
    assert len(read_jobs(tmp_path / "jobs", "r")) == 1


@pytest.mark.parametrize("size", [1, 7, 64, 100, 300])
def test_output_in_pieces_is_the_whole_output(size: int) -> None:
    """Whatever the step, and wherever an attempt goes on."""
    job = BatchJob(job_id="j", output_bytes=200)
    whole = piece_of_output(job, 0, 200)
    pieces = [piece_of_output(job, start, size) for start in range(0, 200, size)]
    assert (len(whole), "".join(pieces)) == (200, whole)
    assert whole != piece_of_output(BatchJob(job_id="k", output_bytes=200), 0, 200)
