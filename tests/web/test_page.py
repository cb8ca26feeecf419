"""What the page shows and does, in a real Chromium, fed by the real server."""

import shlex
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from preempt_exporter.cli.main import main
from preempt_exporter.gate.switches import SwitchFile
from tests.web.running_server import FakeExposition, RunningServer, task

HOSTILE = "<img src=x onerror=\"document.title='owned'\"> \u202egnp.exe\x1b[2J\x00"
HOSTILE_LANE = "a'b\\c; touch owned $(touch owned) `id`\x1b[31m\n-\u202e\u00e9"

ROWS = "#tasks-rows tr"


def test_least_slack_stands_first_with_what_to_do(
    page: Page, server: RunningServer, exposition: FakeExposition
) -> None:
    """Each task shows its slack as a bar and in words, its action in words and as a command."""
    exposition.task_list = [
        task(1, deadline_slack_ms=-65_000, next_action="drain_and_reject", lane="free"),
        task(2, deadline_slack_ms=30_000, next_action="stop_run", run="night", restart_cost_ms=60_000),
        task(3, deadline_slack_ms=90_000),
        task(4, deadline_slack_ms=None, deadline_ms=None, state="drained", reason="restart_tokens"),
        task(5, deadline_slack_ms=-1000, deadline_ms=0),
    ]
    page.goto(server.url + "/")
    rows = page.locator(ROWS)
    expect(rows).to_have_count(5)
    expect(rows.nth(0)).to_contain_text("task-1")
    expect(rows.nth(0)).to_contain_text("missed by 1 m 05 s")
    expect(rows.nth(0)).to_contain_text("Drain the lane and replay nothing.")
    expect(rows.nth(0).locator("code")).to_have_text("preempt-exporter act drain_and_reject --lane=free")
    expect(rows.nth(1).locator("code")).to_have_text("preempt-exporter act stop_run --run=night")
    expect(rows.nth(2)).to_contain_text("Nothing: hold.")
    expect(rows.nth(2).locator("code")).to_be_hidden()
    expect(rows.nth(3)).to_contain_text("no longer waits")
    expect(rows.nth(3)).to_contain_text("Drained: restart tokens had eaten its budget.")
    fills = [
        row.locator(".slack").evaluate("bar => bar.firstChild.getBoundingClientRect().width / bar.offsetWidth")
        for row in rows.all()
    ]
    assert fills == pytest.approx([1, 0.25, 0.75, 0, 1], abs=0.01)
    tones = [row.locator(".slack").get_attribute("data-tone") for row in rows.all()]
    assert tones == ["bad", "warn", "good", "none", "bad"]
    cost = "bar => (bar.lastChild.getBoundingClientRect().left - bar.getBoundingClientRect().left) / bar.offsetWidth"
    assert rows.nth(1).locator(".slack").evaluate(cost) == pytest.approx(0.5, abs=0.02)


def test_the_glance_and_the_other_sections_tell_the_rest(
    page: Page, server: RunningServer, exposition: FakeExposition
) -> None:
    """Totals, lanes with what they are under, runs with hand-over, files with how far behind."""
    exposition.task_list = [task(1, fits_one_more_preemption=False), task(2, state="queued"), task(3, state="drained")]
    exposition.lane_list = [{"lane": "free", "rework_multiplier": 2.0, "p95_wait_s": 61.0}]
    exposition.run_list = [
        {"run": "night", "tasks": {"running": 3}, "projected_slack_seconds": -90.0, "remaining": 3, "stopped": True},
        {"run": "over", "tasks": {"complete": 2}, "projected_slack_seconds": -90.0, "remaining": 0},
        {"run": "more", "tasks": {"running": 1}, "projected_slack_seconds": -30.0, "remaining": 0},
    ]
    exposition.health_object = {
        "version": "9.9.9",
        "ready": False,
        "lag_bytes": 2048,
        "lag_seconds": 3.0,
        "files": [
            {"path": "/a.jsonl", "lag_bytes": 2048},
            {"path": "/b.jsonl", "lag_bytes": 0, "error": "Permission denied"},
        ],
        "files_matched": 70,
        "lane_actions": {"free": "abandon_lane", "spot": "reject_enqueue"},
    }
    page.goto(server.url + "/")
    expect(page.locator("#freshness")).to_have_text("Catching up")
    glance = page.locator("#glance > div")
    expect(glance.nth(0)).to_have_text("live tasks21 queued, 1 running")
    expect(glance.nth(3)).to_contain_text("1")
    expect(page.locator("#lanes-table tbody th")).to_have_text(["free", "spot"])
    expect(page.locator("#lanes-table tbody tr")).to_contain_text(["abandon_lane", "reject_enqueue"])
    expect(page.locator("#lanes-table tbody tr").first).to_contain_text("× 2")
    expect(page.locator("#lanes-back")).to_contain_text("preempt-exporter act resume --lane=LANE")
    expect(page.locator("#runs-table tbody tr").nth(0)).to_contain_text("late by 1 m 30 s")
    expect(page.locator("#runs-table tbody tr").nth(0)).to_contain_text("stopped")
    expect(page.locator("#runs-table tbody tr").nth(1)).to_contain_text("nothing left to do")
    expect(page.locator("#runs-table tbody tr").nth(2)).to_contain_text("late by 30 s")
    expect(page.locator("#reading-facts")).to_contain_text("70 (the 2 furthest behind are shown)")
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
    page: Page, server: RunningServer, exposition: FakeExposition, tmp_path: Path
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


