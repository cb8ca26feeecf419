"""Runs Prometheus' own `promtool`, and refuses to take "nothing was tested" for "all is well".

`promtool test rules` exits 0 for a file without tests, a `rule_files` glob that matches nothing, and an `alertname`
that no rule defines as long as no alert is expected of it (tried on 2.42 and 3.5). Each of these is a `Problem` here.
Which test cases run is decided here too, so that selecting by name works on versions that have no `--run`.
"""

import glob
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from preempt_exporter.errors import ToolMissing, UnreadableInput

HOW_TO_GET_PROMTOOL = (
    "promtool is not installed: install Debian's package `prometheus` (apt-get install prometheus), "
    "put promtool on PATH, or name it in the environment variable PROMTOOL"
)
SAFE_PROCESS_S = 300
"""No run of promtool takes longer than this unless it hangs."""

PROMTOOL_FOUND_LINT = 3
"""The exit status of `promtool check metrics` when it parsed the scrape and has something to say."""

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


class Problem(Struct, frozen=True, order=True):
    """Something wrong at one place; `where` is a file, or a file and a test case."""

    where: str
    what: str

    def __str__(self) -> str:
        """One line, or promtool's own lines below the place."""
        return f"{self.where}: {self.what}"


class Case(Struct, frozen=True):
    """One entry of a test file's `tests`."""

    path: Path
    index: int
    name: str
    problems: tuple[Problem, ...] = ()
    """Why running it proves nothing; empty when it can."""


class TestFile(Struct, frozen=True):
    """A parsed promtool test file."""

    __test__ = False  # not a test class, whatever pytest thinks of its name

    path: Path
    document: dict[str, Any]
    rule_files: tuple[Path, ...]
    cases: tuple[Case, ...]
    problems: tuple[Problem, ...]
    """Why the file as a whole proves nothing."""


class Report(Struct, frozen=True):
    """What a run found: `cases` (or rules) looked at, and every problem."""

    count: int
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """True if something was looked at and nothing was wrong."""
        return self.count > 0 and not self.problems


def find_promtool(environ: Mapping[str, str]) -> str:
    """The promtool to run: `PROMTOOL` if set, else the first on `PATH`. `ToolMissing` says how to get it."""
    named = environ.get("PROMTOOL", "")
    found = shutil.which(named or "promtool", path=environ.get("PATH", os.defpath))
    if found is None:
        raise ToolMissing(
            f"PROMTOOL names {named}, which cannot be run; name another, or unset it" if named else HOW_TO_GET_PROMTOOL
        )
    return found


def check_rules(promtool: str, paths: Sequence[Path]) -> Report:
    """Let promtool parse and lint rule files. No file, or files without a rule, is a problem."""
    if not paths:
        return Report(0, (Problem("rules", "no rule file matched: nothing was checked"),))
    done = _run(promtool, ["check", "rules", "--lint=all", "--lint-fatal", *map(str, paths)])
    counted = sum(int(found) for found in re.findall(r"(\d+) rules found", done.stdout + done.stderr))
    if done.returncode != 0:
        return Report(counted, (Problem("promtool check rules", _said(done)),))
    if counted == 0:
        return Report(0, (Problem(", ".join(map(str, paths)), "no rule in it: nothing was checked"),))
    return Report(counted, ())


def check_metrics(promtool: str, scrape: bytes) -> tuple[Problem, ...]:
    """What promtool's linter says of a scrape in text format 0.0.4: a problem per line, where is the metric's name.

    A scrape without samples, or one that promtool cannot parse, is a problem too.
    """
    if not any(line and not line.startswith(b"#") for line in scrape.splitlines()):
        return (Problem("scrape", "no sample in it: nothing was checked"),)
    done = _run(promtool, ["check", "metrics"], given=scrape.decode())
    said = _said(done).splitlines()
    if done.returncode not in (0, PROMTOOL_FOUND_LINT):
        return (Problem("promtool check metrics", " ".join(said)),)
    return tuple(Problem(*line.split(" ", 1)) for line in said if " " in line)


def matched_files(patterns: Iterable[str]) -> tuple[tuple[Path, ...], tuple[Problem, ...]]:
    """The files that paths and globs name, sorted and once each, and a problem per pattern that names none."""
    files: set[Path] = set()
    problems = []
    for pattern in patterns:
        found = [path for path in _globbed(pattern) if path.is_file()]
        files.update(found)
        if not found:
            problems.append(Problem(pattern, "no file matched: nothing was tested"))
    return tuple(sorted(files)), tuple(problems)


def read_test_file(path: Path) -> TestFile:
    """Parse a test file and find what of it would prove nothing. Raises `UnreadableInput`."""
    document = _read_yaml(path)
    patterns = [str(name) for name in document.get("rule_files") or ()]
    rule_files: list[Path] = []
    problems: list[Problem] = []
    if not patterns:
        problems.append(Problem(str(path), "names no rule_files: no rule would be tested"))
    for pattern in patterns:
        found = _globbed(str(path.parent / pattern))
        if not found:
            problems.append(Problem(str(path), f"rule_files: {pattern} matches no file"))
        rule_files += found
    rules = [rule for name in rule_files for rule in rules_in(_read_yaml(name))]
    alerts = {str(rule["alert"]) for rule in rules if "alert" in rule}
    recorded = {str(rule["record"]) for rule in rules if "record" in rule}
    tests = document.get("tests") or ()
    if not tests:
        problems.append(Problem(str(path), "has no tests"))
    cases = tuple(_case(path, index, test, alerts, recorded) for index, test in enumerate(tests))
    return TestFile(path, document, tuple(rule_files), cases, tuple(problems))


