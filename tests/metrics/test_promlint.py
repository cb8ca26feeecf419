"""Prometheus' own linter on a full scrape: clean but for one committed list of exceptions, each with its reason."""

import os
from pathlib import Path

import pytest

from preempt_exporter.metrics.families import FAMILIES
from preempt_exporter.metrics.platform_samples import PlatformSamples
from preempt_exporter.promtool import Problem, check_metrics, find_promtool
from tests.metrics.scraping import GOLDEN

EXCEPTIONS = Path(__file__).parent / "promlint_exceptions.txt"


def full_scrape() -> bytes:
    """Every family once, the platform's too, as the exporter would serve them."""
    golden = [path.read_bytes().decode() for path in sorted(GOLDEN.glob("*.prom"))]
    blocks: dict[str, str] = {}
    for text in golden:
        for block in text.split("# HELP ")[1:]:
            blocks.setdefault(block.split(" ", 1)[0], "# HELP " + block)
    assert blocks.keys() == {family.name for family in FAMILIES}
    return ("".join(blocks.values()) + PlatformSamples().text(openmetrics=False)).encode()


def exceptions() -> dict[Problem, str]:
    """What the linter may say, with the reason why it is right here to ignore it."""
    found: dict[Problem, str] = {}
    for line in EXCEPTIONS.read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        metric, said, reason = (part.strip() for part in line.split("|"))
        found[Problem(metric, said)] = reason
    return found


def test_the_linter_says_nothing_but_the_exceptions() -> None:
    """Each thing that promtool says is excepted, and each exception is still needed."""
    said = set(check_metrics(find_promtool(os.environ), full_scrape()))
    excepted = exceptions().keys()
    assert said - excepted == set(), "promtool says what is not excepted"
    assert excepted - said == set(), "exceptions that are no longer needed"


def test_every_exception_has_its_reason() -> None:
    """No exception stands without a sentence, and none names a metric that is not ours."""
    assert all(len(reason) > 20 for reason in exceptions().values())
    assert {problem.where for problem in exceptions()} <= {family.name for family in FAMILIES}


@pytest.mark.parametrize(
    ("scrape", "words"),
    [
        (b"", "no sample"),
        (b"# TYPE x gauge\n", "no sample"),
        (b"x{ 1\n", "promtool check metrics"),
        (b"# HELP x_total X.\n# TYPE x_total gauge\nx_total 1\n", "_total"),
    ],
)
def test_nothing_wrong_passes(scrape: bytes, words: str) -> None:
    """An empty scrape, one that does not parse and one with lint are problems, each said."""
    (problem,) = check_metrics(find_promtool(os.environ), scrape)
    assert words in str(problem)
