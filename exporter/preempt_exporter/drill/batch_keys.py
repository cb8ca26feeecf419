"""The dedupe table: under one idempotency key a side effect happens once, however often it is asked for.

Key and effect are written in one transaction of one store. That is the whole secret, and its limit: an effect in
another system is only safe if that system takes the key and does this itself.
"""

from sqlite3 import Connection

from msgspec import Struct

from preempt_exporter.drill.batch_database import BatchDatabase


class Effect(Struct, frozen=True, kw_only=True):
    """A side effect that happened: the job's output was published."""

    job_id: str
    lane: str
    attempt: int
    ts_ms: int
    output_digest: str


class KeyAnswer(Struct, frozen=True, kw_only=True):
    """What the table knows of one key."""

    key: str
    asked: int
    """How often the effect was asked for."""
    happened: int
    """How often it happened: 0 or 1."""
    effect: Effect | None = None


def publish_once(connection: Connection, key: str, effect: Effect) -> bool:
    """Within the caller's transaction, publish under `key` unless that was done before; whether it was done now."""
    asked = connection.execute(
        "INSERT INTO keys VALUES (?, 1) ON CONFLICT (key) DO UPDATE SET asked = asked + 1 RETURNING asked", (key,)
    ).fetchone()[0]
    if asked > 1:
        return False
    connection.execute(
        "INSERT INTO effects (key, job_id, lane, attempt, ts_ms, output_digest) VALUES (?, ?, ?, ?, ?, ?)",
        (key, effect.job_id, effect.lane, effect.attempt, effect.ts_ms, effect.output_digest),
    )
    return True


def ask_key(database: BatchDatabase, key: str) -> KeyAnswer:
    """What happened under `key`."""
    with database.reading() as connection:
        row = connection.execute("SELECT asked FROM keys WHERE key = ?", (key,)).fetchone()
        effects = connection.execute("SELECT * FROM effects WHERE key = ? ORDER BY sequence", (key,)).fetchall()
    effect = None
    if effects:
        effect = Effect(**{name: effects[0][name] for name in Effect.__struct_fields__})
    return KeyAnswer(key=key, asked=row["asked"] if row else 0, happened=len(effects), effect=effect)
