"""Our reading of a routing tree is Alertmanager's own."""

import itertools
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from preempt_exporter.errors import UnreadableInput
from preempt_exporter.rules_pack.alertmanager_routes import Reached, read_routes, receivers_reached
from preempt_exporter.rules_pack.vocabulary import ACTIONS, SEVERITIES

from .real_alertmanager import SHIPPED

ODD = """
route:
  receiver: root
  routes:
    - match: {severity: page}
      match_re: {lane: "spot-.*"}
      receiver: old
      continue: true
    - matchers: ['{severity=~"page|ticket",team!="x"}']
      routes:
        - matchers: [action!~"stop_.*|abandon_lane"]
          receiver: mild
    - receiver: quoted
      matchers: [lane="a \\"b\\""]
receivers: [{name: root}, {name: old}, {name: mild}, {name: quoted}]
"""


def by_amtool(path: Path, labels: dict[str, str]) -> list[str]:
    program = shutil.which("amtool")
    assert program, "install Debian's package prometheus-alertmanager, or put amtool on PATH"
    arguments = [f"{name}={value}" for name, value in labels.items()]
    done = subprocess.run(
        [program, "config", "routes", "test", f"--config.file={path}", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.strip().split(",")


@pytest.mark.parametrize("lane", ["free", "spot-1", ""])
def test_we_agree_with_amtool_on_an_odd_tree_and_on_ours(tmp_path: Path, lane: str) -> None:
    """Old and new matchers, `continue`, inherited receivers and regular expressions end where amtool says."""
    odd = tmp_path / "odd.yml"
    odd.write_text(ODD, encoding="utf-8")
    for path in (odd, SHIPPED):
        root = read_routes(path.read_text(encoding="utf-8"), str(path))
        for severity, action, team in itertools.product((*SEVERITIES, "info"), ACTIONS[::3], ("x", "y")):
            labels = {"severity": severity, "action": action, "team": team, **({"lane": lane} if lane else {})}
            ours = [each.receiver for each in receivers_reached(root, labels)]
            assert ours == by_amtool(path, labels), labels


def test_what_only_the_root_takes_is_told_apart() -> None:
    """An alert that no route wants is not routed, although somebody receives it."""
    root = read_routes(ODD, "odd")
    assert receivers_reached(root, {"severity": "info"}) == [Reached("root", by_route=False)]
    assert receivers_reached(root, {"lane": 'a "b"'}) == [Reached("quoted", by_route=True)]
    assert receivers_reached(root, {"severity": "ticket", "action": "stop_run"}) == [Reached("root", by_route=True)]


def test_what_is_no_configuration_is_refused() -> None:
    """Neither broken YAML nor a file without a route passes for one."""
    for text in ("route: [", yaml.safe_dump({"receivers": []}), "route: x"):
        with pytest.raises(UnreadableInput):
            read_routes(text, "somewhere")
