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

    def __init__(self, path: str, why: str) -> None:
        """`why` is the operating system's word, or ours."""
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


class LedgerWriteError(PreemptExporterError):
    """A line was not acknowledged by the disk."""

    def __init__(self, path: str, why: str) -> None:
        """`why` is the operating system's word."""
        super().__init__(f"{path}: line not written: {why}; nothing was done")
        self.path = path
        self.why = why


class ToolMissing(PreemptExporterError):
    """An outside program is not installed; the message says how to get it."""


class StoreUnavailable(PreemptExporterError):
    """The spend store cannot answer now; fail closed, dispatch nothing."""
