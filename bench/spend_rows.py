"""Fills a spend store with committed epochs, by SQL alone: a run that has been going for a long time."""

import sqlite3
from contextlib import closing

import psycopg

_COLUMNS = (
    "run, shard, epoch, state, tokens, lease_expires_ms, input_digest, host, checkpoint_tokens, artifact_digest, base"
)
_VALUES = "{run}, 'old-' || n, 0, 'committed', 100, 0, 'sha256:input', 'host', NULL, 'sha256:artifact', 'old-' || n"


def fill(url: str, run: str, rows: int) -> None:
    """Add `rows` accepted shards to the run."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///").partition("?")[0])) as lite, lite:
            numbers = "WITH RECURSIVE many(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM many WHERE n < ?)"
            values = _VALUES.format(run="?")
            lite.execute(f"{numbers} INSERT INTO spend_epochs ({_COLUMNS}) SELECT {values} FROM many", (rows, run))
            lite.execute("UPDATE spend_runs SET committed_tokens = ? WHERE run = ?", (rows * 100, run))
        return
    with psycopg.connect(url, autocommit=True) as connection:
        values = _VALUES.format(run="%s")
        connection.execute(
            f"INSERT INTO spend_epochs ({_COLUMNS}) SELECT {values} FROM generate_series(1, %s) AS n", (run, rows)
        )
        connection.execute("UPDATE spend_runs SET committed_tokens = %s WHERE run = %s", (rows * 100, run))
        connection.execute("ANALYZE spend_epochs")
