"""`doctor` against a real Prometheus and a real Alertmanager: what is well, and each thing that may be wrong."""

import json
from pathlib import Path

import pytest

from preempt_exporter.cli.main import main
from preempt_exporter.rules_pack.links import leads_nowhere
from preempt_exporter.rules_pack.render import rendered_pack, write_pack
from tests.rules_pack.real_alertmanager import alertmanager
from tests.rules_pack.real_prometheus import page_of, prometheus
from tests.stories.story import Story

SWITCH = "groups: [{name: switch, rules: [{alert: AlertingWorks, expr: vector(1)}]}]\n"


def scrape_of(folder: Path) -> str:
    folder.mkdir()
    story = Story(folder)
    return story.scrape.text(story.reading, 0, openmetrics=False)


def diagnosed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, list[tuple[bool, str]]]]:
    status = main(["doctor", "--json", *arguments])
    findings: dict[str, list[tuple[bool, str]]] = {}
    for finding in json.loads(capsys.readouterr().out):
        findings.setdefault(finding["check"], []).append((finding["ok"], finding["says"]))
    return status, findings


def test_a_well_set_up_installation_is_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Scraped, loaded, agreeing, routed, and watched over: exit 0 and nothing to do."""
    ours = {"runbook_base": "https://wiki.batch.internal/runbooks", "dashboard_url": "http://grafana:3000/d/x"}
    write_pack(rendered_pack(ours), tmp_path / "rules")
    (tmp_path / "rules" / "switch.yml").write_text(SWITCH, encoding="utf-8")
    (tmp_path / "am").mkdir()
    with (
        page_of(scrape_of(tmp_path / "story")) as target,
        prometheus(tmp_path / "prometheus", target, [f"{tmp_path}/rules/*.yml"]) as url,
        alertmanager(tmp_path / "am") as running,
    ):
        status, findings = diagnosed(capsys, "--prometheus", url, "--alertmanager", running.url)
        assert main(["doctor", "--prometheus", url]) == 0
        assert "ok    dead man's switch: AlertingWorks always fires" in capsys.readouterr().out
    assert status == 0, findings
    assert set(findings) == {"scraped", "rules", "thresholds", "dead man's switch", "routes"}
    assert findings["thresholds"] == [(True, "exporters and rules agree")]
    assert (True, "drain_and_reject, page: control, pager") in findings["routes"]


def test_each_thing_that_is_wrong_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another threshold, alerts that are not loaded, placeholder links and no dead man's switch: exit 1."""
    pack = rendered_pack({"restart_frac": "0.3"})
    del pack["ledger.yml"]
    write_pack(pack, tmp_path / "rules")
    with (
        page_of(scrape_of(tmp_path / "story")) as target,
        prometheus(tmp_path / "prometheus", target, [f"{tmp_path}/rules/*.yml"]) as url,
    ):
        status, findings = diagnosed(capsys, "--prometheus", url)
        other_job, elsewhere = diagnosed(capsys, "--prometheus", url, "--job", "other")
    assert status == 1
    assert findings["thresholds"] == [
        (False, "an exporter runs with restart_frac=0.2: `rules render --set restart_frac=0.2`")
    ]
    assert any("LedgerSilent" in says for ok, says in findings["rules"] if not ok)
    assert (len(findings["runbooks"]), findings["runbooks"][0][0]) == (1, False)
    assert "`rules render --set runbook_base=`" in findings["runbooks"][0][1]
    assert "`rules render --set dashboard_url=`" in findings["dashboard"][0][1]
    assert not findings["dead man's switch"][0][0]
    assert other_job == 1
    assert elsewhere["scraped"] == [
        (False, "no target in job other: add it to scrape_configs, or name yours with --job")
    ]


@pytest.mark.parametrize(
    ("url", "nowhere"),
    [
        ("https://example.invalid/grafana/d/preempt-exporter?var-lane={{ $labels.lane | urlquery }}", True),
        ("https://wiki.example/runbooks/a.md", True),
        ("https://www.example.com/", True),
        ("https://EXAMPLE.ORG./", True),
        ("docs/runbooks/a.md", True),
        ("https:///a.md", True),
        ("https://[/a.md", True),
        ("", True),
        ("https://example.company.internal/", False),
        ("http://grafana:3000/d/x?var-lane={{ $labels.lane | urlquery }}", False),
        ("https://notexample.com/", False),
    ],
)
def test_a_link_that_nobody_can_follow_is_known_by_its_address(url: str, nowhere: bool) -> None:
    """A placeholder is an address of a domain that is set aside for documentation, or none at all."""
    assert leads_nowhere(url) is nowhere


def test_a_prometheus_that_does_not_answer_is_one_line_and_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    """Unreadable input is not a finding."""
    assert main(["doctor", "--prometheus", "http://127.0.0.1:1"]) == 2
    assert main(["doctor", "--prometheus", "127.0.0.1:9090"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 2
    assert "does not answer" in error
    assert "write it as http://host:port" in error
