"""The Compose file and the Containerfile, as their tools read them. Neither is run here: there is no engine for it."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import ComposeSpecification
from dashboards.generate import FILE, UID

from tests.deploy.unknown_keys import unknown_keys

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "deploy" / "compose"
CONTAINERFILE = COMPOSE / "Containerfile"
GIVEN: dict[str, Any] = yaml.safe_load((COMPOSE / "compose.yml").read_text(encoding="utf-8"))


def mounts(service: str) -> dict[str, str]:
    """Path in the container to source."""
    parts = [mount.removesuffix(":ro").rpartition(":") for mount in GIVEN["services"][service]["volumes"]]
    return {there: here for here, _, there in parts}


def read(*names: str) -> Any:
    """A YAML file beside the Compose file."""
    return yaml.safe_load(COMPOSE.joinpath(*names).read_text(encoding="utf-8"))


def misread(given: dict[str, Any]) -> list[str]:
    """What the published schema does not know."""
    known = ComposeSpecification.model_validate(given).model_dump(by_alias=True, exclude_unset=True, mode="json")
    return unknown_keys(given, known)


def test_schema_knows_every_key() -> None:
    """The Compose specification's own schema takes the file, and a typo would be noticed."""
    assert misread(GIVEN) == []
    typo = GIVEN | {"services": {"grafana": {"image": "x", "portz": []}}}
    assert misread(typo) == ["services.grafana.portz"]


def test_ports_are_on_loopback_and_images_are_pinned() -> None:
    """Nothing listens beyond this machine, and no image is whatever is newest."""
    for name, service in GIVEN["services"].items():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
        assert re.search(r":v?\d+\.\d+\.\d+$", service["image"]), name


def test_mounted_files_exist() -> None:
    """Every file that is mounted is in the repository, every volume is declared."""
    for name in GIVEN["services"]:
        for here in mounts(name).values() if "volumes" in GIVEN["services"][name] else ():
            if here.startswith("."):
                assert (COMPOSE / here).exists(), here
            else:
                assert re.sub(r"^\$\{\w+:-(\w+)\}$", r"\1", here) in GIVEN["volumes"], here


def test_exporter_is_in_the_group_that_may_read_ledgers() -> None:
    """Ledgers as docs/deployment.md lays them out (0640, folder 2750) are read by their group, which has to be told."""
    assert GIVEN["services"]["exporter"]["group_add"] == ["${LEDGERS_GROUP:-10001}"]
    told = "export LEDGERS=/var/lib/batch LEDGERS_GROUP=$(stat -c %g /var/lib/batch)"
    for path in (COMPOSE / "compose.yml", ROOT / "docs" / "deployment.md"):
        assert told in path.read_text(encoding="utf-8")


def test_drill_writes_to_no_ledger_of_ours() -> None:
    """Whatever LEDGERS says, the fake batch stays on the volume that Compose made for it."""
    assert mounts("drill") == {"/ledgers": "ledgers"}


def test_grafana_is_provisioned_with_the_dashboard() -> None:
    """The provider looks into the folder where the dashboard is mounted, and the data source is this Prometheus."""
    (there,) = [there for there, here in mounts("grafana").items() if (COMPOSE / here).resolve() == FILE.resolve()]
    (provider,) = read("grafana", "provisioning", "dashboards", "preempt-exporter.yml")["providers"]
    assert str(Path(there).parent) == provider["options"]["path"]
    assert GIVEN["services"]["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] == there
    (source,) = read("grafana", "provisioning", "datasources", "prometheus.yml")["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert source["type"] == "prometheus"
    assert source["jsonData"]["timeInterval"] == read("prometheus.yml")["global"]["scrape_interval"]
    assert UID in FILE.read_text(encoding="utf-8")


def test_prometheus_configuration_is_the_shipped_one_with_other_addresses(tmp_path: Path) -> None:
    """Compose's Prometheus differs in addresses alone, and promtool takes both."""
    shipped = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
    ours = read("prometheus.yml")
    addresses = re.compile(r"(127\.0\.0\.1|exporter|alertmanager):(\d+)")
    for told in (shipped, ours):
        told["rule_files"] = [f"{ROOT / 'rules'}/*.yml"]
        there = tmp_path / "prometheus.yml"
        there.write_text(yaml.safe_dump(told), encoding="utf-8")
        subprocess.run(["promtool", "check", "config", there], check=True, capture_output=True, timeout=60)
    assert addresses.sub(r"there:\2", str(shipped)) == addresses.sub(r"there:\2", str(ours))


def hadolint(text: str) -> str:
    """What hadolint says about a Containerfile."""
    program = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([program, "-"], input=text, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def test_containerfile_is_clean() -> None:
    """hadolint has nothing to say, without any rule ignored; it would about an image without a version."""
    text = CONTAINERFILE.read_text(encoding="utf-8")
    assert "hadolint ignore" not in text
    assert hadolint(text) == ""
    assert "DL3006" in hadolint(text.replace(":3.11-slim-bookworm", ""))


def test_container_does_not_run_as_root() -> None:
    """The last user is a number, which Kubernetes' runAsNonRoot can judge, and none is named after it."""
    assert re.findall(r"(?m)^USER (.*)$", CONTAINERFILE.read_text(encoding="utf-8"))[-1] == "10001:10001"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names in a wheel built from nothing but what the image's build context has."""
    folder = tmp_path_factory.mktemp("context")
    allowed = re.findall(r"(?m)^!(.*)$", CONTAINERFILE.with_name("Containerfile.dockerignore").read_text("utf-8"))
    files = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *allowed],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((ROOT / name).read_bytes())
    built = folder / "wheel"
    words = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", built, folder]
    subprocess.run(words, check=True, capture_output=True, timeout=300)
    (there,) = built.glob("*.whl")
    with zipfile.ZipFile(there) as opened:
        return set(opened.namelist())


def test_wheel_carries_rules_runbooks_and_dashboard(wheel: set[str]) -> None:
    """What an operator installs is in the wheel, file by file, from the image's build context too."""
    packed = "preempt_exporter/pack"
    assert f"{packed}/dashboards/{FILE.name}" in wheel
    for folder in ("rules", "docs/runbooks"):
        for path in (ROOT / folder).iterdir():
            assert f"{packed}/{Path(folder).name}/{path.name}" in wheel
    for path in (ROOT / "exporter").rglob("*.py"):
        assert str(path.relative_to(ROOT / "exporter")) in wheel
