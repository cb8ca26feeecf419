"""Which task this process is about, where nobody said: the scheduler's own name for the array element."""

from collections.abc import Mapping

from preempt_exporter.errors import UsageError


def task_id_from(given: str | None, environ: Mapping[str, str]) -> str:
    """The id that was given, else that of the Slurm array element or the Kubernetes job index.

    A Slurm element is `ARRAYJOB_INDEX`, as Slurm writes it; it stays the same when Slurm requeues it. A Kubernetes
    index is the bare number, so name the job with `--run`. Raises UsageError where there is none of them.
    """
    if given:
        return given
    array_job, array_index = environ.get("SLURM_ARRAY_JOB_ID"), environ.get("SLURM_ARRAY_TASK_ID")
    if array_job and array_index:
        return f"{array_job}_{array_index}"
    index = environ.get("JOB_COMPLETION_INDEX")
    if index:
        return index
    raise UsageError("which task? Give --task ID, or start it as a Slurm array element or a Kubernetes indexed job")
