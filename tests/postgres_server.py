"""A real PostgreSQL for the tests and the bench: started once, on a socket in a folder of its own, removed after."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

START_DEADLINE_S = 60
STOP_DEADLINE_S = 20
INSTALL = "PostgreSQL is missing and these tests need a real one: apt-get install -y postgresql"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The connection string of a running server; fails, and does not skip, where PostgreSQL is not installed."""
    with running_postgres(synced=False) as url:
        yield url


@pytest.fixture(scope="session")
def new_postgres_url(postgres_server: str) -> Callable[[], str]:
    """Makes an empty schema of its own and gives the connection string that stays within it."""
    numbers = count()
    return lambda: new_schema(postgres_server, f"test_{next(numbers)}")


def new_schema(server: str, schema: str) -> str:
    """The connection string that stays within a new, empty schema."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    return f"{server}&options=-csearch_path%3D{schema}"


@contextmanager
def running_postgres(*, synced: bool) -> Iterator[str]:
    """The connection string of a server that runs meanwhile; `synced` as in production, or quick for tests."""
    binaries = _binaries()
    account = _account()
    folder = Path(tempfile.mkdtemp(prefix="spend-pg-"))
    try:
        if account:
            os.chown(folder, account["user"], account["group"])
        data = folder / "data"
        initdb = [binaries / "initdb", "-D", data, "-U", "spend", "-A", "trust", "--no-sync", "-E", "UTF8"]
        subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, cwd=folder, **account)
        options = ["-c", "listen_addresses="]
        if not synced:
            options += ["-c", "fsync=off", "-c", "full_page_writes=off"]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(
                [binaries / "postgres", "-D", data, "-k", folder, *options], stderr=log, cwd=folder, **account
            )
        try:
            url = f"postgresql:///postgres?host={folder}&user=spend"
            _wait_until_it_answers(url, server, folder / "log")
            yield url
        finally:
            server.send_signal(signal.SIGINT)
            try:
                server.wait(STOP_DEADLINE_S)
            finally:
                server.kill()
                server.wait()
    finally:
        shutil.rmtree(folder)


def _binaries() -> Path:
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    on_path = shutil.which("initdb")
    if on_path:
        found.append(Path(on_path).resolve().parent)
    if not found:
        pytest.fail(INSTALL)
    return max(found, key=lambda folder: int(folder.parent.name) if folder.parent.name.isdigit() else 0)


def _account() -> dict[str, Any]:
    """PostgreSQL refuses to run as root: then it runs as the user that its package made."""
    if os.geteuid() != 0:
        return {}
    try:
        entry = pwd.getpwnam("postgres")
    except KeyError:
        pytest.fail(INSTALL)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def _wait_until_it_answers(url: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    give_up_at = time.monotonic() + START_DEADLINE_S
    while True:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > give_up_at:
                pytest.fail(f"PostgreSQL did not start:\n{log.read_text()}")
            time.sleep(0.05)  # between two looks at a condition with a deadline
        else:
            return
