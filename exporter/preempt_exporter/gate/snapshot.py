"""The gate's own small snapshot: lives and rates, and the place in the ledger up to which they hold."""

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from preempt_exporter.gate.lane_rates import LaneRates
from preempt_exporter.gate.ledger_reader import Place
from preempt_exporter.gate.life import Life

SNAPSHOT_VERSION = 1


class Snapshot(Struct, frozen=True, kw_only=True):
    """What a restart begins from."""

    version: int = SNAPSHOT_VERSION
    taken_ms: int
    """When it was taken; lines before the place are not newer."""
    place: Place | None
    lives: list[Life]
    """Ended ones in the order of their ends, then live ones."""
    rates: LaneRates


def write_snapshot(path: Path, snapshot: Snapshot) -> None:
    """Replace the file as a whole, on disk. Raises OSError."""
    aside = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with aside.open("wb") as file:
            file.write(msgspec.json.encode(snapshot))
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def read_snapshot(path: Path) -> Snapshot | None:
    """The snapshot, or None where there is none of use: the ledger alone then tells everything, only slower."""
    try:
        snapshot = msgspec.json.decode(path.read_bytes(), type=Snapshot)
    except (OSError, msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return snapshot if snapshot.version == SNAPSHOT_VERSION else None
