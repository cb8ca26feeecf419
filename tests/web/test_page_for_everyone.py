"""Who can use the page: every width, both colour schemes, keyboard, screen reader, and an exporter that is away."""

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.web.running_server import FakeExposition, RunningServer, task

ROWS = "#tasks-rows tr"


@pytest.mark.parametrize("width", [320, 400, 800, 1280])
def test_every_width_shows_everything_without_scrolling_the_page_sideways(
    page: Page, server: RunningServer, exposition: FakeExposition, width: int
) -> None:
    """Nothing juts out of the page, no row cuts off its own content, the command stays in reach."""
    exposition.task_list = [
        task(n, task_id="x" * 256, lane="l" * 64, next_action="reclaim_lease", restart_tokens=10**9, task_budget=10**10)
        for n in range(30)
    ]
    exposition.lane_list = [{"lane": "l" * 64, "verdict": "OK"}]
    exposition.health_object = {"files": [{"path": "/long" * 60, "lag_bytes": 0}]}
    page.set_viewport_size({"width": width, "height": 860})
    page.goto(server.url + "/")
    row = page.locator(ROWS).first
    expect(row).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert row.evaluate("row => row.scrollHeight <= row.clientHeight + 1")
    for part in (".name", ".left", ".slack", ".words", "code", "button", ".pill"):
        box, outer = row.locator(part).first.bounding_box(), row.bounding_box()
        assert box is not None
        assert outer is not None
        assert box["y"] >= outer["y"] - 1
        assert box["y"] + box["height"] <= outer["y"] + outer["height"] + 1, part
        assert box["x"] + box["width"] <= width, part


CONTRAST = """() => {
  const channels = color => color.match(/[\\d.]+/g).map(Number);
  const linear = v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => [r, g, b].map(v => linear(v / 255))
    .reduce((sum, v, at) => sum + v * [.2126, .7152, .0722][at], 0);
  const ground = node => {
    for (; node; node = node.parentElement) {
      const color = channels(getComputedStyle(node).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
  };
  const texts = [...document.querySelectorAll("body *")].filter(node => node.checkVisibility()
    && [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim()));
  return texts.map(node => {
    const [one, other] = [light(channels(getComputedStyle(node).color)), light(ground(node))].sort((a, b) => b - a);
    return [(one + .05) / (other + .05), node.className + " " + node.textContent.slice(0, 30)];
  }).sort((a, b) => a[0] - b[0])[0];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_follow_the_visitor_and_stay_readable(
    page: Page, server: RunningServer, exposition: FakeExposition, scheme: str
) -> None:
    """The ground changes with the setting, and the palest text still has a contrast of 4.5 to 1."""
    exposition.task_list = [
        task(1, deadline_slack_ms=-1, next_action="stop_run"),
        task(2, deadline_slack_ms=1000, state="preempted"),
        task(3, state="queued", deadline_slack_ms=119_000),
        task(4, state="drained"),
    ]
    exposition.lane_list = [{"lane": "a", "verdict": "OK"}, {"lane": "b", "verdict": "TOO TIGHT"}]
    page.emulate_media(color_scheme=scheme)
    page.goto(server.url + "/")
    expect(page.locator(ROWS)).to_have_count(4)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (min(ground) > 200) is (scheme == "light")
    assert (max(ground) < 60) is (scheme == "dark")
    ratio, where = page.evaluate(CONTRAST)
    assert ratio >= 4.5, where


def test_a_screen_reader_finds_tables_headings_and_words(
    page: Page, server: RunningServer, exposition: FakeExposition
) -> None:
    """Roles and names, at both layouts: one h1, a named table with headers and cells, buttons that say whose."""
    exposition.task_list = [task(1, next_action="reject_enqueue", deadline_slack_ms=5000)]
    exposition.lane_list = [{"lane": "free", "verdict": "OK"}]
    for width in (1280, 400):
        page.set_viewport_size({"width": width, "height": 860})
        page.goto(server.url + "/")
        tasks = page.get_by_role("table", name="Tasks, least slack first")
        expect(tasks.get_by_role("row")).to_have_count(2)
        expect(tasks.get_by_role("columnheader")).to_have_text(
            ["Task", "State", "Deadline slack", "Restart tokens", "What to do"]
        )
        expect(tasks.get_by_role("row").nth(1).get_by_role("cell")).to_have_count(5)
        expect(tasks.get_by_role("button", name="Copy the command for task-1")).to_be_visible()
        expect(page.get_by_role("heading", level=1)).to_have_count(1)
        expect(page.get_by_role("rowheader", name="free")).to_be_visible()
        expect(page.get_by_role("region", name="Lanes").first).to_be_visible()
        expect(page.get_by_label("Find")).to_be_visible()
        expect(page.get_by_role("status")).to_have_text("1 task needs something done, 0 past the deadline.")
    assert page.locator("html").get_attribute("lang") == "en"


def test_the_keyboard_reaches_the_command(page: Page, server: RunningServer, exposition: FakeExposition) -> None:
    """Tab goes from the top to the first Copy button; the first stop skips there."""
    exposition.task_list = [task(1, next_action="reject_enqueue")]
    page.goto(server.url + "/")
    expect(page.locator(ROWS)).to_have_count(1)
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the tasks")).to_be_focused()
    for _ in range(12):
        if page.evaluate("document.activeElement.tagName") == "BUTTON":
            break
        page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Copy the command for task-1")).to_be_focused()


def let_time_pass(page: Page, *, steps: int, step_ms: int) -> None:
    """Time on the page's own clock, with a real round trip to the server after each step."""
    for _ in range(steps):
        page.clock.run_for(step_ms)
        page.evaluate("fetch('-/healthy').then(answer => answer.text(), () => '')")


