"""Rules as records, read from the pack's YAML."""

from collections.abc import Sequence
from pathlib import Path

import yaml
from msgspec import Struct

from preempt_exporter.errors import UnreadableInput


class Rule(Struct, frozen=True):
    """An alerting or a recording rule."""

    path: Path
    group: str
    name: str
    is_alert: bool
    expression: str
    keys: frozenset[str]
    hold: str = ""
    keep: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}

    @property
    def where(self) -> str:
        """File, name and, for an alert, severity: one name may stand for several rules."""
        return f"{self.path}: {self.name}" + (f" ({self.labels.get('severity')})" if self.is_alert else "")


def read_rules(paths: Sequence[Path]) -> list[Rule]:
    """Every rule of the files, in order. Raises `UnreadableInput`."""
    return [rule for path in paths for rule in _rules_of(path)]


def _rules_of(path: Path) -> list[Rule]:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        return [
            Rule(
                path=path,
                group=str(group["name"]),
                name=str(entry.get("alert") or entry["record"]),
                is_alert="alert" in entry,
                expression=str(entry["expr"]),
                keys=frozenset(entry),
                hold=str(entry.get("for", "")),
                keep=str(entry.get("keep_firing_for", "")),
                labels=dict(entry.get("labels") or {}),
                annotations=dict(entry.get("annotations") or {}),
            )
            for group in document["groups"]
            for entry in group["rules"]
        ]
    except OSError as error:
        raise UnreadableInput(str(path), error) from error
    except (yaml.YAMLError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise UnreadableInput(str(path), f"not a rule file: {error}") from error
