"""From a store's URL to an open store."""

from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from preempt_exporter.clock import Clock, SystemClock
from preempt_exporter.errors import UsageError
from preempt_exporter.spend.sql_store import SqlSpendStore, new_line_id

_SQLITE_SETTINGS = {"mode": ("rwc", "ro"), "synchronous": ("full", "off")}


def open_store(
    url: str, *, ledger: str, clock: Clock | None = None, line_id: Callable[[], str] = new_line_id
) -> SqlSpendStore:
    """Open `sqlite:///relative.db`, `sqlite:////absolute.db` or `postgresql://…`.

    SQLite takes `?mode=ro`, and for drills `?synchronous=off`: quick, and a power cut may lose the newest outcomes.

    `ledger` names the ledger that this process appends to: lines that a crash left pending are appended by whoever
    next opens the store under the same name. `clock` replaces the store's own, which is the machine's for SQLite and
    the database's for PostgreSQL; for drills and tests only. `line_id` names each new line, uniquely.
    Raises `UsageError` for another URL and `StoreUnavailable` for a store that does not answer.
    """
    scheme = _scheme(url)
    if scheme == "sqlite":
        from preempt_exporter.spend.store_sqlite import SqliteSpendStore

        path, settings = _sqlite_path(url)
        return SqliteSpendStore(
            path,
            clock=clock or SystemClock(),
            ledger=ledger,
            read_only=settings.get("mode") == "ro",
            survives_power_cut=settings.get("synchronous") != "off",
            line_id=line_id,
        )
    if scheme in ("postgresql", "postgres"):
        try:
            from preempt_exporter.spend.store_postgres import PostgresSpendStore
        except ImportError:
            raise UsageError("a postgresql:// store needs psycopg: pip install 'preempt-exporter[postgres]'") from None
        return PostgresSpendStore(url, ledger=ledger, clock=clock, line_id=line_id)
    raise UsageError(f"store {_without_password(url)!r}: give sqlite:///file.db or postgresql://host/database")


def _scheme(url: str) -> str:
    try:
        return urlsplit(url).scheme
    except ValueError:
        # Its words are not passed on: they may quote a password.
        raise UsageError("store: not a URL; give sqlite:///file.db or postgresql://host/database") from None


def _sqlite_path(url: str) -> tuple[Path, dict[str, str]]:
    parts = urlsplit(url)
    path = unquote(parts.path.removeprefix("/"))
    if parts.netloc or not path or path == ":memory:" or "\0" in path:
        raise UsageError(f"store {url!r}: name a file, sqlite:///relative.db or sqlite:////absolute.db")
    if "#" in url:
        # What follows it is no part of a URL's path: another file than the one that was meant would be opened.
        raise UsageError(f"store {url!r}: in a file's name write %23 for #")
    settings = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name, value in settings.items():
        if value not in _SQLITE_SETTINGS.get(name, ()):
            raise UsageError(f"store {url!r}: of parameters only mode=ro|rwc and synchronous=full|off are known")
    if not Path(path).parent.is_dir() and Path("/", path).parent.is_dir():
        raise UsageError(f"store {url!r}: {path} is a relative path; for an absolute one write sqlite:////{path}")
    return Path(path), settings


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return url.replace(f":{parts.password}@", ":…@") if parts.password else url
