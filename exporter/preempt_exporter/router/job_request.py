"""A job as `route --job` and the batch runner describe it: one JSON object."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from preempt_exporter.decide.routing import RoutedJob
from preempt_exporter.errors import UsageError
from preempt_exporter.ledger.records import Count, Host

JobName = Annotated[str, Meta(min_length=1, max_length=256)]


class JobRequest(Struct, frozen=True, kw_only=True):
    """What the caller knows of the job; unknown fields are ignored, as in the ledger."""

    job_id: JobName | int
    run: JobName | int | None = None
    idempotent: bool | None = None
    """None: idempotent where a lane gives its jobs an idempotency key, which then goes along to the others."""
    checkpointed: bool = False
    """Whether it has, or will write, checkpoints that a restart resumes from."""
    deadline_ms: Count | None = None
    """Duration from enqueue."""
    enqueued_ms: Count | None = None
    queue_age_ms: Count | None = None
    """None: now less `enqueued_ms`, else 0."""
    prompt_tokens: Count | None = None
    target_tokens: Count | None = None
    checkpoint_tokens: Count = 0
    host: Host | None = None

    @property
    def job_name(self) -> str:
        """`job_id` as text."""
        return str(self.job_id)

    @property
    def run_name(self) -> str | None:
        """`run` as text."""
        return None if self.run is None else str(self.run)

    def as_routed_job(self, *, lanes_give_keys: bool, now_ms: int) -> RoutedJob:
        """The job as the table sees it. `lanes_give_keys`: some lane has an `idempotency_key`."""
        age_ms = self.queue_age_ms
        if age_ms is None:
            age_ms = 0 if self.enqueued_ms is None else max(0, now_ms - self.enqueued_ms)
        remaining = None if self.target_tokens is None else max(self.target_tokens - self.checkpoint_tokens, 0)
        return RoutedJob(
            job_id=self.job_name,
            idempotent=lanes_give_keys if self.idempotent is None else self.idempotent,
            checkpointed=self.checkpointed or self.checkpoint_tokens > 0,
            deadline_ms=self.deadline_ms,
            queue_age_ms=age_ms,
            prompt_tokens=self.prompt_tokens,
            remaining_output_tokens=remaining,
            host=self.host,
        )


def job_from_json(text: str) -> tuple[JobRequest, Sequence[str]]:
    """The job, and the names of fields that were ignored. Raises `UsageError` that names the field."""
    try:
        request = msgspec.json.decode(text, type=JobRequest)
        fields = msgspec.json.decode(text, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise UsageError(
            f"--job is not a job: {error}; fields are {', '.join(JobRequest.__struct_fields__)}"
        ) from error
    return request, sorted(set(fields) - set(JobRequest.__struct_fields__))
