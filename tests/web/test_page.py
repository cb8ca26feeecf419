"""The page in a real Chromium, fed by the real server."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from running_server import FakeExposition, RunningServer, running, task

HOSTILE = "<img src=x onerror=\"document.title='owned'\"> \u202egnp.exe\x1b[2J\x00"
HOSTILE_LANE = "a'b\\c; touch owned $(touch owned) `id`\x1b[31m\n-\u202e\u00e9"

ROWS = "#tasks-rows tr"


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


def test_least_slack_stands_first_with_what_to_do(
    page: Page, server: RunningServer, exposition: FakeExposition
) -> None:
    """Each task shows its slack as a bar and in words, its action in words and as a command."""
    exposition.task_list = [
        task(1, deadline_slack_ms=-65_000, next_action="drain_and_reject", lane="free"),
        task(2, deadline_slack_ms=30_000, next_action="stop_run", run="night", restart_cost_ms=60_000),
        task(3, deadline_slack_ms=90_000),
        task(4, deadline_slack_ms=None, deadline_ms=None, state="drained", reason="restart_tokens"),
    ]
    page.goto(server.url + "/")
    rows = page.locator(ROWS)
    expect(rows).to_have_count(4)
    expect(rows.nth(0)).to_contain_text("task-1")
    expect(rows.nth(0)).to_contain_text("missed by 1 m 05 s")
    expect(rows.nth(0)).to_contain_text("Drain the lane and replay nothing.")
    expect(rows.nth(0).locator("code")).to_have_text("preempt-exporter act drain_and_reject --lane=free")
    expect(rows.nth(1).locator("code")).to_have_text("preempt-exporter act stop_run --run=night")
    expect(rows.nth(2)).to_contain_text("Nothing: hold.")
    expect(rows.nth(2).locator("code")).to_be_hidden()
    expect(rows.nth(3)).to_contain_text("no deadline known")
    expect(rows.nth(3)).to_contain_text("Drained: restart tokens had eaten its budget.")
    fills = [
        row.locator(".slack").evaluate("bar => bar.firstChild.getBoundingClientRect().width / bar.offsetWidth")
        for row in rows.all()
    ]
    assert fills == pytest.approx([1, 0.25, 0.75, 0], abs=0.01)
    tones = [row.locator(".slack").get_attribute("data-tone") for row in rows.all()]
    assert tones == ["bad", "warn", "good", "none"]
    cost = "bar => (bar.lastChild.getBoundingClientRect().left - bar.getBoundingClientRect().left) / bar.offsetWidth"
    assert rows.nth(1).locator(".slack").evaluate(cost) == pytest.approx(0.5, abs=0.02)


def test_the_glance_and_the_other_sections_tell_the_rest(
    page: Page, server: RunningServer, exposition: FakeExposition
) -> None:
    """Totals, lanes with verdict, runs with hand-over, files with how far behind."""
    exposition.task_list = [task(1, fits_one_more_preemption=False), task(2, state="queued"), task(3, state="drained")]
    exposition.lane_list = [{"lane": "free", "rework_multiplier": 2.0, "verdict": "TOO TIGHT", "p95_wait_s": 61.0}]
    exposition.run_list = [{"run": "night", "tasks": {"running": 3}, "projected_slack_seconds": -90.0}]
    exposition.health_object = {
        "version": "9.9.9",
        "ready": False,
        "lag_bytes": 2048,
        "lag_seconds": 3.0,
        "files": [
            {"path": "/a.jsonl", "lag_bytes": 2048},
            {"path": "/b.jsonl", "lag_bytes": 0, "error": "Permission denied"},
        ],
    }
    page.goto(server.url + "/")
    expect(page.locator("#freshness")).to_have_text("Catching up")
    glance = page.locator("#glance > div")
    expect(glance.nth(0)).to_have_text("live tasks21 queued, 1 running")
    expect(glance.nth(3)).to_contain_text("1")
    expect(page.locator("#lanes-table tbody tr")).to_contain_text(["TOO TIGHT"])
    expect(page.locator("#lanes-table tbody tr")).to_contain_text(["× 2"])
    expect(page.locator("#runs-table tbody tr")).to_contain_text(["late by 1 m 30 s"])
    expect(page.locator("#reading-facts")).to_contain_text("2 KiB, 3 s")
    expect(page.locator("#files-table tbody tr").first).to_contain_text("Permission denied")
    expect(page.locator("#version")).to_have_text("9.9.9")


def test_nothing_there_is_said_in_words(page: Page, server: RunningServer, exposition: FakeExposition) -> None:
    """Empty sections explain themselves instead of showing empty tables."""
    exposition.task_list = []
    page.goto(server.url + "/")
    for section in ("tasks", "lanes", "runs", "files"):
        expect(page.locator(f"#{section}-none")).to_be_visible()
    expect(page.locator("table:visible")).to_have_count(0)


def test_it_updates_without_reloading(page: Page, server: RunningServer, exposition: FakeExposition) -> None:
    """New tasks, new order and new numbers come into the same document."""
    exposition.task_list = [task(1), task(2)]
    page.goto(server.url + "/")
    expect(page.locator(ROWS)).to_have_count(2)
    page.evaluate("window.sameDocument = true")
    exposition.task_list = [task(3, deadline_slack_ms=-1000), task(2), task(1)]
    expect(page.locator(ROWS)).to_have_count(3)
    expect(page.locator(f"{ROWS} .name")).to_have_text(["task-3", "task-2", "task-1"])
    assert page.evaluate("window.sameDocument") is True


def test_focus_stays_with_its_task_when_the_order_changes(
    page: Page, server: RunningServer, exposition: FakeExposition
) -> None:
    """Whoever is about to copy a command does not suddenly hold another one's button."""
    first, second = task(1, next_action="reject_enqueue"), task(2, next_action="drain_and_reject")
    exposition.task_list = [first, second]
    page.goto(server.url + "/")
    page.get_by_role("button", name="Copy the command for task-2").focus()
    exposition.task_list = [second, task(7), first]
    expect(page.locator(f"{ROWS} .name")).to_have_text(["task-2", "task-7", "task-1"])
    expect(page.get_by_role("button", name="Copy the command for task-2")).to_be_focused()


