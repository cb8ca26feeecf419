"""Which ledger a command acts on: `--ledger`, else `LEDGER_PATH`."""

from collections.abc import Mapping
from pathlib import Path

from preempt_exporter.errors import UsageError
from preempt_exporter.gate.live_path import own_ledger


def ledger_path(given: str | None, environ: Mapping[str, str]) -> Path:
    """The ledger's live path, the same however it is spelled. Raises `UsageError` where none is named, or no file."""
    named = named_ledger(given, environ)
    if named is None:
        raise UsageError("which ledger? Set LEDGER_PATH or give --ledger PATH")
    return named


def named_ledger(given: str | None, environ: Mapping[str, str]) -> Path | None:
    """As `ledger_path`; None where none is named."""
    path = given or environ.get("LEDGER_PATH")
    return own_ledger(path, "--ledger" if given else "LEDGER_PATH") if path else None
