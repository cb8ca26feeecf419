"""`preempt-exporter rules` as a user meets it."""

from pathlib import Path

import pytest

from preempt_exporter.cli.main import main

REPOSITORY = Path(__file__).parents[2]


def test_check_passes_the_packs_own_rules(capsys: pytest.CaptureFixture[str]) -> None:
    """Without arguments the pack itself is checked, wherever one stands."""
    assert main(["rules", "check"]) == 0
    assert "all well" in capsys.readouterr().out


def test_test_runs_the_packs_own_tests(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The pack's own tests of single tasks pass by the command."""
    monkeypatch.chdir(REPOSITORY)
    assert main(["rules", "test", "tests/rules/task*.yml"]) == 0
    assert "test cases: all well" in capsys.readouterr().out


def test_test_with_nothing_to_test_exits_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Standing where no test file is, is a failure that names the pattern."""
    monkeypatch.chdir(tmp_path)
    assert main(["rules", "test"]) == 1
    assert "tests/rules/*.yml: no file matched" in capsys.readouterr().err


def test_a_missing_promtool_is_one_line_and_exit_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The line says how to get promtool."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("PROMTOOL", raising=False)
    assert main(["rules", "check"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "apt-get install prometheus" in error


@pytest.mark.parametrize(("command", "what"), [("check", "rule file"), ("test", "test file")])
def test_a_named_file_that_is_not_there_is_unreadable_input(
    capsys: pytest.CaptureFixture[str], command: str, what: str
) -> None:
    """Exit 2 and one line, before promtool is asked."""
    assert main(["rules", command, "nowhere.yml"]) == 2
    assert capsys.readouterr().err == f"preempt-exporter rules: nowhere.yml: no such {what}; check the path\n"


def test_a_run_that_is_no_regular_expression_is_wrong_usage(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 2 and one line that names it."""
    monkeypatch.chdir(REPOSITORY)
    assert main(["rules", "test", "--run", "("]) == 2
    error = capsys.readouterr().err
    assert error.startswith("preempt-exporter rules: --run '(': not a regular expression: ")
    assert error.count("\n") == 1