def test_hostile_names_are_text_and_nothing_else(page: Page, server: RunningServer, exposition: FakeExposition) -> None:
    """Markup stays markup to read, direction and control characters are shown, in every field that a ledger fills."""
    everything = dict.fromkeys(("task_id", "run", "lane", "state", "next_action", "reason"), HOSTILE)
    exposition.task_list = [
        task(1, **everything),
        task(2, task_id="__proto__", state="constructor", next_action="toString"),
    ]
    exposition.lane_list = [{"lane": HOSTILE, "verdict": HOSTILE}]
    exposition.run_list = [{"run": HOSTILE, "tasks": {HOSTILE: 1}}]
    exposition.health_object = {"version": HOSTILE, "mode": HOSTILE, "files": [{"path": HOSTILE, "error": HOSTILE}]}
    page.goto(server.url + "/")
    expect(page.locator(ROWS)).to_have_count(2)
    expect(page.locator("#lanes-table tbody tr")).to_have_count(1)
    name = page.locator(f"{ROWS} .name").first
    expect(name).to_contain_text("<img src=x onerror=")
    expect(name).to_contain_text("\\u{202e}gnp.exe\\u{1b}[2J\\u{0}")
    assert page.locator("img").count() == 0
    assert page.title() == "Queue · preempt-exporter"
    shown = page.evaluate(
        "document.body.innerText + [...document.querySelectorAll('*')].map(e => e.title || '').join('')"
    )
    assert not {"\u202e", "\x1b", "\x00"} & set(shown)


