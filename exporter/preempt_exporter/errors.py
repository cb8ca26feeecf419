"""Everything that may go wrong for a caller, as a tree; the CLI alone turns these into sentences.

    PreemptExporterError
    ├── UsageError             a flag, variable or file is wrong: exit 2
    │   └── ConfigError        a key of a configuration file: has line and column
    ├── UnreadableInput        a named path is not there or cannot be read: exit 2
    ├── LedgerWriteError       a line could not be put on disk: the caller must act as if it had not happened
    ├── ToolMissing            promtool, amtool, … is not installed: says how to get it
    └── StoreUnavailable       the spend store is read-only, locked, full or gone: nothing may be dispatched

Expected problems inside a ledger are values (`ledger.decode.BadLine`), never exceptions.
"""

import errno

_NEXT_STEPS = {
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path",
    errno.ELOOP: "check the path",
    errno.EISDIR: "name a file in it",
    errno.EACCES: "give this user the right to it, or run as one who has it",
    errno.EPERM: "give this user the right to it, or run as one who has it",
}
_NEXT_STEPS_OF_A_WRITER = _NEXT_STEPS | {
    errno.ENOENT: "make the folder, or name another path",
    errno.EROFS: "name a path on a file system that can be written",
    errno.ENOSPC: "make room on its disk",
    errno.EDQUOT: "make room, or have the quota raised",
}


def why_not_read(error: OSError) -> str:
    """The operating system's word for what kept a file from being read, and what to do about it."""
    return _with_next_step(error, _NEXT_STEPS)


def why_not_written(error: OSError) -> str:
    """The operating system's word for what kept a file from being written, and what to do about it."""
    return _with_next_step(error, _NEXT_STEPS_OF_A_WRITER)


def _with_next_step(error: OSError, next_steps: dict[int, str]) -> str:
    step = next_steps.get(error.errno or 0)
    return (error.strerror or str(error)) + (f"; {step}" if step else "")


class PreemptExporterError(Exception):
    """Base of the tree. `str()` is one line that says what is wrong and what to do."""


class UsageError(PreemptExporterError):
    """A flag, an environment variable or an argument is wrong."""


class ConfigError(UsageError):
    """A configuration file is wrong at `line` and `column` (from 1; 0 where the place is unknown)."""

    def __init__(self, message: str, *, path: str, line: int = 0, column: int = 0) -> None:
        """Keep the place apart from the words."""
        place = f"{path}:{line}:{column}" if line else path
        super().__init__(f"{place}: {message}")
        self.path = path
        self.line = line
        self.column = column


class UnreadableInput(PreemptExporterError):
    """A named input is not there or cannot be read."""

    def __init__(self, path: str, why: str | OSError) -> None:
        """`why` is the operating system's error, or our own words for it."""
        self.path = path
        self.why = why_not_read(why) if isinstance(why, OSError) else why
        super().__init__(f"{path}: {self.why}")


class LedgerWriteError(PreemptExporterError):
    """A line was not acknowledged by the disk."""

    def __init__(self, path: str, why: str | OSError) -> None:
        """`why` is the operating system's error, or words for it."""
        self.path = path
        self.why = why_not_written(why) if isinstance(why, OSError) else why
        super().__init__(f"{path}: line not written, nothing was done: {self.why}")


class ToolMissing(PreemptExporterError):
    """An outside program is not installed; the message says how to get it."""


class StoreUnavailable(PreemptExporterError):
    """The spend store cannot answer now; fail closed, dispatch nothing."""
