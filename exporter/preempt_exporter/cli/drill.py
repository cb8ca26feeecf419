"""`drill NAME`: the labelled local drills, a module of `preempt_exporter.drill` each."""

import importlib
from argparse import ArgumentParser, Namespace
from typing import cast

from preempt_exporter.cli.main import Command, OneLineParser

DRILLS: dict[str, str] = {
    "live": "a small fake workload over two lanes that keeps writing a ledger",
}
"""Each drill's one-line help."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the drills and their arguments."""
    drills = parser.add_subparsers(dest="drill", metavar="DRILL", required=True, parser_class=OneLineParser)
    for name, summary in DRILLS.items():
        drill = drills.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        _module(name).add_arguments(drill)


def run(args: Namespace) -> int:
    """Run the drill that was named."""
    return _module(args.drill).run(args)


def _module(name: str) -> Command:
    return cast(Command, importlib.import_module(f"preempt_exporter.drill.{name}"))
