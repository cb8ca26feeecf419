"""Which paths may be replaced or removed: regular files, and names that are not taken."""

import os
import stat
from pathlib import Path

from preempt_exporter.errors import UsageError, why_not_written

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a symbolic link that leads in a circle",
}


def own_file(path: Path, flag: str) -> Path:
    """The file behind `path`, its symbolic links followed, so that a replacement takes the place of the file itself.

    The link stays and leads to what is new: whoever put it there wants the file elsewhere. Raises `UsageError` where a
    device, a pipe, a socket or a folder stands: to replace or remove that would harm others.
    """
    real = Path(os.path.realpath(path))
    try:
        mode = real.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return real
    except OSError as error:
        raise UsageError(f"{flag} {path}: {why_not_written(error)}") from error
    if not stat.S_ISREG(mode):
        kind = _KINDS[stat.S_IFMT(mode)]
        raise UsageError(f"{flag} {path}: {kind}, not a regular file; name one, or a name that is not taken")
    return real
