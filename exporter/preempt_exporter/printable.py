"""Names from ledgers and file systems, shown to people so that they cannot pose as anything else."""

import logging


def printable(text: str) -> str:
    """A name that cannot move the cursor or hide itself: what does not print shows as its escape."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


class PrintableFormatter(logging.Formatter):
    """Log lines that stay one line each, whatever a path or a field holds; a traceback below one keeps its lines."""

    def __init__(self) -> None:
        """Time with offset, level, message."""
        super().__init__("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S%z")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line without what does not print."""
        return printable(super().formatMessage(record))
