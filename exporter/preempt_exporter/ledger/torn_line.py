"""A last line without its newline: whoever is about to decide ends it first, and then knows what the ledger says.

Otherwise the decider's own append would end it: a line that was pending during the decision would count after it.
"""

import os
from pathlib import Path

from preempt_exporter.errors import LedgerWriteError, UnreadableInput


def end_torn_line(ledger: Path) -> None:
    """Append a newline where a last line lacks one; its writer acknowledged it to nobody.

    Raises `UnreadableInput`, or `LedgerWriteError` where the newline cannot be written.
    """
    try:
        with ledger.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            if size == 0:
                return
            file.seek(size - 1)
            if file.read(1) == b"\n":
                return
    except FileNotFoundError:
        return
    except OSError as error:
        raise UnreadableInput(str(ledger), error) from error
    try:
        descriptor = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            os.write(descriptor, b"\n")
        finally:
            os.close(descriptor)
    except OSError as error:
        raise LedgerWriteError(str(ledger), error) from error
