"""A ledger in, a scrape out, under a fixed clock: `pytest --update-goldens` writes what the scrapes now say."""

import re
from pathlib import Path

import pytest

from preempt_exporter.ledger.decode import decode_chunk
from preempt_exporter.ledger.mapping import Mapping
from preempt_exporter.mapping_section import read_mappings
from preempt_exporter.metrics.families import FAMILIES
from preempt_exporter.yaml_section import read_section
from tests import shared_samples
from tests.metrics.scraping import GOLDEN, Decode, Exporter, Samples, sound_samples

LEDGERS = sorted(path.name for path in GOLDEN.glob("*.jsonl"))
FIRST_STAMPS_MS = re.compile(rb'"ts_ms": ?(\d{13})')
WITHOUT_STAMPS_MS = 1_795_956_000_000
LOOK_AFTER_MS = 60_000


def decoder_of(name: str) -> Decode:
    """A ledger with a configuration file beside it is read by the mapping there."""
    config = (GOLDEN / name).with_suffix(".yml")
    return Mapping(read_mappings(read_section(str(config)))).decode if config.exists() else decode_chunk


def scraped(ledger: bytes, decode: Decode = decode_chunk) -> tuple[str, str]:
    """Both formats, a minute after the newest stamp of this age in the ledger; what varies by machine is masked."""
    newest_ms = max((int(stamp) for stamp in FIRST_STAMPS_MS.findall(ledger)), default=WITHOUT_STAMPS_MS)
    exporter = Exporter().read(ledger, newest_ms, decode=decode)
    now_ms = newest_ms + LOOK_AFTER_MS
    masked = [
        re.sub(r'python="[^"]*"', 'python="masked"', text)
        for text in (exporter.text(now_ms), exporter.openmetrics(now_ms))
    ]
    return masked[0], masked[1]


def held_to(golden: Path, text: str, request: pytest.FixtureRequest) -> None:
    """Compare, or write when the flag says so."""
    if request.config.getoption("--update-goldens"):
        golden.write_bytes(text.encode())
    assert text == golden.read_bytes().decode(), f"{golden.name} differs; if that is meant: pytest --update-goldens"


@pytest.mark.parametrize("name", LEDGERS)
def test_own_ledger(name: str, request: pytest.FixtureRequest) -> None:
    """A ledger of ours gives exactly the scrape beside it, in a form that both parsers read to the same samples."""
    text, openmetrics = scraped((GOLDEN / name).read_bytes(), decoder_of(name))
    sound_samples(text, openmetrics)
    held_to((GOLDEN / name).with_suffix(".prom"), text, request)


@pytest.mark.parametrize("name", shared_samples.NAMES)
def test_shared_sample(name: str, request: pytest.FixtureRequest) -> None:
    """A ledger that others wrote gives exactly the committed scrape."""
    text, openmetrics = scraped((shared_samples.folder() / name).read_bytes())
    sound_samples(text, openmetrics)
    held_to((GOLDEN / "samples" / name).with_suffix(".prom"), text, request)


def test_every_shared_sample_is_named() -> None:
    """No ledger lies in the samples' folder without a golden scrape of it."""
    assert {path.name for path in shared_samples.folder().glob("*.jsonl")} == {*shared_samples.NAMES}


def test_every_golden_belongs_to_a_ledger() -> None:
    """No scrape is left behind by a ledger that is gone."""
    assert sorted(path.stem for path in GOLDEN.glob("*.prom")) == [Path(name).stem for name in LEDGERS]
    samples = sorted(path.stem for path in (GOLDEN / "samples").glob("*.prom"))
    assert samples == sorted(Path(name).stem for name in shared_samples.NAMES)


def test_the_goldens_show_every_family() -> None:
    """Each declared family has a sample in some golden scrape, so that none goes unseen."""
    shown = {name for ledger in LEDGERS for name, _ in samples_of_own(ledger)}
    missing = [
        family.name
        for family in FAMILIES
        if family.name not in shown and not (family.kind == "histogram" and f"{family.name}_bucket" in shown)
    ]
    assert not missing


def samples_of_own(name: str) -> Samples:
    return sound_samples(*scraped((GOLDEN / name).read_bytes(), decoder_of(name)))
