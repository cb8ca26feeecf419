"""The driver's side of the batch state: jobs, attempts, and which attempt lines are still to be told."""

from collections.abc import Callable, Sequence
from sqlite3 import Row

import msgspec
from msgspec import Struct

from preempt_exporter.clock import Clock
from preempt_exporter.drill.batch_database import BatchDatabase
from preempt_exporter.drill.batch_jobs import BYTES_PER_TOKEN, BatchJob, digest_of
from preempt_exporter.errors import UsageError
from preempt_exporter.ledger.records import Attempt

WAITING, RUNNING, DONE, FAILED = "waiting", "running", "done", "failed"


class WaitingJob(Struct, frozen=True, kw_only=True):
    """A job that could be dispatched."""

    job: BatchJob
    key: str
    """Its idempotency key."""
    checkpoint_tokens: int


class BatchState:
    """What the driver knows and changes. One driver at a time: `batch_folder` sees to that."""

    def __init__(self, database: BatchDatabase, clock: Clock) -> None:
        """`database` is the driver's own connection."""
        self.database = database
        self._clock = clock
        with database.reading() as connection:
            row = connection.execute("SELECT * FROM batch").fetchone()
        self.run: str | None = row["run"] if row else None
        """The batch's run; None: no batch was begun here."""
        self.began_ms: int = row["began_ms"] if row else 0

    def begin(self, run: str, jobs: Sequence[BatchJob], key_of: Callable[[BatchJob], str]) -> None:
        """Begin a batch: from now on every job has a state, and its idempotency key for good.

        One key for all of its attempts, whichever lane they are in and whatever `router.yml` says later.
        """
        now_ms = self._clock.now_ms()
        with self.database.changing() as connection:
            connection.execute("INSERT INTO batch (run, began_ms) VALUES (?, ?)", (run, now_ms))
            connection.executemany(
                """INSERT INTO jobs (position, job_id, job, digest, key, state, queued_ms)
                   VALUES (?, ?, ?, ?, ?, ?, ?)""",
                (
                    (n, job.job_name, msgspec.json.encode(job).decode(), digest_of(job), key_of(job), WAITING, now_ms)
                    for n, job in enumerate(jobs)
                ),
            )
        self.run, self.began_ms = run, now_ms

    def refuse_other_jobs(self, jobs: Sequence[BatchJob]) -> None:
        """`UsageError` that names the first job that is not what the batch was begun with.

        A checkpoint of a changed job would be a piece of another output.
        """
        with self.database.reading() as connection:
            known = {row["job_id"]: row["digest"] for row in connection.execute("SELECT job_id, digest FROM jobs")}
        told = {job.job_name: digest_of(job) for job in jobs}
        for name in [*told, *known]:
            if told.get(name) != known.get(name):
                what = "is new" if name not in known else "is missing" if name not in told else "was changed"
                raise UsageError(
                    f"job {name!r} {what} since the batch began, so its checkpoints do not fit; "
                    "restore the jobs file, or drop the batch with --cleanup"
                )

    def give_up_open_attempts(self) -> int:
        """Close what died with the last driver, as `preempted` and with one intervention each; how many there were.

        An attempt ended when it was last heard of: nobody knows of anything later.
        """
        with self.database.changing() as connection:
            connection.execute("UPDATE batch SET draining = 0")
            open_ones = connection.execute("SELECT sequence, seen_ms FROM attempts WHERE end_ms IS NULL").fetchall()
            for row in open_ones:
                self._close(row["sequence"], "preempted", row["seen_ms"], interventions=1)
        return len(open_ones)

    def waiting(self, limit: int) -> list[WaitingJob]:
        """The first jobs that wait for an attempt."""
        with self.database.reading() as connection:
            rows = connection.execute(
                """SELECT job, key,
                     (SELECT COALESCE(SUM(LENGTH(text)), 0) FROM checkpoints c WHERE c.job_id = j.job_id) AS done
                   FROM jobs j WHERE state = 'waiting' ORDER BY position LIMIT ?""",
                (limit,),
            ).fetchall()
        return [
            WaitingJob(
                job=msgspec.json.decode(row["job"], type=BatchJob),
                key=row["key"],
                checkpoint_tokens=-(-row["done"] // BYTES_PER_TOKEN),
            )
            for row in rows
        ]

    def dispatch(self, job_id: str, lane: str) -> int:
        """Open the job's next attempt in `lane`, within the caller's transaction; its sequence number.

        Attempts are counted per job and lane over all drivers and workers there ever were.
        """
        now_ms = self._clock.now_ms()
        connection = self.database.connection
        connection.execute("UPDATE jobs SET state = ? WHERE job_id = ?", (RUNNING, job_id))
        row = connection.execute(
            """INSERT INTO attempts (job_id, lane, attempt, queued_ms, start_ms, seen_ms)
               SELECT job_id, ?1, 1 + (SELECT COUNT(*) FROM attempts WHERE job_id = ?2 AND lane = ?1), queued_ms, ?3, ?3
               FROM jobs WHERE job_id = ?2 RETURNING sequence""",
            (lane, job_id, now_ms),
        ).fetchone()
        return int(row["sequence"])

    def end(self, sequence: int, outcome: str) -> None:
        """Close an attempt that ended under the driver's eyes, within the caller's transaction."""
        self._close(sequence, outcome, self._clock.now_ms(), interventions=0)

    def fail_job(self, job_id: str, reason: str) -> None:
        """No lane takes the job any more. Within the caller's transaction."""
        connection = self.database.connection
        connection.execute("UPDATE jobs SET state = ?, reason = ? WHERE job_id = ?", (FAILED, reason, job_id))

    def _close(self, sequence: int, outcome: str, end_ms: int, *, interventions: int) -> None:
        connection = self.database.connection
        connection.execute(
            "UPDATE attempts SET outcome = ?, end_ms = MAX(?, start_ms), interventions = ? WHERE sequence = ?",
            (outcome, end_ms, interventions, sequence),
        )
        connection.execute(
            """UPDATE jobs SET state = ?, queued_ms = ?
               WHERE job_id = (SELECT job_id FROM attempts WHERE sequence = ?)""",
            (DONE if outcome == "ok" else WAITING, self._clock.now_ms(), sequence),
        )

    def attempts(self, *, untold_only: bool = False) -> list[tuple[int, Attempt]]:
        """Ended attempts as their ledger lines, each with its sequence number."""
        where = "end_ms IS NOT NULL" + (" AND told = 0" if untold_only else "")
        with self.database.reading() as connection:
            rows = connection.execute(f"SELECT * FROM attempts WHERE {where} ORDER BY sequence").fetchall()
        return [(row["sequence"], self._line(row)) for row in rows]

    def _line(self, row: Row) -> Attempt:
        return Attempt(
            id=f"{self.run}-{row['sequence']}",
            run=self.run,
            job_id=row["job_id"],
            lane=row["lane"],
            attempt=row["attempt"],
            enqueue_s=row["queued_ms"] / 1000,
            start_s=row["start_ms"] / 1000,
            end_s=row["end_ms"] / 1000,
            outcome=row["outcome"],
            tokens_in=row["tokens_in"],
            tokens_out=row["tokens_out"],
            interventions=row["interventions"],
            ts_ms=row["end_ms"],
            idempotent=True,
            checkpointed=True,
        )

    def mark_told(self, sequences: Sequence[int]) -> None:
        """These attempts' lines stand in the telemetry."""
        with self.database.changing() as connection:
            connection.executemany("UPDATE attempts SET told = 1 WHERE sequence = ?", [(n,) for n in sequences])

    def is_draining(self) -> bool:
        """Whether somebody waits for what is in flight: then nothing new is dispatched."""
        with self.database.reading() as connection:
            return bool(connection.execute("SELECT draining FROM batch").fetchone()["draining"])

    def drain(self) -> None:
        """Ask the driver to dispatch nothing more; a later `--resume` takes it back."""
        with self.database.changing() as connection:
            connection.execute("UPDATE batch SET draining = 1")
