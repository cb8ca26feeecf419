"""The rules on other engines: promtool 2.53 and the newest 3.x to be had, and VictoriaMetrics' vmalert.

`tools/fetch-rule-engines.sh` (part of `make test-tools`) puts them below `.engines`.
"""

import re
import subprocess
from pathlib import Path

import pytest

from preempt_exporter.promtool import check_rules, test_rules
from preempt_exporter.rules_pack.pack import rule_files

ROOT = Path(__file__).parents[2]
ENGINES = ROOT / ".engines"
TESTS = str(ROOT / "tests" / "rules" / "*.yml")
HOW_TO_GET = "run tools/fetch-rule-engines.sh"


def version_of(promtool: Path) -> str:
    said = subprocess.run([promtool, "--version"], capture_output=True, text=True, timeout=60, check=True)
    found = re.search(r"promtool, version (\d+\.\d+)", said.stdout + said.stderr)
    assert found
    return found.group(1)


def passes_everything(promtool: Path) -> None:
    checked = check_rules(str(promtool), rule_files())
    assert checked.ok, checked.problems
    tested = test_rules(str(promtool), [TESTS])
    assert tested.ok, tested.problems


def test_every_rule_test_passes_on_2_53() -> None:
    """Prometheus 2.53, the long-term release, agrees with 2.42 on every case."""
    promtool = ENGINES / "trixie" / "usr" / "bin" / "promtool"
    assert promtool.exists(), f"promtool 2.53 is not here: {HOW_TO_GET}"
    assert version_of(promtool) == "2.53"
    passes_everything(promtool)


def test_every_rule_test_passes_on_3() -> None:
    """Prometheus 3, whose windows are open on the left, agrees with 2.42 on every case."""
    promtool = ENGINES / "sid" / "usr" / "bin" / "promtool"
    if not promtool.exists():
        pytest.skip(f"NOT TESTED ON PROMETHEUS 3: {HOW_TO_GET}")
    assert version_of(promtool).startswith("3.")
    passes_everything(promtool)


def test_the_rules_load_in_vmalert() -> None:
    """VictoriaMetrics parses every expression and template of the pack, and refuses a broken one."""
    vmalert = ENGINES / "sid" / "usr" / "bin" / "vmalert"
    if not vmalert.exists():
        pytest.skip(f"NOT TESTED ON VICTORIAMETRICS: {HOW_TO_GET}")
    for path in rule_files():
        done = subprocess.run([vmalert, "-dryRun", f"-rule={path}"], capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr.decode()


def test_vmalert_would_have_noticed(tmp_path: Path) -> None:
    """The dry run above can fail: a function that no template has is refused."""
    vmalert = ENGINES / "sid" / "usr" / "bin" / "vmalert"
    if not vmalert.exists():
        pytest.skip(f"NOT TESTED ON VICTORIAMETRICS: {HOW_TO_GET}")
    broken = tmp_path / "task.yml"
    good = next(path for path in rule_files() if path.name == "task.yml").read_text(encoding="utf-8")
    broken.write_text(good.replace("humanizeDuration", "humaniseDuration"), encoding="utf-8")
    done = subprocess.run([vmalert, "-dryRun", f"-rule={broken}"], capture_output=True, timeout=60, check=False)
    assert done.returncode != 0
