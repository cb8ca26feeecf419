"""What the web side asks of the watched state: the whole boundary between serving and knowing."""

from typing import Protocol

from msgspec import Struct


class Exposition(Protocol):
    """Everything that can be asked over HTTP, as finished bytes.

    All methods but `ready` may block and are called in worker threads, several at a time; those for the scrape run in
    threads of their own, so that no other question delays it. `ready` is called on the event loop and must not wait.
    JSON methods return UTF-8 JSON; an exception becomes status 500 and one line in the log.
    """

    def render(self, *, openmetrics: bool) -> bytes:
        """The scrape: OpenMetrics 1.0.0 (ends in `# EOF`), or the text format 0.0.4."""
        ...

    def ready(self) -> bool:
        """Whether every readable file has been read to the size it had at the start."""
        ...

    def tasks(self) -> bytes:
        """A JSON list of `status --json` objects, least slack first."""
        ...

    def lanes(self) -> bytes:
        """A JSON list of `report --json` objects."""
        ...

    def runs(self) -> bytes:
        """A JSON list of objects of the shape of `RunFigures`."""
        ...

    def health(self) -> bytes:
        """A JSON object of the shape of `Health`."""
        ...


class RunFigures(Struct, frozen=True, kw_only=True):
    """One run: its metrics of metrics.md, named as there without `preempt_`, `run_` and `_total`.

    A reference for who builds it; the page leaves out what is missing or null.
    """

    run: str
    tasks: dict[str, int]
    """State to count."""
    deadline_timestamp_seconds: float | None = None
    projected_slack_seconds: float | None = None
    remaining: int | None = None
    """Of the expected tasks, how many are not complete; None: nobody said how many to expect."""
    stopped: bool = False
    spend_budget_tokens: int | None = None
    spend_reserved_tokens: int | None = None
    spend_committed_tokens: int | None = None
    spend_burned_tokens: int | None = None
    leases_open: int | None = None
    leases_overdue: int | None = None
    shards_accepted: int | None = None
    compensations: int | None = None


class FileHealth(Struct, frozen=True, kw_only=True):
    """One file that the exporter follows."""

    path: str
    lag_bytes: int
    """Bytes on disk that were not read yet."""
    error: str | None = None
    """Why it cannot be read, in the operating system's words; None: it can."""


class Health(Struct, frozen=True, kw_only=True):
    """What the exporter reads and how far behind it is: the object behind the page's last section.

    A reference for who builds it; the page leaves out what is missing.
    """

    version: str
    ready: bool
    ledger: str | None
    """The ledger that every task is on, for commands to name; None: there are several, or none yet."""
    files: list[FileHealth]
    """Those that cannot be read and those furthest behind, not all of thousands; a folder that cannot be listed too."""
    files_matched: int = 0
    """How many files there are."""
    lag_bytes: int
    lag_seconds: float
    lines: int
    """Lines read so far, bad ones included."""
    line_errors: int
    """Bad lines so far."""
    last_line_ms: int | None = None
    """When the last line was read, Unix milliseconds."""
    mode: str | None = None
    """The admission mode, where the ledger told it."""
    lane_actions: dict[str, str] = {}
    """Lane to the action that it is under; lanes without one are not there."""
