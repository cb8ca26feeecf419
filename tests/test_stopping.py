"""Stopping at a signal, wherever the main thread is."""

import os
import signal
import threading

from preempt_exporter.stopping import stopping_at_signals

PATIENCE_S = 30


def test_a_signal_while_the_event_is_locked_does_not_hang() -> None:
    """The signal may arrive while the main thread is just inside `wait` and holds the event's own lock."""
    stop = threading.Event()
    with stopping_at_signals(stop):
        with stop._cond:  # type: ignore[attr-defined]
            os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(PATIENCE_S)
