"""Which paths the batch drill may replace or remove: regular files, and names that are not taken."""

from pathlib import Path

from preempt_exporter.errors import UsageError


def own_file(path: Path, flag: str) -> Path:
    """The file behind `path`, its symbolic links followed, so that a replacement takes the place of the file itself.

    Raises `UsageError` where a device, a pipe or a folder stands there: to replace or remove that would harm others.
    """
    real = path.resolve()
    if real.exists() and not real.is_file():
        raise UsageError(f"{flag} {path}: not a regular file; name one, or a name that is not taken")
    return real
