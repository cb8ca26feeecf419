"""What may be replaced: regular files and names that are not taken, also through symbolic links."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from preempt_exporter.errors import UsageError
from preempt_exporter.own_file import own_file


def bind_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (Path.mkdir, "a folder"),
        (os.mkfifo, "a pipe"),
        (bind_socket, "a socket"),
        (lambda path: path.symlink_to("/dev/null"), "a device"),
        (lambda path: path.symlink_to(path), "a symbolic link that leads in a circle"),
    ],
)
def test_what_is_no_regular_file_is_refused_as_what_it_is(
    tmp_path: Path, make: Callable[[Path], object], kind: str
) -> None:
    """It is named with its flag, and is still there."""
    path = tmp_path / "taken"
    make(path)
    with pytest.raises(UsageError) as refused:
        own_file(path, "--flag")
    said = f"--flag {path}: {kind}, not a regular file; name one, or a name that is not taken"
    assert str(refused.value) == said
    assert [entry.name for entry in tmp_path.iterdir()] == ["taken"]


def test_links_are_followed_to_a_file_and_to_a_name_that_is_not_taken(tmp_path: Path) -> None:
    """What a link leads to is replaced, and the link is none of it."""
    (tmp_path / "there").mkdir()
    link, real = tmp_path / "link", tmp_path / "there" / "file"
    link.symlink_to("there/file")
    assert own_file(link, "--flag") == real
    real.touch()
    assert own_file(link, "--flag") == own_file(real, "--flag") == real
    assert own_file(tmp_path / "none" / "file", "--flag") == tmp_path / "none" / "file"
