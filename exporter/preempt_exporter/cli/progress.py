"""Progress of long reading, for a person who waits at a terminal; a pipe never sees it."""

import sys
from collections.abc import Iterable, Iterator
from typing import TextIO

from rich.console import Console
from rich.progress import FileSizeColumn, Progress, SpinnerColumn, TextColumn, TransferSpeedColumn

from preempt_exporter.clock import Clock
from preempt_exporter.ledger.chunk import Chunk

PATIENCE_S = 1.0
"""Work that is done sooner shows nothing."""


def watched(chunks: Iterable[Chunk], *, clock: Clock, terminal: TextIO | None = None) -> Iterator[Chunk]:
    """The same chunks, with how much was read shown on `terminal` (standard error) if it is one; gone at the end."""
    terminal = terminal or sys.stderr
    if not terminal.isatty():
        yield from chunks
        return
    progress = Progress(
        SpinnerColumn(),
        TextColumn("read"),
        FileSizeColumn(),
        TransferSpeedColumn(),
        TextColumn("{task.fields[path]}", markup=False),
        console=Console(file=terminal),
        transient=True,
        auto_refresh=False,
        redirect_stdout=sys.stdout.isatty(),  # a pipe's results must not be drawn into it
    )
    task = progress.add_task("read", total=None, path="")
    started_s = drawn_s = clock.monotonic_s()
    try:
        for chunk in chunks:
            yield chunk
            progress.update(task, advance=len(chunk.data), path=chunk.path)
            now_s = clock.monotonic_s()
            if now_s - started_s >= PATIENCE_S and now_s - drawn_s >= 0.1:
                progress.start()
                progress.refresh()
                drawn_s = now_s
    finally:
        progress.stop()
