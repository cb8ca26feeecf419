"""What the tail knows and says: positions to be kept next to the folded state, counters and gauges, notices."""

from typing import Literal

from msgspec import Struct, field

from preempt_exporter.tail.identity import Trail

Seat = Literal["live", "rotated", "detached", "packed"]
"""Where a file sits: under the ledger's own name, under a rotated one, under none that is ours, or compressed."""


class FilePosition(Struct, kw_only=True):
    """How far one file was read, and all there is to know it by."""

    path: str
    real_path: str
    """`path` without symbolic links, as it was when opened: where to look for it once a link has moved."""
    device: int
    inode: int
    seat: Seat
    trail: Trail
    skipping: bool = False
    """The offset lies inside an over-long line."""
    unjudged: bool = False
    """Bytes after the offset may repeat another file: that is to be seen before they are read."""
    finished: bool = False
    """Read to its end and quiet since."""
    rotated_here: bool = False
    """It was seen under the live name before: a new live file beside it is no copy of it."""


class PastContent(Struct, kw_only=True):
    """Content that was read and whose file is gone, truncated or replaced: a copy of it adds nothing."""

    position: FilePosition
    owed: bool = False
    """There may be unread lines after the offset; a copy or a compressed form would finish them."""
    was_idle: bool = False
    """It had been read to its end for long when it was deleted: if no form of it turns up, none was expected."""


class LedgerPositions(Struct, kw_only=True):
    """One ledger: its files oldest first, and what was read of files that are gone."""

    files: list[FilePosition] = field(default_factory=list)
    past: list[PastContent] = field(default_factory=list)
    packed_seen: list[tuple[int, int]] = field(default_factory=list)
    """Device and inode of the compressed forms that were already there."""
    packed_unexplained: list[str] = field(default_factory=list)
    """New compressed forms that no vanished file has explained yet."""
    vanished: list[PastContent] = field(default_factory=list)
    """Contents of vanished files that no compressed form has come of yet."""


class Positions(Struct, kw_only=True):
    """Everything the tail needs to go on where it was. Encodes with msgspec; keep it beside the state it belongs to."""

    ledgers: dict[str, LedgerPositions] = field(default_factory=dict)
    """By the absolute path of the live name."""


class TailStats(Struct, kw_only=True):
    """Counters since the tail was made, and gauges as of the last `scan` and `read`."""

    bytes_read: int = 0
    """Bytes consumed, including those dropped with over-long lines."""
    read_errors: int = 0
    """Failed attempts to open, read or list; a file that stays unreadable is tried again and fails again."""
    rotations: int = 0
    """A file stopped being its ledger's live one and another took its place."""
    truncations: int = 0
    """A file lost or changed bytes that had been read."""
    suspected_loss: int = 0
    """Times that lines may have gone unread, or been read twice, and nothing on disk can tell."""
    files: int = 0
    """Plain files of all ledgers that exist now."""
    unreadable_files: int = 0
    """Files and folders that cannot be read now."""
    lag_bytes: int = 0
    """Bytes not consumed yet, `pending_bytes` among them."""
    pending_bytes: int = 0
    """Bytes after the last newline: lines that wait for their end."""
    lag_seconds: float = 0.0
    """Time since the oldest unread byte was noticed; a line that waits for its end is not lag."""
    filesystem_avail_bytes: int | None = None
    """Room for unprivileged users, the least over the ledgers' file systems; None while no folder exists."""


class FileState(Struct, frozen=True):
    """One file that is followed: how far behind, and why it cannot be read where it cannot."""

    path: str
    lag_bytes: int
    error: str | None = None


class Notice(Struct, frozen=True):
    """A problem or a change worth one line in the log; the reader of notices limits their rate."""

    level: Literal["info", "warning", "error"]
    path: str
    message: str
