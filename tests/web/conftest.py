"""A real Chromium beside the real server."""

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.web.running_server import FakeExposition, RunningServer, running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, or the one that CHROMIUM names."""
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.fail("Chromium is not installed: apt-get install chromium, or name one in CHROMIUM")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def exposition() -> FakeExposition:
    return FakeExposition()


@pytest.fixture
def server(exposition: FakeExposition) -> Iterator[RunningServer]:
    with running(exposition) as server:
        yield server


@pytest.fixture
def page(browser: Browser, server: RunningServer) -> Iterator[Page]:
    """A tab on which any script error, console complaint or request elsewhere fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None
    )
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.on(
        "request",
        lambda request: None if request.url.startswith(server.url + "/") else complaints.append(request.url),
    )
    yield page
    context.close()
    expected = ("ERR_CONNECTION_REFUSED", "status of 403")
    assert [line for line in complaints if not any(words in line for words in expected)] == []
