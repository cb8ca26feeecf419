"""A ledger is one file, however it is spelled: one lock per task, one switch file, one history."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from preempt_exporter.errors import UnreadableInput
from preempt_exporter.gate.ledger_forms import live_form
from preempt_exporter.gate.live_path import live_path
from preempt_exporter.gate.switches import SwitchFile
from preempt_exporter.ledger.records import LaneDrain
from preempt_exporter.ledger.writer import LedgerWriter


def linked_file(folder: Path) -> Path:
    link = folder / "link.jsonl"
    link.symlink_to("real/l.jsonl")
    return link


def linked_folder(folder: Path) -> Path:
    (folder / "other").symlink_to("real")
    return folder / "other" / "l.jsonl"


def link_to_link(folder: Path) -> Path:
    linked_file(folder)
    (folder / "again.jsonl").symlink_to("link.jsonl")
    return folder / "again.jsonl"


def detour(folder: Path) -> Path:
    return folder / "real" / ".." / "real" / "l.jsonl"


@pytest.mark.parametrize("spelled", [linked_file, linked_folder, link_to_link, detour])
@pytest.mark.parametrize("there", [False, True])
def test_every_spelling_is_one_ledger(tmp_path: Path, spelled: Callable[[Path], Path], there: bool) -> None:
    """Also of a ledger that is not there yet; what is switched under one name is switched under all."""
    ledger = tmp_path / "real" / "l.jsonl"
    ledger.parent.mkdir()
    if there:
        ledger.touch()
    given = spelled(tmp_path)
    assert live_path(given) == ledger
    with LedgerWriter(ledger, fsync=False) as writer:
        SwitchFile(given).change(LaneDrain(lane="free", action="drain_and_reject"), writer)
    assert SwitchFile(ledger).read().lane_action("free") == "drain_and_reject"


def test_a_name_that_is_linked_anew_at_every_rotation_is_the_ledger(tmp_path: Path) -> None:
    """A link to a rotated form of itself stays the name: its locks and switches outlive the day."""
    link = tmp_path / "l.jsonl"
    for day in ("20261129", "20261130"):
        link.unlink(missing_ok=True)
        link.symlink_to(f"l.jsonl.{day}")
        assert live_path(link) == link
    link.unlink()
    link.symlink_to("2026-11-29.jsonl")
    assert live_path(link) == tmp_path / "2026-11-29.jsonl"


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_regular_file_is_no_ledger_to_read(tmp_path: Path, make: Callable[[Path], object]) -> None:
    """A device never ends and a pipe never begins: refused before either is opened."""
    make(tmp_path / "l.jsonl")
    with pytest.raises(UnreadableInput, match="not a regular file"):
        live_form(tmp_path / "l.jsonl")