def test_it_rests_while_hidden_and_returns_when_seen(page: Page, server: RunningServer) -> None:
    """A hidden tab asks nothing for an hour of its own clock; shown again, it asks at once."""
    seen: list[str] = []
    page.on("request", lambda request: seen.append(urlsplit(request.url).path))
    page.clock.install()
    page.goto(server.url + "/")
    expect(page.locator(ROWS).first).to_be_visible()
    hide = """hidden => {
        Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    let_time_pass(page, steps=30, step_ms=2000)
    assert seen.count("/api/v1/overview") >= 2, "while it is seen it asks, more patiently where answers are slow"
    page.evaluate(hide, True)
    seen.clear()
    let_time_pass(page, steps=60, step_ms=60_000)
    assert seen.count("/api/v1/overview") == 0
    with page.expect_response("**/api/v1/overview?*"):
        page.evaluate(hide, False)


def test_an_exporter_that_is_away_is_said_and_asked_ever_more_rarely(
    page: Page, server: RunningServer, exposition: FakeExposition
) -> None:
    """What is shown is called old, and an hour of its own clock brings a handful of attempts, not hundreds."""
    page.clock.install()
    page.goto(server.url + "/")
    expect(page.locator(ROWS).first).to_be_visible()
    failed: list[str] = []
    page.on("requestfailed", lambda request: failed.append(request.url))
    server.stop.set()
    server.thread.join(20)
    page.clock.run_for(10_000)
    expect(page.locator("#freshness")).to_have_text("Not live")
    expect(page.locator("#trouble")).to_contain_text("What you see is old")
    expect(page.locator(ROWS).first).to_contain_text("task-0")
    let_time_pass(page, steps=150, step_ms=4000)
    asked = sum("overview" in url for url in failed)
    assert 3 <= asked <= 20


def test_a_refusal_is_shown_in_the_servers_words(page: Page, server: RunningServer) -> None:
    """A page that may no longer see the queue says why."""
    page.route(
        "**/api/v1/overview?*", lambda route: route.fulfill(status=403, body="shown to clients on this machine\n")
    )
    page.goto(server.url + "/")
    expect(page.locator("#trouble")).to_contain_text("403: shown to clients on this machine. Asking again")
