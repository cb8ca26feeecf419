"""Holds the tests against every mutant of every rule: one that no test notices needs a written reason.

A mutant meets, in one promtool process, those test cases that name its rule or one that reads what it records. Rules
that play no part are left out of the file that it runs in, for speed.
"""

import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from preempt_exporter.promtool import SAFE_PROCESS_S, Problem, read_test_file
from preempt_exporter.rules_pack.mutants import Mutant, mutants_of

_SAFE_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SAFE_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class Trial(Struct, frozen=True):
    """A mutant with all that it runs in."""

    mutant: Mutant
    rules: dict[str, Any]
    tests: tuple[dict[str, Any], ...]


class MutationReport(Struct, frozen=True):
    """`survivors` passed every test; `problems` are survivors without a reason and reasons without a survivor."""

    count: int
    survivors: tuple[str, ...]
    problems: tuple[Problem, ...]


def run_mutants(
    promtool: str, rule_paths: Sequence[Path], test_paths: Sequence[Path], reasons: Mapping[str, str], processes: int
) -> MutationReport:
    """Run every mutant. `reasons` holds, by mutant's name, why no test can tell it from the rule.

    Raises `UnreadableInput` for a file that is no YAML.
    """
    trials = _trials(rule_paths, test_paths)
    with ThreadPoolExecutor(processes) as pool:
        passed = list(pool.map(lambda trial: _passes(promtool, trial), trials))
    survivors = tuple(trial.mutant.name for trial, survived in zip(trials, passed, strict=True) if survived)
    problems = [Problem(name, "no test notices it") for name in survivors if name not in reasons]
    problems += [Problem(name, "has a reason and no survivor: remove it") for name in reasons if name not in survivors]
    if not trials:
        problems.append(Problem("mutants", "no rule was mutated"))
    return MutationReport(len(trials), survivors, tuple(problems))


def _trials(rule_paths: Sequence[Path], test_paths: Sequence[Path]) -> list[Trial]:
    test_files = [read_test_file(path) for path in test_paths]
    trials = []
    for path in rule_paths:
        groups = yaml.load(path.read_text(encoding="utf-8"), _SAFE_LOADER)["groups"]
        loading = [
            file.document for file in test_files if path.resolve() in {name.resolve() for name in file.rule_files}
        ]
        for group in groups:
            for rule in group["rules"]:
                touched = _touched_by(rule, group["rules"])
                names = {_name(other) for other in touched}
                tests = tuple(part for document in loading if (part := _cases_naming(document, names)) is not None)
                needed = _needed_by(touched, group["rules"])
                for mutant in mutants_of(rule):
                    rules = [mutant.rule if other is rule else other for other in needed]
                    trials.append(Trial(mutant, {"groups": [{"name": group["name"], "rules": rules}]}, tests))
    return trials


def _name(rule: Mapping[str, Any]) -> str:
    return str(rule.get("alert") or rule["record"])


def _reads(rule: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return "record" in other and other is not rule and str(other["record"]) in str(rule["expr"])


def _touched_by(rule: dict[str, Any], rules: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rule, and those that read what it records, directly or not."""
    touched = [rule]
    for other in rules:
        if other is not rule and any(_reads(other, source) for source in touched):
            touched.append(other)
    return touched


def _needed_by(touched: Sequence[dict[str, Any]], rules: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """These rules, others of the same name, and what they read, in the group's order."""
    names = {_name(rule) for rule in touched}
    needed = [rule for rule in rules if _name(rule) in names]
    for _ in rules:
        needed = [rule for rule in rules if rule in needed or any(_reads(reader, rule) for reader in needed)]
    return needed


def _cases_naming(document: dict[str, Any], names: set[str]) -> dict[str, Any] | None:
    cases = [case for case in document["tests"] if any(_is_about(case, name) for name in names)]
    return document | {"rule_files": ["rules.yml"], "tests": cases} if cases else None


def _is_about(case: Mapping[str, Any], name: str) -> bool:
    if any(test["alertname"] == name for test in case.get("alert_rule_test") or ()):
        return True
    return any(name in re.findall(r"[\w:]+", test["expr"]) for test in case.get("promql_expr_test") or ())


def _passes(promtool: str, trial: Trial) -> bool:
    with tempfile.TemporaryDirectory(prefix="preempt-mutant-") as folder:
        Path(folder, "rules.yml").write_text(yaml.dump(trial.rules, Dumper=_SAFE_DUMPER), encoding="utf-8")
        names = []
        for place, test in enumerate(trial.tests):
            names.append(f"test{place}.yml")
            Path(folder, names[-1]).write_text(yaml.dump(test, Dumper=_SAFE_DUMPER), encoding="utf-8")
        done = subprocess.run(
            [promtool, "test", "rules", *names], cwd=folder, capture_output=True, timeout=SAFE_PROCESS_S, check=False
        )
    return done.returncode == 0
