"""The docs and the code say the same, in both directions."""

import importlib.util
import re
from argparse import Namespace
from pathlib import Path
from types import ModuleType

import pytest

from preempt_exporter.cli.main import COMMANDS
from preempt_exporter.config import SETTINGS, resolve
from preempt_exporter.metrics.families import FAMILIES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", DOCS / "metrics.md", DOCS / "configuration.md", DOCS / "commands.md", DOCS / "mapping.md")
NO_METRICS = {"preempt_exporter", "preempt_budget"}
"""The package, and a reason of rejections."""


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_docs", ROOT / "tools" / "generate_docs.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_generated_parts_are_up_to_date(generator: ModuleType) -> None:
    """Every generated part of docs/ is what the code says now; a new command has its section."""
    stale = [path.name for path, now in generator.generated().items() if now != text(path)]
    assert not stale, "run: python tools/generate_docs.py"


def test_every_generated_part_is_somewhere(generator: ModuleType) -> None:
    """No table that the generator knows has been lost from the pages."""
    pages = "".join(text(path) for path in DOCS.glob("*.md"))
    parts = [*generator.PARTS, *(f"command {name}" for name in COMMANDS)]
    assert [part for part in parts if pages.count(f"<!-- generated: {part} -->") != 1] == []


def test_every_metric_is_documented_and_no_other() -> None:
    """Each family stands in docs/metrics.md, and each metric that the pages speak of is one."""
    metrics = text(DOCS / "metrics.md")
    names = {family.name for family in FAMILIES}
    assert [name for name in sorted(names) if f"| `{name}` |" not in metrics] == []
    for page in PAGES:
        spoken_of = set(re.findall(r"\bpreempt_[a-z0-9_]+[a-z0-9]", text(page))) - NO_METRICS
        assert spoken_of - names == set(), page.name


def test_every_setting_is_documented_and_no_other(generator: ModuleType) -> None:
    """Each setting has its row, and each flag that the pages speak of exists in some command."""
    configuration = text(DOCS / "configuration.md")
    for setting in SETTINGS:
        metavar = setting.metavar.replace("|", "\\|")
        assert f"| `--{setting.name} {metavar}` |" in configuration
        assert not setting.env or f"`{setting.env}`" in configuration
    known = {"--help", "--version"}
    for command in COMMANDS:
        for parser in generator.parsers_of(command).values():
            known.update(option for action in parser._actions for option in action.option_strings)
    for page in PAGES:
        spoken_of = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9.-]*[a-z0-9]", text(page)))
        assert spoken_of - known == set(), page.name


def test_every_command_is_documented_and_no_other() -> None:
    """Each command has a section in docs/commands.md, and each one that any page tells to run exists."""
    sections = re.findall(r"^## (.+)$", text(DOCS / "commands.md"), re.MULTILINE)
    assert sorted(sections) == sorted(COMMANDS)
    for page in {ROOT / "README.md", *DOCS.glob("*.md")}:
        called = set(re.findall(r"(?<![/\w])preempt-exporter ([a-z]+)\b", text(page)))
        assert called - COMMANDS.keys() == set(), page.name


def test_links_between_pages_lead_somewhere() -> None:
    """No page, the README and the runbooks included, links to a file or folder that is not there."""
    for page in (*ROOT.glob("*.md"), *DOCS.rglob("*.md")):
        targets = re.findall(r"\]\((?!https?://|#)([^)#]+)", text(page))
        assert [target for target in targets if not (page.parent / target).exists()] == [], page.name


def test_the_example_configuration_is_one(tmp_path: Path) -> None:
    """The YAML example of docs/configuration.md is read without complaint and sets what it says."""
    (example,) = re.findall(r"```yaml\n(.*?)```", text(DOCS / "configuration.md"), re.DOTALL)
    (tmp_path / "c.yml").write_text(example, encoding="utf-8")
    config = resolve(Namespace(**{"config.file": str(tmp_path / "c.yml")}), {})
    assert config.tasks().series_of_worst == 500
    assert config.lane_settings().names == ("spot-us-east-1", "paid")
    assert config.values["web.listen-address"] == ("127.0.0.1:9877",)


def test_the_generator_changes_nothing_twice(generator: ModuleType) -> None:
    """What it writes, it would write again: the pages are stable."""
    for page, now in generator.generated().items():
        assert generator.filled_in(now) == now, page.name
