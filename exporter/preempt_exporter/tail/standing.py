"""How the files of some ledgers stand in sum: the gauges of the tail. Nothing of an idle ledger changes unnoticed."""

from msgspec import Struct

from preempt_exporter.tail.seating import Seating


class Standing(Struct):
    """Sums over the files of the ledgers that were added."""

    resolutions: int = 0
    """How often names had been sorted out by then (`Surroundings.resolutions`)."""
    files: int = 0
    unreadable: int = 0
    """Files that cannot be read or reached."""
    lag_bytes: int = 0
    pending_bytes: int = 0
    unread_since_s: float | None = None
    """When the oldest unread byte was noticed, monotonic seconds; None: all is read."""

    def add(self, seating: Seating) -> None:
        """Count the files of one more ledger."""
        self.unreadable += len(seating.unreachable) + len(seating.past.unreadable)
        for track in seating.tracks:
            self.files += track.seat in ("live", "rotated")
            self.unreadable += track.unreadable is not None
            self.lag_bytes += track.lag_bytes
            self.pending_bytes += track.pending_bytes
            since_s = track.unread_since_s
            if since_s is not None and (self.unread_since_s is None or since_s < self.unread_since_s):
                self.unread_since_s = since_s
