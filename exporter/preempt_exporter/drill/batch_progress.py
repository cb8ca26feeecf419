"""A worker's side of the batch state: it may write only while its attempt is open.

An attempt that the driver has closed is fenced off: a worker that outlived its driver, or was stopped and woke up, is
refused at its next write, whatever it holds in memory.
"""

import hashlib
from sqlite3 import Connection, Row

import msgspec

from preempt_exporter.clock import Clock
from preempt_exporter.drill.batch_database import BatchDatabase
from preempt_exporter.drill.batch_jobs import BYTES_PER_TOKEN, BatchJob
from preempt_exporter.drill.batch_keys import Effect, publish_once


class AttemptIsClosed(Exception):
    """The driver gave this attempt up; nothing of it may count any more."""


class AttemptProgress:
    """One attempt of one job, as its worker records it. Each method is one transaction."""

    def __init__(self, database: BatchDatabase, sequence: int, clock: Clock) -> None:
        """`sequence` names the attempt."""
        self._database = database
        self._sequence = sequence
        self._clock = clock

    def begin(self) -> tuple[BatchJob, int, int]:
        """The job, the byte of its output to go on at, and which of all its attempts this is, from 1.

        From here on the prompt is paid for. Raises `AttemptIsClosed`.
        """
        with self._database.changing() as connection:
            attempt = self._open_attempt(connection)
            found = connection.execute("SELECT job FROM jobs WHERE job_id = ?", (attempt["job_id"],)).fetchone()
            job = msgspec.json.decode(found["job"], type=BatchJob)
            done_bytes = connection.execute(
                "SELECT COALESCE(SUM(LENGTH(text)), 0) FROM checkpoints WHERE job_id = ?", (attempt["job_id"],)
            ).fetchone()[0]
            number = connection.execute(
                "SELECT COUNT(*) FROM attempts WHERE job_id = ? AND sequence <= ?", (attempt["job_id"], self._sequence)
            ).fetchone()[0]
            connection.execute(
                "UPDATE attempts SET tokens_in = ?, resumed_at_bytes = ?, seen_ms = ? WHERE sequence = ?",
                (job.prompt_tokens or 0, done_bytes, self._clock.now_ms(), self._sequence),
            )
        return job, int(done_bytes), int(number)

    def step_begins(self, start: int, size: int) -> None:
        """The worker goes on to make `size` bytes from byte `start` on; what is begun is paid for."""
        with self._database.changing() as connection:
            self._open_attempt(connection)
            self._count_step(connection, start, size)

    def checkpoint(self, start: int, text: str, next_size: int) -> None:
        """Keep the piece of output from byte `start` on; the worker goes on to make `next_size` bytes after it.

        Raises `AttemptIsClosed`.
        """
        with self._database.changing() as connection:
            attempt = self._open_attempt(connection)
            connection.execute("INSERT INTO checkpoints VALUES (?, ?, ?)", (attempt["job_id"], start, text))
            self._count_step(connection, start + len(text), next_size)

    def publish(self, key: str) -> bool:
        """The side effect: publish the output under the key; False where that had been done before."""
        with self._database.changing() as connection:
            attempt = self._open_attempt(connection)
            pieces = connection.execute(
                "SELECT text FROM checkpoints WHERE job_id = ? ORDER BY start", (attempt["job_id"],)
            )
            output = "".join(piece["text"] for piece in pieces)
            effect = Effect(
                job_id=attempt["job_id"],
                lane=attempt["lane"],
                attempt=attempt["attempt"],
                ts_ms=self._clock.now_ms(),
                output_digest="sha256:" + hashlib.sha256(output.encode()).hexdigest(),
            )
            return publish_once(connection, key, effect)

    def _open_attempt(self, connection: Connection) -> Row:
        row: Row | None = connection.execute(
            "SELECT * FROM attempts WHERE sequence = ? AND end_ms IS NULL", (self._sequence,)
        ).fetchone()
        if row is None:
            raise AttemptIsClosed
        return row

    def _count_step(self, connection: Connection, start: int, size: int) -> None:
        """Tokens of bytes `start` to `start + size`: a token that was begun before is not paid for again."""
        tokens = -(-(start + size) // BYTES_PER_TOKEN) + (-start // BYTES_PER_TOKEN)
        connection.execute(
            "UPDATE attempts SET tokens_out = tokens_out + ?, seen_ms = ? WHERE sequence = ?",
            (tokens, self._clock.now_ms(), self._sequence),
        )
