"""The Kubernetes manifests against the published schemas, and what they promise about where things run."""

import copy
import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from cloudcoil.models.prometheus_operator.v1 import PrometheusRule, ServiceMonitor
from dashboards.generate import FILE

from preempt_exporter.rules_pack.pack import rule_files
from tests.deploy.unknown_keys import unknown_keys

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
VERSIONS = ("1.29", "1.31", "1.34")
"""1.29 is the first that has native sidecars without a feature gate."""
OPERATORS = {"ServiceMonitor": ServiceMonitor, "PrometheusRule": PrometheusRule}


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of every manifest."""
    for path in sorted(FOLDER.glob("*.yml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            yield f"{path.name}-{document['kind']}-{document['metadata']['name']}", document


DOCUMENTS = dict(documents())
(DRIVER,) = [document for document in DOCUMENTS.values() if document["kind"] == "Deployment"]
POD = DRIVER["spec"]["template"]["spec"]


def refused(document: dict[str, Any], version: str) -> list[str]:
    """What the published schemas have against an object."""
    if document["kind"] in OPERATORS:
        model = OPERATORS[document["kind"]].model_validate(document)
        return unknown_keys(document, model.model_dump(by_alias=True, exclude_unset=True, mode="json"))
    try:
        kubernetes_validate.validate(document, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        return [str(error)]
    return []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_schema_takes_it(name: str, version: str) -> None:
    """Kubernetes' own schemas, strictly, and Prometheus operator's for its kinds."""
    assert refused(DOCUMENTS[name], version) == []


@pytest.mark.parametrize("kind", ["Deployment", "ServiceMonitor", "PrometheusRule"])
def test_schema_would_notice(kind: str) -> None:
    """A key that no schema knows is refused."""
    (document,) = [document for document in DOCUMENTS.values() if document["kind"] == kind]
    broken = copy.deepcopy(document)
    broken["spec"]["replicaz"] = 1
    assert refused(broken, "1.31")


def test_exporter_is_a_native_sidecar_of_the_driver_on_lasting_nodes() -> None:
    """It starts before the driver, ends after it, shares its disk, and no node label of a spot node is taken."""
    (exporter,) = POD["initContainers"]
    assert exporter["restartPolicy"] == "Always"
    (driver,) = POD["containers"]
    ledgers = [mount for mount in exporter["volumeMounts"] if mount["mountPath"] == "/ledgers"]
    assert ledgers == [{"name": "batch", "mountPath": "/ledgers", "subPath": "ledgers", "readOnly": True}]
    assert driver["volumeMounts"][0] | {"readOnly": True} == ledgers[0]
    required = POD["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    (term,) = required
    assert {part["operator"] for part in term["matchExpressions"]} == {"NotIn"}
    keys = {part["key"] for part in term["matchExpressions"]}
    assert {"cloud.google.com/gke-spot", "eks.amazonaws.com/capacityType", "karpenter.sh/capacity-type"} <= keys
    assert DRIVER["spec"]["replicas"] == 1
    assert DRIVER["spec"]["strategy"] == {"type": "Recreate"}


def test_monitor_pins_what_the_rules_count_on() -> None:
    """The monitor finds the service and gives the job and instance the names that alerts and dashboard expect."""
    (monitor,) = [document for document in DOCUMENTS.values() if document["kind"] == "ServiceMonitor"]
    (service,) = [document for document in DOCUMENTS.values() if document["kind"] == "Service"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert service["spec"]["selector"].items() <= DRIVER["spec"]["template"]["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    pinned = {part["targetLabel"]: part["replacement"] for part in endpoint["relabelings"] if "targetLabel" in part}
    assert pinned == {"job": "preempt-exporter", "instance": "preempt-exporter"}


def test_generated_manifests_are_those_of_the_sources(tmp_path: Path) -> None:
    """Generating again changes nothing; the rule object has every rule, the ConfigMap the very dashboard."""
    runpy.run_path(str(FOLDER / "generate.py"))["main"]([str(tmp_path)])
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["dashboard.yml", "prometheusrule.yml"]
    for name in names:
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes(), name
    (rules,) = [document for document in DOCUMENTS.values() if document["kind"] == "PrometheusRule"]
    packed = [group for path in rule_files() for group in yaml.safe_load(path.read_text("utf-8"))["groups"]]
    assert rules["spec"]["groups"] == packed
    (board,) = [d for d in DOCUMENTS.values() if d["metadata"]["name"] == "preempt-exporter-dashboard"]
    assert json.loads(board["data"]["preempt-exporter.json"]) == json.loads(FILE.read_text(encoding="utf-8"))
