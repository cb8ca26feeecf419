"""Where the pack's files are: in a checkout beside the package's source, in an installation inside the package."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
CHECKOUT = PACKAGE.parent.parent

RUNBOOKS_IN_CHECKOUT = Path("docs", "runbooks")


def rules_folder() -> Path:
    """The folder of the rule files."""
    return _first(PACKAGE / "pack" / "rules", CHECKOUT / "rules")


def runbooks_folder() -> Path:
    """The folder of the runbooks, a Markdown page per alert."""
    return _first(PACKAGE / "pack" / "runbooks", CHECKOUT / RUNBOOKS_IN_CHECKOUT)


def dashboard_file() -> Path:
    """The Grafana dashboard, classic JSON."""
    return _first(PACKAGE / "pack" / "dashboards", CHECKOUT / "dashboards") / "preempt-exporter.json"


def rule_files() -> tuple[Path, ...]:
    """The pack's rule files, sorted."""
    return tuple(sorted(rules_folder().glob("*.yml")))


def _first(installed: Path, checkout: Path) -> Path:
    return installed if installed.is_dir() else checkout
