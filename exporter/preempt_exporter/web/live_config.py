"""The web configuration in force: re-read when one of its files changes, kept when the new one is broken."""

import logging
import ssl
from pathlib import Path

from msgspec import Struct

from preempt_exporter.errors import ConfigError, UsageError, why_not_read
from preempt_exporter.web.config_file import ConfigFile, read_config_file
from preempt_exporter.web.logins import Logins
from preempt_exporter.web.tls import server_context

logger = logging.getLogger(__name__)

Signature = tuple[tuple[int, int, int, int] | None, ...]


class WebConfig(Struct, frozen=True, kw_only=True):
    """What one reading of the configuration means for serving."""

    tls: ssl.SSLContext | None = None
    client_allowed_sans: frozenset[str] = frozenset()
    """Where not empty, a client certificate must carry one of these alternative names."""
    logins: Logins | None = None
    headers: dict[str, str] = {}
    """Response headers to add or replace."""
    requires_login: bool = False
    """Whether strangers are kept out: by a password, or by a verified client certificate."""


class LiveConfig:
    """The configuration of `path`, as it is now; without a path, plain HTTP for ever."""

    def __init__(self, path: str | None) -> None:
        """Read it once; `ConfigError` or `UsageError` where it is broken from the start."""
        self._path = path
        self._config = WebConfig()
        self._watched: tuple[str, ...] = ()
        self._seen: Signature = ()
        if path is not None:
            self._load(path)

    def current(self) -> WebConfig:
        """What is in force for a new connection or a new request.

        Costs one stat per file, so that a change holds from the next request on, as with Prometheus' own exporters.
        """
        if self._path is not None and _signature(self._watched) != self._seen:
            try:
                self._load(self._path)
            except UsageError as error:
                logger.error("web configuration not taken over, the one before stays in force: %s", error)
            else:
                logger.info("web configuration re-read from %s", self._path)
        return self._config

    def _load(self, path: str) -> None:
        # The signature is taken before reading: a change during the reading is then seen at the next look.
        self._watched = (path, *self._watched[1:])
        self._seen = _signature(self._watched)
        try:
            read = read_config_file(path)
            is_lock = self._config.requires_login or self._config.tls is not None
            if is_lock and self._seen[0] is not None and self._seen[0][1] == 0:
                # As after the first half of `cat new > web.yml`: nobody takes a lock off by emptying its file.
                raise ConfigError("is empty, as while it is being written; to drop TLS and login write {}", path=path)
            watched = (path, *read.files())
            self._watched, self._seen = watched, (self._seen[0], *_signature(watched[1:]))
            self._config = _in_force(read)
        except OSError as error:
            raise ConfigError(why_not_read(error), path=path) from error


def _in_force(read: ConfigFile) -> WebConfig:
    return WebConfig(
        tls=server_context(read.tls) if read.tls else None,
        client_allowed_sans=frozenset(read.tls.client_allowed_sans) if read.tls else frozenset(),
        logins=Logins(read.users) if read.users else None,
        headers=dict(read.headers),
        requires_login=bool(read.users) or (read.tls is not None and read.tls.verifies_every_client),
    )


def _signature(paths: tuple[str, ...]) -> Signature:
    return tuple(_file_signature(path) for path in paths)


def _file_signature(path: str) -> tuple[int, int, int, int] | None:
    """The change of its inode counts too: a file that we may read at last is no newer than when we might not."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
