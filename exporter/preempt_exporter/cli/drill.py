"""`drill task|batch|fence|live`: finds the drill, a module each."""

import importlib
from argparse import ArgumentParser, Namespace
from typing import Protocol, cast

DRILLS: dict[str, str] = {
    "task": "one task that loses its slot, from admission to drain, on the real gate",
    "live": "a small fake workload over two lanes that keeps writing a ledger",
    "batch": "jobs over lanes that can be killed at any instant and resumed, each side effect happening once",
    "fence": "shards against preemptions, zombies, duplicates and skewed clocks on a spend store",
}
"""Each drill's one-line help; its module is `preempt_exporter.cli.drill_<name>`."""


class Drill(Protocol):
    """What a drill's module offers."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare flags and arguments."""
        ...

    def run(self, args: Namespace) -> int:
        """Play it; the exit status."""
        ...


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the drills."""
    drills = parser.add_subparsers(dest="drill", metavar="DRILL", required=True)
    for name, summary in DRILLS.items():
        description = summary[0].upper() + summary[1:] + "."
        _module(name).add_arguments(drills.add_parser(name, help=summary, description=description))


def run(args: Namespace) -> int:
    """Play the drill that was named."""
    return _module(args.drill).run(args)


def _module(name: str) -> Drill:
    return cast(Drill, importlib.import_module(f"preempt_exporter.cli.drill_{name}"))