def test_the_copied_command_reaches_a_shell_unchanged(
    page: Page, server: RunningServer, exposition: FakeExposition, tmp_path
) -> None:
    """Copy puts into the clipboard what a shell reads as exactly the lane of the task, and runs nothing else."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=server.url)
    lanes = [HOSTILE_LANE, "-rf", "plain", "it's", "two words", "~", "a=b", "*", "é"]
    exposition.task_list = [task(n, lane=lane, next_action="reject_enqueue") for n, lane in enumerate(lanes)]
    page.goto(server.url + "/")
    for number, lane in enumerate(lanes):
        page.get_by_role("button", name=f"Copy the command for task-{number}").click()
        expect(page.locator("#announcement")).to_contain_text("Copied")
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied.isprintable()
        words = subprocess.run(
            ["bash", "-c", f"preempt-exporter() {{ printf '%s\\0' \"$@\"; }}; {copied}"],
            capture_output=True,
            check=True,
            cwd=tmp_path,
            env={"LC_ALL": "C.UTF-8"},
        ).stdout.decode()
        assert words == f"act\0reject_enqueue\0--lane={lane}\0"
        page.locator("#announcement").evaluate("node => { node.textContent = ''; }")
    assert list(tmp_path.iterdir()) == []


def test_ten_thousand_tasks_are_quick_and_all_within_reach(
    page: Page, server: RunningServer, exposition: FakeExposition
) -> None:
    """Only the rows in view exist, an answer stays small, and the last task is one scroll or one search away."""
    exposition.task_list = [task(number) for number in range(10_000)]
    sizes: list[int] = []
    page.on(
        "response",
        lambda response: sizes.append(int(response.headers["content-length"])) if "overview" in response.url else None,
    )
    page.goto(server.url + "/")
    expect(page.locator("#tasks-count")).to_have_text("10,000, least slack first")
    expect(page.locator(ROWS).first).to_contain_text("task-0")
    assert page.locator(ROWS).count() < 60
    assert page.locator("#tasks-table").get_attribute("aria-rowcount") == "10001"
    window = page.locator("#tasks-window")
    window.evaluate("view => { view.scrollTop = view.scrollHeight; }")
    last = page.locator(ROWS).last
    expect(last).to_contain_text("task-9999")
    expect(last).to_be_in_viewport()
    assert last.get_attribute("aria-rowindex") == "10001"
    assert page.locator(ROWS).count() < 60
    window.evaluate("view => { view.scrollTop = view.scrollHeight / 2; }")
    expect(page.locator(ROWS).filter(has_text="task-5000")).to_be_in_viewport()
    page.get_by_label("Find").fill("task-777")
    expect(page.locator("#tasks-count")).to_have_text("11 of 10,000, least slack first")
    expect(page.locator(ROWS).first).to_contain_text("task-777")
    assert max(sizes) < 100_000
    frame_ms = page.evaluate(
        """() => new Promise(done => {
            const view = document.getElementById("tasks-window");
            const begun = performance.now();
            view.dispatchEvent(new Event("scroll"));
            requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - begun)));
        })"""
    )
    assert frame_ms < 500


@pytest.mark.parametrize("width", [320, 400, 720, 1280])
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


def overview_count(page: Page, seen: list[str]) -> int:
    page.evaluate("0")
    return sum(1 for url in seen if "overview" in url)


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
    page.evaluate(hide, True)
    before = overview_count(page, seen)
    page.clock.run_for(3_600_000)
    assert overview_count(page, seen) <= before + 1, "one answer may have been on its way"
    page.evaluate(hide, False)
    expect(page.locator("#freshness")).to_have_text("Live")
    assert overview_count(page, seen) > before


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
    for _ in range(8):
        page.clock.run_for(60_000)
        page.evaluate("0")
    assert 2 <= len(failed) <= 20


def test_a_refusal_is_shown_in_the_servers_words(page: Page, server: RunningServer) -> None:
    """A page that may no longer see the queue says why."""
    page.route("**/api/v1/overview?*", lambda route: route.fulfill(status=403, body="shown to clients on this machine"))
    page.goto(server.url + "/")
    expect(page.locator("#trouble")).to_contain_text("403: shown to clients on this machine")
