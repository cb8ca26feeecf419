"""Waking up: with notifications, without them, and when they break."""

import errno
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from watchdog.events import FileModifiedEvent, FileOpenedEvent
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

from preempt_exporter.clock import SystemClock
from preempt_exporter.tail.follow import Tail
from preempt_exporter.tail.watch import Watch, mounted_type

MakeWatch = Callable[..., Watch]


@pytest.fixture
def make_watch() -> Iterator[MakeWatch]:
    made: list[Watch] = []

    def make(**options: object) -> Watch:
        made.append(Watch(clock=SystemClock(), **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for watch in made:
        watch.close()


def until(condition: Callable[[], bool], watch: Watch, seconds: float = 10.0) -> bool:
    """Waits on the watch until the condition holds or the time is up."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        watch.wait(0.5)
    return True


def test_a_write_is_named(tmp_path: Path, make_watch: MakeWatch) -> None:
    """A notification names the file that was written, under the name that the folder was covered by."""
    link = tmp_path / "link"
    real = tmp_path / "real"
    real.mkdir()
    link.symlink_to(real)
    watch = make_watch()
    watch.cover([str(link)])
    (real / "l.jsonl").write_bytes(b"a\n")
    seen: set[str] = set()

    def named() -> bool:
        seen.update(watch.take_changed())
        return str(link / "l.jsonl") in seen

    assert until(named, watch)
    assert not watch.polls
    assert watch.take_notices() == []


def test_long_looks_come_seldom(make_watch: MakeWatch) -> None:
    """Writers that never rest do not keep the reader looking all the time where a look takes long."""
    watch = make_watch(mode="poll")
    look_s, looks = 0.02, 20
    begun_s = time.monotonic()
    for _ in range(looks):
        watch.on_any_event(FileModifiedEvent("/l.jsonl"))
        watch.wait(1.0)
        time.sleep(look_s)  # the look
    assert time.monotonic() - begun_s > 2 * looks * look_s


@pytest.mark.parametrize("mode", ["auto", "poll"])
def test_tail_and_watch_together(tmp_path: Path, make_watch: MakeWatch, mode: str) -> None:
    """A ledger that appears, grows and is rotated is followed within seconds, with notifications and without."""
    ledger = tmp_path / "l.jsonl"
    watch = make_watch(mode=mode)
    tail = Tail([str(tmp_path)], clock=SystemClock())
    got = b""

    def has(expected: bytes) -> bool:
        nonlocal got
        tail.scan(watch.take_changed())
        got += b"".join(chunk.data for chunk in tail.read(1 << 20))
        watch.cover(tail.folders())
        return got == expected

    assert until(lambda: has(b""), watch)
    ledger.write_bytes(b"a\n")
    assert until(lambda: has(b"a\n"), watch)
    with ledger.open("ab") as file:
        file.write(b"b\n")
    assert until(lambda: has(b"a\nb\n"), watch)
    ledger.rename(tmp_path / "l.jsonl.1")
    ledger.write_bytes(b"c\n")
    assert until(lambda: has(b"a\nb\nc\n"), watch)
    tail.close()


def test_a_folder_made_again_is_watched_again(tmp_path: Path, make_watch: MakeWatch) -> None:
    """Covering again after a folder was replaced watches the new one."""
    folder = tmp_path / "logs"
    folder.mkdir()
    watch = make_watch()
    watch.cover([str(folder)])
    folder.rename(tmp_path / "old")
    folder.mkdir()
    watch.cover([str(folder)])
    until(lambda: bool(watch.take_changed()), watch, 1.0)
    (folder / "l.jsonl").write_bytes(b"a\n")
    seen: set[str] = set()

    def named() -> bool:
        seen.update(watch.take_changed())
        return str(folder / "l.jsonl") in seen

    assert until(named, watch)


def test_waiting_ends_without_any_notification(tmp_path: Path, make_watch: MakeWatch) -> None:
    """However long the timeout, a poll is due after a second at most."""
    watch = make_watch()
    watch.cover([str(tmp_path)])
    started = time.monotonic()
    watch.wait(60)
    assert time.monotonic() - started < 10


def test_wake_ends_the_wait_from_another_thread(tmp_path: Path, make_watch: MakeWatch) -> None:
    """`wake` works before and during a wait."""
    watch = make_watch(mode="poll")
    thread = threading.Thread(target=watch.wake)
    thread.start()
    watch.wait(60)
    thread.join()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE, errno.EIO])
def test_exhausted_watches_fall_back_to_polling_and_say_so(tmp_path: Path, make_watch: MakeWatch, number: int) -> None:
    """Where no watch can be had the folder is polled, with one notice that says why."""

    def exhausted() -> BaseObserver:
        raise OSError(number, "no more watches")

    watch = make_watch(observer=exhausted)
    watch.cover([str(tmp_path)])
    watch.cover([str(tmp_path)])
    (notice,) = watch.take_notices()
    assert "polled" in notice.message
    assert ("max_user_watches" in notice.message) == (number != errno.EIO)
    assert watch.polls


def test_a_dead_thread_falls_back_to_polling_and_says_so(tmp_path: Path, make_watch: MakeWatch) -> None:
    """A watcher thread that died is noticed at the next wait."""
    made: list[BaseObserver] = []

    def observer() -> BaseObserver:
        made.append(Observer())
        return made[-1]

    watch = make_watch(observer=observer)
    watch.cover([str(tmp_path)])
    (emitter,) = made[0].emitters
    emitter.stop()
    emitter.join(10)
    watch.wait(0.01)
    (notice,) = watch.take_notices()
    assert "died" in notice.message
    assert watch.polls
    assert not made[0].is_alive()
    watch.cover([str(tmp_path)])
    watch.wait(0.01)
    assert watch.take_notices() == []


def test_a_network_file_system_is_polled_and_said(tmp_path: Path, make_watch: MakeWatch) -> None:
    """Notifications do not tell what other hosts write: such folders are polled, others watched."""
    (tmp_path / "nfs").mkdir()
    (tmp_path / "disk").mkdir()
    watch = make_watch(filesystem_type=lambda path: "nfs4" if path.endswith("nfs") else "ext4")
    watch.cover([str(tmp_path / "nfs"), str(tmp_path / "disk")])
    (notice,) = watch.take_notices()
    assert notice.path == str(tmp_path / "nfs")
    assert "nfs4" in notice.message
    assert watch.polls


def test_polling_asks_for_no_threads(tmp_path: Path, make_watch: MakeWatch) -> None:
    """`poll` starts no observer at all."""

    def forbidden() -> BaseObserver:
        raise AssertionError("polling must not watch")

    watch = make_watch(mode="poll", observer=forbidden)
    watch.cover([str(tmp_path)])
    watch.wait(0.01)
    assert watch.polls


def test_opening_files_does_not_wake(make_watch: MakeWatch) -> None:
    """Our own reads must not wake us: only changes count."""
    watch = make_watch(mode="poll")
    watch.on_any_event(FileOpenedEvent("/x/l.jsonl"))
    assert not watch._woken.is_set()
    watch.on_any_event(FileModifiedEvent("/x/l.jsonl"))
    assert watch._woken.is_set()


def test_the_deepest_mount_decides(tmp_path: Path) -> None:
    """The type is that of the longest mount point above the path; escaped blanks count as blanks."""
    table = tmp_path / "mounts"
    table.write_text("/dev/a / ext4 rw 0 0\nserver:/x /data nfs4 rw 0 0\n/dev/b /data/my\\040disk xfs rw 0 0\n")
    assert mounted_type("/data/l", table) == "nfs4"
    assert mounted_type("/database/l", table) == "ext4"
    assert mounted_type("/data/my disk/l", table) == "xfs"
    assert mounted_type("/l", tmp_path / "missing") == ""
