"""Collects promtool test files: one pytest item per test case, named like the case.

The ini option `promtool_tests` lists globs below pytest's root folder; every file they name is held to be a test file.
Unset, the glob is `tests/rules/*.yml`, and files there that do not look like promtool's are left alone: the plugin is
active wherever the package is installed, in projects with other rules too.

A file's cases run in one promtool process; only when that fails is each case run by itself, to say which. Without
promtool the items fail: what was not tested is not taken for tested.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from preempt_exporter.promtool import Case, Report, TestFile

DEFAULT_GLOB = "tests/rules/*.yml"
_LOOKS_LIKE_PROMTOOLS = re.compile(r"^(rule_files|evaluation_interval)\s*:", re.MULTILINE)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare `promtool_tests`."""
    parser.addini("promtool_tests", f"globs of promtool test files, below the root ({DEFAULT_GLOB})", type="args")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Take the files that `promtool_tests` names."""
    try:
        relative = file_path.relative_to(parent.config.rootpath).as_posix()
    except ValueError:
        return None
    named = parent.config.getini("promtool_tests")
    if not any(fnmatch(relative, pattern) for pattern in named or [DEFAULT_GLOB]):
        return None
    if named or _LOOKS_LIKE_PROMTOOLS.search(file_path.read_text(encoding="utf-8", errors="replace")):
        collector: pytest.Collector = PromtoolFile.from_parent(parent, path=file_path)
        return collector
    return None


class RulesFailed(Exception):
    """What promtool, or our check of the file, says is wrong."""


class PromtoolFile(pytest.File):
    """One promtool test file."""

    _whole: "Report | None" = None

    def collect(self) -> Iterator[pytest.Item]:
        """An item per test case; a file that tests nothing is one item, which fails."""
        from preempt_exporter.errors import UnreadableInput
        from preempt_exporter.promtool import read_test_file

        try:
            test_file = read_test_file(self.path)
        except UnreadableInput as error:
            raise self.CollectError(str(error)) from error
        if test_file.problems or not test_file.cases:
            yield UntestedFile.from_parent(
                self, name="tests nothing", problems=[str(each) for each in test_file.problems]
            )
            return
        seen = Counter(case.name for case in test_file.cases)
        for case in test_file.cases:
            name = case.name if seen[case.name] == 1 else f"{case.name} [{case.index + 1}]"
            yield PromtoolCase.from_parent(self, name=name, test_file=test_file, case=case)

    def all_pass(self, promtool: str, test_file: "TestFile") -> bool:
        """True if the file as a whole passes; runs promtool once, whoever asks."""
        from preempt_exporter.promtool import run_cases

        if self._whole is None:
            self._whole = run_cases(promtool, test_file, test_file.cases)
        return self._whole.ok


class UntestedFile(pytest.Item):
    """A file in which nothing would be tested."""

    def __init__(self, problems: list[str], **kwargs: object) -> None:
        """`problems` say why."""
        super().__init__(**kwargs)  # type: ignore[arg-type]
        self.problems = problems

    def runtest(self) -> None:
        """Fail with the reasons."""
        raise RulesFailed("\n".join(self.problems))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:
        """The reasons alone, without a traceback through this plugin."""
        return str(excinfo.value)


class PromtoolCase(pytest.Item):
    """One test case of a promtool test file."""

    def __init__(self, test_file: "TestFile", case: "Case", **kwargs: object) -> None:
        """`case` is one of `test_file`'s."""
        super().__init__(**kwargs)  # type: ignore[arg-type]
        self.test_file = test_file
        self.case = case

    def runtest(self) -> None:
        """Pass if the whole file passes, or at least this case by itself."""
        from preempt_exporter.promtool import find_promtool, run_cases

        promtool = find_promtool(os.environ)
        assert isinstance(self.parent, PromtoolFile)
        if self.parent.all_pass(promtool, self.test_file):
            return
        alone = run_cases(promtool, self.test_file, [self.case])
        if not alone.ok:
            raise RulesFailed("\n".join(str(problem) for problem in alone.problems))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:
        """What promtool said, without a traceback through this plugin."""
        return f"{type(excinfo.value).__name__}: {excinfo.value}"

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where the case stands."""
        return self.path, None, self.name
