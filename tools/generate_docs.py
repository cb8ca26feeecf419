#!/usr/bin/env python3
"""Fills in what docs/ takes from the code: `python tools/generate_docs.py`; tests/test_docs.py holds both together.

A generated part stands between `<!-- generated: NAME -->` and `<!-- end -->`; everything else is written by hand. A
command that has no section in docs/commands.md yet gets one at the end.
"""

import importlib
import re
import sys
from argparse import SUPPRESS, Action, ArgumentParser, _SubParsersAction
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from preempt_exporter.cli.main import COMMANDS
from preempt_exporter.config import SETTINGS
from preempt_exporter.ledger import records
from preempt_exporter.metrics import families
from preempt_exporter.metrics.families import Family

DOCS = Path(__file__).parents[1] / "docs"

_PART = re.compile(r"(<!-- generated: ([a-z ]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    """A Markdown table; a bar in a cell is escaped."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def metrics_table(group: tuple[Family, ...]) -> str:
    """A row per family."""
    head = ("metric", "type", "labels", "meaning")
    return table(
        head,
        (
            (f"`{family.name}`", family.kind, " ".join(f"`{label}`" for label in family.labels) or "-", family.help)
            for family in group
        ),
    )


def settings_table() -> str:
    """A row per setting: where it can be set, and what it is when it is not."""
    head = ("flag", "in the file", "environment", "default", "meaning")
    return table(
        head,
        (
            (
                f"`--{setting.name} {setting.metavar}`",
                f"`{setting.name.replace('.', ': ', 1)}:`",
                f"`{setting.env}`" if setting.env else "-",
                f"`{setting.default}`" if setting.default is not None else "-",
                setting.help,
            )
            for setting in SETTINGS
        ),
    )


def parsers_of(command: str) -> dict[str, ArgumentParser]:
    """The parser of a command by its words, and those of its subcommands."""
    parser = ArgumentParser(prog=command, description=COMMANDS[command][0].upper() + COMMANDS[command][1:] + ".")
    importlib.import_module(f"preempt_exporter.cli.{command}").add_arguments(parser)
    return dict(_with_subparsers(command, parser))


def _with_subparsers(words: str, parser: ArgumentParser) -> Iterator[tuple[str, ArgumentParser]]:
    yield words, parser
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            for name, subparser in action.choices.items():
                yield from _with_subparsers(f"{words} {name}", subparser)


def command_part(command: str) -> str:
    """What the parsers of a command say: how it is called, what its arguments mean."""
    return "\n".join(_parser_part(words, parser) for words, parser in parsers_of(command).items())


def _parser_part(words: str, parser: ArgumentParser) -> str:
    if any(isinstance(action, _SubParsersAction) for action in parser._actions):
        return f"{_one_line(parser.description or '')}\n"
    shown = [action for action in parser._actions if _is_shown(action)]
    takes_settings = any(_is_setting(action) for action in parser._actions)
    call = " ".join(["preempt-exporter", words, *(_call(action) for action in shown)])
    part = f"{_one_line(parser.description or '')}\n\n    {call}\n"
    rows = [(f"`{_spelling(action)}`", _one_line((action.help or "") % _named(action))) for action in shown]
    if takes_settings:
        rows.append(("settings", "see [configuration.md](configuration.md)"))
    return part + ("\n" + table(("argument", "meaning"), iter(rows)) if rows else "")


def _is_shown(action: Action) -> bool:
    return action.help != SUPPRESS and action.dest != "help" and not _is_setting(action)


def _is_setting(action: Action) -> bool:
    return action.dest == "config.file" or action.dest in {setting.name for setting in SETTINGS}


def _metavar(action: Action) -> str:
    if action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return str(action.metavar or action.dest.upper())


def _spelling(action: Action) -> str:
    if not action.option_strings:
        return _metavar(action)
    return action.option_strings[-1] + ("" if action.nargs == 0 else f" {_metavar(action)}")


def _call(action: Action) -> str:
    text = _spelling(action) + ("..." if action.nargs in ("+", "*") else "")
    optional = action.nargs == "*" or (bool(action.option_strings) and not action.required)
    return f"[{text}]" if optional else text


def _named(action: Action) -> dict[str, object]:
    return {"default": action.default, "metavar": action.metavar, "dest": action.dest}


def _one_line(text: str) -> str:
    return " ".join(text.split())


ON_ANY_LINE = ("lane", "run", "host", "id", "ts_ms", "by", "reason")
"""Fields that docs/ledger.md speaks of before its tables; a row has them only where that kind of line needs them."""


def lines_table(kinds: tuple[type[records.Record], ...], *, needed_by_all: tuple[str, ...] = ()) -> str:
    """A row per kind of ledger line: what it needs beyond what all of them need, what it may have, what it says."""
    head = ("event", "needs", "may have", "meaning")
    return table(head, (_line_row(kind, needed_by_all) for kind in kinds))


def _line_row(kind: type[records.Record], needed_by_all: tuple[str, ...]) -> tuple[str, ...]:
    fields = msgspec.structs.fields(kind)
    needs = [field.name for field in fields if field.required and field.name not in needed_by_all]
    may = [field.name for field in fields if not field.required and field.name not in ON_ANY_LINE]
    reasons = ", ".join(f"`{reason}`" for reason in records.REJECT_REASONS)
    meaning = _one_line(kind.__doc__ or "").replace("`REJECT_REASONS`", reasons)
    name = "none" if kind is records.Attempt else f"`{kind.__struct_config__.tag}`"
    return name, _code(needs), _code(may), meaning


def _code(names: list[str]) -> str:
    return " ".join(f"`{name}`" for name in names) or "-"


PARTS: dict[str, Callable[[], str]] = {
    "task lines": lambda: lines_table(records.TASK_EVENT_TYPES, needed_by_all=("task_id", "ts_ms")),
    "attempt lines": lambda: lines_table((records.Attempt,)),
    "switch lines": lambda: lines_table(records.SWITCH_EVENT_TYPES),
    "spend lines": lambda: lines_table(records.SPEND_EVENT_TYPES, needed_by_all=("run", "shard", "epoch", "ts_ms")),
    "task metrics": lambda: metrics_table(families.TASK_FAMILIES),
    "lane task metrics": lambda: metrics_table(families.LANE_TASK_FAMILIES),
    "lane attempt metrics": lambda: metrics_table(families.LANE_ATTEMPT_FAMILIES),
    "run metrics": lambda: metrics_table(families.RUN_FAMILIES),
    "self metrics": lambda: metrics_table(families.SELF_FAMILIES),
    "settings": settings_table,
}


def filled_in(text: str) -> str:
    """The page with every generated part as the code has it now. `KeyError` for a part that nothing generates."""

    def part(match: re.Match[str]) -> str:
        name = match[2]
        command = name.removeprefix("command ")
        content = command_part(command) if command != name else PARTS[name]()
        return f"{match[1]}\n{content}\n{match[3]}"

    return _PART.sub(part, text)


def with_missing_commands(text: str) -> str:
    """The page of commands with a section for each one that has none."""
    for command in COMMANDS:
        if f"<!-- generated: command {command} -->" not in text:
            text += f"\n## {command}\n\n<!-- generated: command {command} -->\n<!-- end -->\n"
    return text


def generated() -> dict[Path, str]:
    """What each page with generated parts should hold."""
    pages = {}
    for path in sorted(DOCS.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        if path.name == "commands.md":
            text = with_missing_commands(text)
        pages[path] = filled_in(text)
    return pages


def main() -> int:
    """Write what differs and name it."""
    for path, text in generated().items():
        if path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"{path.name} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
