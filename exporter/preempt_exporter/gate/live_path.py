"""One ledger, one name: what lies beside a ledger must be the same files however the ledger is spelled."""

import os
from pathlib import Path

from preempt_exporter.gate.ledger_forms import is_rotated_name
from preempt_exporter.own_file import own_file


def live_path(ledger: str | os.PathLike[str]) -> Path:
    """The ledger's live path, absolute, symbolic links followed.

    One link stays: from a ledger to a rotated form of its own beside it (`l.jsonl` to `l.jsonl.20261129`). It is set
    anew at every rotation, and the ledger is the name that stays.
    """
    given = Path(ledger)
    named = Path(os.path.realpath(given.parent)) / given.name
    real = Path(os.path.realpath(given))
    return named if real.parent == named.parent and is_rotated_name(real.name, of=named.name) else real


def own_ledger(ledger: str, flag: str) -> Path:
    """The live path of a ledger that is to be read and written.

    Raises `UsageError` where a device, a pipe or a folder stands: it would never end, or never begin.
    """
    own_file(Path(ledger), flag)
    return live_path(ledger)
