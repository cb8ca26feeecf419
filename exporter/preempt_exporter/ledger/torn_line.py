"""A last line without its newline: whoever is about to decide ends it first, and then knows what the ledger says.

Otherwise the decider's own append would end it: a line that was pending during the decision would count after it.
"""

import os
from pathlib import Path

from preempt_exporter.errors import LedgerWriteError, UnreadableInput
from preempt_exporter.ledger.append_file import ends_in_newline, lock, unlock


def end_torn_line(ledger: Path) -> None:
    """Append a newline where a last line lacks one; its writer acknowledged it to nobody.

    A line that another of our writers is putting there is left to it: the second look, under the lock, sees it whole.
    Raises `UnreadableInput`, or `LedgerWriteError` where the newline cannot be written.
    """
    try:
        with ledger.open("rb") as file:
            if ends_in_newline(file.fileno()):
                return
    except FileNotFoundError:
        return
    except OSError as error:
        raise UnreadableInput(str(ledger), error) from error
    try:
        descriptor = os.open(ledger, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        try:
            lock(descriptor)
            if not ends_in_newline(descriptor):
                os.write(descriptor, b"\n")
            unlock(descriptor)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return  # rotated since the first look: what is written from now on goes elsewhere
    except OSError as error:
        raise LedgerWriteError(str(ledger), error) from error