def test_the_copied_command_runs_as_it_was_pasted(
    page: Page, server: RunningServer, exposition: FakeExposition, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the ledger, so that a shell that was told nothing of it closes the lane."""
    monkeypatch.delenv("LEDGER_PATH", raising=False)
    ledger = tmp_path / "the night's batch.jsonl"
    ledger.touch()
    exposition.health_object["ledger"] = str(ledger)
    exposition.task_list = [task(1, lane="free", next_action="drain_and_reject")]
    page.goto(server.url + "/")
    program, *words = shlex.split(page.locator(f"{ROWS} code").inner_text())
    assert program == "preempt-exporter"
    assert main(words) == 0
    assert SwitchFile(ledger).read().lane_action("free") == "drain_and_reject"
    expect(page.locator("#tasks-ledger")).to_be_hidden()


def test_where_no_ledger_can_be_named_the_page_says_what_a_command_lacks(
    page: Page, server: RunningServer, exposition: FakeExposition
) -> None:
    """Of several ledgers none is guessed."""
    exposition.health_object["ledger"] = None
    exposition.task_list = [task(1, lane="free", next_action="drain_and_reject")]
    page.goto(server.url + "/")
    expect(page.locator(f"{ROWS} code")).to_have_text("preempt-exporter act drain_and_reject --lane=free")
    expect(page.locator("#tasks-ledger")).to_be_visible()


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


def test_the_first_answer_fills_the_window(page: Page, server: RunningServer, exposition: FakeExposition) -> None:
    """Nobody waits for a second answer to see more than the rows that fit before the table had its height."""
    exposition.task_list = [task(number) for number in range(1000)]
    page.clock.install()  # so that no second question is asked
    page.goto(server.url + "/")
    expect(page.locator("#tasks-count")).to_have_text("1,000, least slack first")
    page.clock.run_for(200)
    bottom = "view => [...view.querySelectorAll('#tasks-rows tr')].pop().getBoundingClientRect().bottom"
    window = page.locator("#tasks-window")
    assert window.evaluate(bottom) >= window.evaluate("view => view.getBoundingClientRect().bottom")


def test_a_list_that_became_short_is_shown_after_a_few_questions(
    page: Page, server: RunningServer, exposition: FakeExposition
) -> None:
    """Whoever had scrolled to the end of a long list is shown the short one, and the server is not asked in a storm."""
    exposition.task_list = [task(number) for number in range(20_000)]
    asked: list[str] = []
    page.goto(server.url + "/")
    expect(page.locator("#tasks-count")).to_have_text("20,000, least slack first")
    page.locator("#tasks-window").evaluate("view => { view.scrollTop = view.scrollHeight; }")
    expect(page.locator(ROWS).last).to_contain_text("task-19999")
    page.on("request", lambda request: asked.append(request.url))
    exposition.task_list = [task(number) for number in range(300)]
    expect(page.locator(ROWS).last).to_contain_text("task-299")
    expect(page.locator(ROWS).last).to_be_in_viewport()
    assert len(asked) <= 12
