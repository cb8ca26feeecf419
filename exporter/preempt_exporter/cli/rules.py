"""`rules check|test|render`: the rules pack through promtool, and with other values."""

import os
import re
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from pathlib import Path

from preempt_exporter import promtool
from preempt_exporter.errors import UnreadableInput, UsageError
from preempt_exporter.rules_pack.lint import lint_pack
from preempt_exporter.rules_pack.pack import rule_files, runbooks_folder
from preempt_exporter.rules_pack.parameters import PARAMETERS, SELECTOR, SELECTOR_HELP
from preempt_exporter.rules_pack.render import one_file, rendered_pack, write_pack

DEFAULT_TESTS = "tests/rules/*.yml"


def add_arguments(parser: ArgumentParser) -> None:
    """A subcommand each for checking and testing."""
    subcommands = parser.add_subparsers(dest="rules_command", metavar="check|test|render", required=True)
    check = subcommands.add_parser(
        "check",
        help="parse and lint rule files with promtool",
        description="Parse and lint rule files with promtool (PROMTOOL, else PATH). Without FILE, the pack's own, "
        "and what promtool lets pass: labels, templates, runbooks. Exit 1 if anything is wrong.",
    )
    check.add_argument("files", nargs="*", metavar="FILE", help="rule files or globs (default: the pack's own)")
    test = subcommands.add_parser(
        "test",
        help="run promtool test files; a run that tested nothing fails",
        description="Run promtool test files with promtool (PROMTOOL, else PATH). Exit 1 if a case fails, or if "
        "nothing was tested: no file matched, no case ran, or an alert name that no loaded rule defines.",
    )
    test.add_argument(
        "files", nargs="*", metavar="FILE", help=f"test files or globs (default: {DEFAULT_TESTS})", default=[]
    )
    test.add_argument("--run", metavar="REGEX", help="only the cases whose name matches (default: all)")
    values = "\n".join(f"  {each.name:<26}{each.help} (default: {each.default})" for each in PARAMETERS)
    render = subcommands.add_parser(
        "render",
        help="write the rules with other thresholds, label matchers, addresses",
        description="Write the rules with other values; without --set they are the pack's own.",
        epilog=f"values:\n{values}\n  {SELECTOR:<26}{SELECTOR_HELP}",
        formatter_class=RawDescriptionHelpFormatter,
    )
    render.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", dest="values", help="a value, see below; repeatable"
    )
    render.add_argument(
        "--output", type=Path, metavar="FOLDER", help="write the files there (default: one file on standard output)"
    )


def run(args: Namespace) -> int:
    """0 if all is well, 1 if not."""
    if args.rules_command == "render":
        return _render(args.values, args.output)
    if args.rules_command == "check":
        return _check(args.files)
    return _test(args.files or [DEFAULT_TESTS], args.run)


def _check(patterns: list[str]) -> int:
    _refuse_missing(patterns, "rule file")
    tool = promtool.find_promtool(os.environ)
    files, unmatched = promtool.matched_files(patterns) if patterns else (rule_files(), ())
    report = promtool.check_rules(tool, files)
    linted = () if patterns else lint_pack(files, runbooks_folder())
    return _told(promtool.Report(report.count, (*unmatched, *report.problems, *linted)), "rules")


def _test(patterns: list[str], name_pattern: str | None) -> int:
    _refuse_missing(patterns, "test file")
    try:
        re.compile(name_pattern or "")
    except re.error as error:
        raise UsageError(f"--run {name_pattern!r}: not a regular expression: {error}") from error
    return _told(promtool.test_rules(promtool.find_promtool(os.environ), patterns, name_pattern), "test cases")


def _refuse_missing(patterns: list[str], what: str) -> None:
    for pattern in patterns:
        if not any(character in pattern for character in "*?[") and not Path(pattern).exists():
            raise UnreadableInput(pattern, f"no such {what}; check the path")


def _render(settings: list[str], folder: Path | None) -> int:
    values = {}
    for setting in settings:
        name, separator, value = setting.partition("=")
        if not separator:
            raise UsageError(f"--set {setting}: write it as NAME=VALUE")
        values[name] = value
    pack = rendered_pack(values)
    if folder is None:
        print(one_file(pack), end="")
    else:
        write_pack(pack, folder)
    return 0


def _told(report: promtool.Report, what: str) -> int:
    for problem in report.problems:
        print(problem, file=sys.stderr)
    if report.ok:
        print(f"{report.count} {what}: all well")
        return 0
    return 1
