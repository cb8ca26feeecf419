"""Names from outside, in the log and in tables."""

import logging
import sys

from preempt_exporter.printable import PrintableFormatter, printable


def test_a_hostile_path_cannot_forge_a_log_line() -> None:
    """A newline or an escape sequence in a path shows as its escape: the record stays one line."""
    record = logging.LogRecord("x", logging.WARNING, "", 0, "%s: bad line", ("a\nERROR forged\x1b[2J\udcff",), None)
    text = PrintableFormatter().format(record)
    assert text.isprintable()
    assert text.endswith("WARNING a\\nERROR forged\\x1b[2J\\udcff: bad line")


def test_a_traceback_keeps_its_lines() -> None:
    """What broke is told over several lines, since a person must read it."""
    try:
        raise RuntimeError("the disk sang")
    except RuntimeError:
        record = logging.LogRecord("x", logging.ERROR, "", 0, "broke", (), sys.exc_info())
    lines = PrintableFormatter().format(record).splitlines()
    assert lines[0].endswith("ERROR broke")
    assert lines[-1] == "RuntimeError: the disk sang"


def test_what_prints_stays_as_it_is() -> None:
    """Letters of any script, spaces and emoji are no threat."""
    assert printable("naïve 名前 \N{FIRE} t-1") == "naïve 名前 \N{FIRE} t-1"
