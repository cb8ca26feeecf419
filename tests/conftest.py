"""What all tests share: repeatable hypothesis runs without wall-clock deadlines, and a real PostgreSQL.

The server is started once for the tests that want it, on a socket in a folder of its own, and removed after.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("soak", deadline=None, max_examples=10_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

START_DEADLINE_S = 60
STOP_DEADLINE_S = 20
INSTALL = "PostgreSQL is missing and these tests need a real one: apt-get install -y postgresql"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The connection string of a running server; fails, and does not skip, where PostgreSQL is not installed."""
    binaries = _binaries()
    account = _account()
    folder = Path(tempfile.mkdtemp(prefix="spend-pg-"))
    try:
        if account:
            os.chown(folder, account["user"], account["group"])
        data = folder / "data"
        initdb = [binaries / "initdb", "-D", data, "-U", "spend", "-A", "trust", "--no-sync", "-E", "UTF8"]
        subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, cwd=folder, **account)
        options = ["-c", "listen_addresses=", "-c", "fsync=off", "-c", "full_page_writes=off"]
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


@pytest.fixture(scope="session")
def new_postgres_url(postgres_server: str) -> Callable[[], str]:
    """Makes an empty schema of its own and gives the connection string that stays within it."""
    numbers = count()

    def make() -> str:
        schema = f"test_{next(numbers)}"
        with psycopg.connect(postgres_server, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {schema}")
        return f"{postgres_server}&options=-csearch_path%3D{schema}"

    return make


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
