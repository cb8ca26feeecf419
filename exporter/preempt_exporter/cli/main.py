"""`preempt-exporter COMMAND`: finds the command, turns errors into one line on standard error and an exit status."""

import importlib
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from difflib import get_close_matches
from io import TextIOBase, TextIOWrapper
from typing import Any, NoReturn, Protocol, cast

from preempt_exporter import __version__
from preempt_exporter.errors import PreemptExporterError

PROG = "preempt-exporter"

COMMANDS: dict[str, str] = {
    "serve": "tail ledgers and serve their metrics to Prometheus",
    "export": "write the same metrics to a file for node_exporter's textfile collector",
    "status": "a row per task, least slack first, with what to do about it",
    "check": "lint ledgers: each bad line with file, line number and reason",
    "verify": "compare a running exporter's line counters with a cold read",
    "undone": "what was rejected, drained or abandoned and never completed, to submit again",
    "run": "wrap one attempt at a task: admission, heartbeats and its end on the ledger",
    "admit": "the admission decision about one task, for a shell",
    "emit": "append one valid line to a ledger, from a shell",
    "drill": "labelled local drills: what happens to tasks, batches and shards when slots are lost",
    "report": "what rework costs in each lane, and whether a job's slack can bear it",
    "route": "which lane a job goes to, why, and which row of the decision table said so",
    "control": "serve admission, spend and switches of one ledger over HTTP",
    "act": "carry out an alert's action, or print its runbook",
    "rules": "check, test and render the alerting rules",
    "doctor": "is it scraped, are the rules loaded, do thresholds agree, do routes match",
}
"""Each command's one-line help; its module is `preempt_exporter.cli.<name>`."""


class Command(Protocol):
    """What a command's module offers."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare flags and arguments, with help that teaches."""
        ...

    def run(self, args: Namespace) -> int:
        """Do it; the exit status. Errors are raised from `errors`."""
        ...


class OneLineParser(ArgumentParser):
    """An argument parser whose errors are one line that says where help is; the beginning of a flag is none."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """A flag that is cut short or misspelt is refused: what it means may change with the next flag there is."""
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})

    def error(self, message: str) -> NoReturn:
        """Exit with status 2."""
        self.exit(2, f"{self.prog}: {message}; see '{self.prog} --help'\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0 done, 1 its own negative answer, 2 usage or unreadable input."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show is no reason to fail
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal without Unicode shows names as escapes
    command = arguments[0] if arguments and arguments[0] in COMMANDS else ""
    try:
        status = _dispatch(arguments)
        if isinstance(sys.stdout, TextIOBase):  # there is none where the caller closed it
            sys.stdout.flush()
        return status
    except PreemptExporterError as error:
        print(f"{PROG} {command}".rstrip() + f": {_one_line(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _write_no_more()
        return 0
    except OSError as error:
        print(f"{PROG} {command}".rstrip() + f": {_one_line(str(error))}; nothing more was done", file=sys.stderr)
        _write_no_more()
        return 2


def _write_no_more() -> None:
    """Let the interpreter's last flush of standard output go nowhere, since it would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dispatch(arguments: list[str]) -> int:
    parser = OneLineParser(
        prog=PROG,
        description="What preemptions cost a batch of LLM work, told from the attempt ledger.",
        epilog=f"'{PROG} COMMAND --help' explains a command.",
    )
    parser.add_argument("--version", action="version", version=f"{PROG} {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=OneLineParser)
    named = arguments[0] if arguments else ""
    chosen: ArgumentParser | None = None
    for name, summary in COMMANDS.items():
        command_parser = subparsers.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        if name == named:
            chosen = command_parser
            _module(name).add_arguments(command_parser)
    args, unknown = parser.parse_known_args(arguments)
    if unknown:
        _refuse_unknown(chosen or parser, unknown)
    return _module(args.command).run(args)


def _refuse_unknown(parser: ArgumentParser, unknown: list[str]) -> NoReturn:
    """Name what nobody asked for, and the flag that was probably meant."""
    flag = unknown[0].partition("=")[0]
    close = get_close_matches(flag, parser._option_string_actions, n=1)
    parser.error(f"unrecognized arguments: {' '.join(unknown)}" + (f"; did you mean {close[0]}?" if close else ""))


def _module(name: str) -> Command:
    return cast(Command, importlib.import_module(f"preempt_exporter.cli.{name}"))


def _one_line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    sys.exit(main())
