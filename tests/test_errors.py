"""What the operating system refuses is told with what to do about it."""

import errno
import os

import pytest

from preempt_exporter.errors import LedgerWriteError, UnreadableInput


@pytest.mark.parametrize(
    ("number", "to_read", "to_write"),
    [
        (errno.ENOENT, "check the path", "make the folder, or name another path"),
        (errno.ENOTDIR, "check the path", "check the path"),
        (errno.EISDIR, "name a file in it", "name a file in it"),
        (errno.EACCES, "give this user the right to it", "give this user the right to it"),
        (errno.ENOSPC, "No space left on device", "make room on its disk"),
    ],
)
def test_a_refusal_says_what_to_do_next(number: int, to_read: str, to_write: str) -> None:
    """A reader checks the path; a writer makes what is missing."""
    refused = OSError(number, os.strerror(number))
    assert f"l.jsonl: {os.strerror(number)}" in str(UnreadableInput("l.jsonl", refused))
    assert to_read in str(UnreadableInput("l.jsonl", refused))
    unwritten = str(LedgerWriteError("l.jsonl", refused))
    assert f"nothing was done: {os.strerror(number)}; " in unwritten
    assert to_write in unwritten


def test_words_that_nobody_foresaw_are_passed_on() -> None:
    """An error without advice is its own word, one without a number too."""
    assert str(UnreadableInput("l", OSError(errno.EIO, "Input/output error"))) == "l: Input/output error"
    assert str(UnreadableInput("l", OSError("torn"))) == "l: torn"
