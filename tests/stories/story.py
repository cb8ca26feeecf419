"""A story: ledger lines in time, through the exporter's own scrape, into promtool with the whole rules pack.

Time starts at 0, as promtool's does, so that `time()` and the exporter's timestamps agree. A scrape that does not
happen leaves what Prometheus would leave: `up` is 0 and every other series is stale.
"""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml
from msgspec.structs import replace

from preempt_exporter.ledger.decode import decode_chunk
from preempt_exporter.metrics.scrape import Scrape
from preempt_exporter.metrics.self_samples import Reading
from preempt_exporter.promtool import find_promtool
from preempt_exporter.rules_pack.pack import rule_files
from preempt_exporter.rules_pack.promql import parse, selectors
from preempt_exporter.settings import LaneSettings, TaskSettings, Thresholds
from preempt_exporter.state.watched import Watched

TARGET = 'cluster="eu",job="preempt-exporter",instance="pinned:9877"'
CAUGHT_UP = Reading(ready=True, files=1, avail_bytes=50_000_000_000)


class Story:
    """Tell it line by line with `write`, scrape by scrape with `until`; then ask which alerts fire when."""

    def __init__(self, folder: Path, every_s: int = 15, lanes: tuple[str, ...] = ("free",)) -> None:
        """Scrapes and evaluations come every `every_s` seconds."""
        self.folder = folder
        self.every_s = every_s
        self.lanes = lanes
        self.reading = CAUGHT_UP
        self.is_up = True
        self.ledger: list[bytes] = []
        self.scrapes: list[dict[str, str]] = []
        self.start()

    def start(self) -> None:
        """Start the exporter, or start it anew without a state file: it reads the ledger from its first byte."""
        self.watched = Watched(TaskSettings(), LaneSettings(names=self.lanes))
        self.scrape = Scrape(self.watched, Thresholds(), "story")
        for line in self.ledger:
            self._fold(line, self.now_ms)

    @property
    def now_ms(self) -> int:
        """The moment of the next scrape."""
        return len(self.scrapes) * self.every_s * 1000

    def write(self, event: str, task_id: str, ts_ms: int, **fields: Any) -> None:
        """Append one line of lane `free` to the ledger."""
        self.append(json.dumps({"event": event, "task_id": task_id, "ts_ms": ts_ms, "lane": "free", **fields}))

    def append(self, text: str) -> None:
        """Append any line, good or bad."""
        line = text.encode() + b"\n"
        self.ledger.append(line)
        if self.is_up:
            self._fold(line, self.now_ms)

    def until(self, moment_s: int, each_scrape: Callable[[int], None] | None = None) -> None:
        """Scrape up to and with `moment_s`; before each, `each_scrape` is given its moment in milliseconds."""
        while len(self.scrapes) * self.every_s <= moment_s:
            if each_scrape is not None:
                each_scrape(self.now_ms)
            self.scrapes.append(self._scraped())

    def firing(self, *moments_s: int) -> list[set[str]]:
        """At each moment, what fires: `Alert severity` of every firing alert, by the real promtool."""
        names = [str(rule["alert"]) for rule in self._rules() if "alert" in rule]
        expression = 'count by (alertname, severity) (ALERTS{alertstate="firing"})'
        checks = [
            {"expr": expression, "eval_time": f"{moment}s", "exp_samples": [{"labels": '{never="so"}', "value": 1}]}
            for moment in moments_s
        ]
        document = {
            "rule_files": [str(path) for path in rule_files()],
            "evaluation_interval": f"{self.every_s}s",
            "tests": [{"interval": f"{self.every_s}s", "input_series": self._series(), "promql_expr_test": checks}],
        }
        path = self.folder / "story.yml"
        path.write_text(yaml.dump(document, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), width=10**9))
        done = subprocess.run(
            [find_promtool(os.environ), "test", "rules", str(path)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        found = [set[str]() for _ in moments_s]
        got = [line for line in (done.stdout + done.stderr).splitlines() if line.strip().startswith("got:")]
        assert len(got) == len(moments_s), done.stdout + done.stderr
        for place, line in enumerate(got):
            for name in names:
                for severity in ("page", "ticket"):
                    if f'{{alertname="{name}", severity="{severity}"}}' in line:
                        found[place].add(f"{name} {severity}")
        return found

    def _fold(self, line: bytes, now_ms: int) -> None:
        decoded = decode_chunk(line, at_file_start=False)
        counts = self.watched.figures.counts
        counts.lines += decoded.lines
        for bad in decoded.bad:
            counts.errors[bad.reason] += 1
        self.watched.fold(decoded.records, "story.jsonl", now_ms)

    def _scraped(self) -> dict[str, str]:
        if not self.is_up:
            return {f"up{{{TARGET}}}": "0"}
        samples = {f"up{{{TARGET}}}": "1"}
        text = self.scrape.text(self.reading, self.now_ms, openmetrics=False)
        for line in text.splitlines():
            if not line.startswith("#"):
                series, value = line.rsplit(" ", 1)
                name, _, labels = series.partition("{")
                samples[f"{name}{{{TARGET}{',' if labels else ''}{labels.rstrip('}')}}}"] = value
        return samples

    def _series(self) -> list[dict[str, str]]:
        read = {selector.metric for rule in self._rules() for selector in selectors(parse(str(rule["expr"])))}
        names = sorted({name for scrape in self.scrapes for name in scrape if name.partition("{")[0] in read})
        return [{"series": name, "values": " ".join(self._values(name))} for name in names]

    def _values(self, name: str) -> Iterator[str]:
        was_there = False
        for scrape in self.scrapes:
            if name in scrape:
                yield scrape[name]
            else:
                yield "stale" if was_there else "_"
            was_there = name in scrape

    def _rules(self) -> list[dict[str, Any]]:
        return [
            rule
            for path in rule_files()
            for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
            for rule in group["rules"]
        ]


def without_room(reading: Reading) -> Reading:
    """The same reading on a full disk."""
    return replace(reading, avail_bytes=0)


def pages(firing: set[str]) -> set[str]:
    """The pages among what fires, by alert."""
    return {name.removesuffix(" page") for name in firing if name.endswith(" page")}