def rules_in(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every rule of a parsed rule file, in order."""
    return [rule for group in document.get("groups") or () for rule in group.get("rules") or ()]


def run_cases(promtool: str, test_file: TestFile, cases: Sequence[Case]) -> Report:
    """Run some of a file's cases in one promtool process; problems of the file and of these cases count as failures."""
    problems = [*test_file.problems, *(problem for case in cases for problem in case.problems)]
    if not cases:
        problems.append(Problem(str(test_file.path), "no test case ran"))
    if problems:
        return Report(len(cases), tuple(problems))
    if len(cases) == len(test_file.cases):
        done = _run(promtool, ["test", "rules", str(test_file.path)])
    else:
        chosen = test_file.document | {
            "rule_files": [str(name.resolve()) for name in test_file.rule_files],
            "tests": [test_file.document["tests"][case.index] for case in cases],
        }
        with tempfile.TemporaryDirectory(prefix="preempt-rules-") as folder:
            part = Path(folder, test_file.path.name)
            part.write_text(yaml.safe_dump(chosen, sort_keys=False, width=10_000), encoding="utf-8")
            done = _run(promtool, ["test", "rules", str(part)])
    if done.returncode != 0:
        where = f"{test_file.path}::{cases[0].name}" if len(cases) == 1 else str(test_file.path)
        return Report(len(cases), (Problem(where, _said(done)),))
    return Report(len(cases), ())


def test_rules(promtool: str, patterns: Sequence[str], name_pattern: str | None = None) -> Report:
    """Run every case of the named files whose name matches `name_pattern` (a regular expression, anywhere in the name).

    A pattern or a name that selects nothing is a problem. Raises `UnreadableInput` for a file that is not YAML.
    """
    files, unmatched = matched_files(patterns)
    problems = list(unmatched)
    count = 0
    for path in files:
        test_file = read_test_file(path)
        cases = [case for case in test_file.cases if name_pattern is None or re.search(name_pattern, case.name)]
        if name_pattern is not None and not cases:
            problems += test_file.problems
            continue
        report = run_cases(promtool, test_file, cases)
        count += report.count
        problems += report.problems
    if count == 0 and not problems:
        chosen = f"matching {name_pattern!r} " if name_pattern is not None else ""
        problems.append(Problem(", ".join(patterns) or "rules test", f"no test case {chosen}ran"))
    return Report(count, tuple(problems))


test_rules.__test__ = False  # type: ignore[attr-defined]  # not a test function, whatever pytest thinks of its name


def _case(path: Path, index: int, test: Mapping[str, Any], alerts: set[str], recorded: set[str]) -> Case:
    name = str(test.get("name") or f"test {index + 1}")
    where = f"{path}::{name}"
    alert_tests = test.get("alert_rule_test") or ()
    expression_tests = test.get("promql_expr_test") or ()
    problems = []
    if not alert_tests and not expression_tests:
        problems.append(Problem(where, "has neither alert_rule_test nor promql_expr_test"))
    for alert_test in alert_tests:
        if alert_test.get("alertname") not in alerts:
            problems.append(Problem(where, f"no loaded rule defines the alert {alert_test.get('alertname')!r}"))
    fed = {_NAME.match(str(series.get("series", "")).lstrip()) for series in test.get("input_series") or ()}
    known = {found.group() for found in fed if found} | recorded | {"ALERTS", "ALERTS_FOR_STATE"}
    for expression_test in expression_tests:
        expression = str(expression_test.get("expr", ""))
        if not known & set(_NAME.findall(expression)) and not expression_test.get("exp_samples"):
            problems.append(Problem(where, f"nothing feeds or records what {expression!r} reads: it is empty anyway"))
    return Case(path, index, name, tuple(problems))


def _globbed(pattern: str) -> list[Path]:
    return [Path(name) for name in sorted(glob.glob(pattern, recursive=True))]  # noqa: PTH207 # Path refuses absolute ones


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UnreadableInput(str(path), error) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UnreadableInput(str(path), f"not YAML: {error}") from error
    if not isinstance(document, dict):
        raise UnreadableInput(str(path), "not a YAML mapping")
    return document


def _run(promtool: str, arguments: Sequence[str], given: str = "") -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [promtool, *arguments],
            input=given,
            capture_output=True,
            encoding="utf-8",
            timeout=SAFE_PROCESS_S,
            check=False,
        )
    except OSError as error:
        raise ToolMissing(f"{promtool} cannot be run: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise ToolMissing(f"{promtool} did not finish within {SAFE_PROCESS_S} s") from error


def _said(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stdout + done.stderr).strip()
