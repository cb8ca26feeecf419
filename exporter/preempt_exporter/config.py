"""What `serve` and its sister commands are told: flag over environment over `--config.file` over default.

Every setting is declared once, in `SETTINGS`: its flag `--section.name` is also its place in the YAML file
(`section:` with `name:` below it; `_` and `-` are the same there).
"""

import math
import os
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from preempt_exporter.durations import parse_duration_ms
from preempt_exporter.errors import UnreadableInput, UsageError
from preempt_exporter.ledger.records import MAX_EXACT_INTEGER, MAX_LANE_BYTES
from preempt_exporter.mapping_section import read_mappings
from preempt_exporter.settings import LaneSettings, MappingRule, TaskDefaults, TaskSettings, Thresholds
from preempt_exporter.yaml_section import Section, read_section


class Setting(Struct, frozen=True):
    """One thing to set. `parse` raises `ValueError` with a sentence for what it does not take."""

    name: str
    """`section.name`, as in the flag."""
    parse: Callable[[str], Any]
    default: str | None
    """As one would write it; None: unset."""
    metavar: str
    help: str
    env: str | None = None
    repeatable: bool = False


_WRITTEN_AS_NUMBER = re.compile(r"[0-9.]+(?:[eE][+-]?[0-9]+)?")
"""Python also takes underscores, white space and digits of other scripts."""


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) > MAX_EXACT_INTEGER:
        raise ValueError(f"'{text}' is not a whole number of 0 or more")
    return int(text)


def _number(text: str) -> float:
    try:
        value = float(text) if _WRITTEN_AS_NUMBER.fullmatch(text) else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"'{text}' is not a number of 0 or more")
    return value


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(f"'{text}' is neither true nor false")
    return text == "true"


def _text(text: str) -> str:
    return text


def _lane(text: str) -> str:
    if not text or len(text.encode(errors="surrogatepass")) > MAX_LANE_BYTES:
        raise ValueError(f"a lane's name has 1 to {MAX_LANE_BYTES} bytes")
    return text


def _one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"'{text}' is none of {', '.join(choices)}")
        return text

    return parse


def _series(text: str) -> int | None:
    count = text.removeprefix("worst:")
    if text == "all":
        return None
    if text == "none":
        return 0
    if count == text or not (count.isascii() and count.isdigit()):
        raise ValueError(f"'{text}' is not worst:N, all or none")
    return int(count)


SETTINGS: tuple[Setting, ...] = (
    Setting("task.series", _series, "worst:1000", "MODE", "which tasks get series: worst:N, all or none"),
    Setting("task.linger", parse_duration_ms, "5m", "TIME", "how long an ended task's totals stay in the scrape"),
    Setting("task.limit", _count, "100000", "N", "how many tasks are kept at most"),
    Setting(
        "task.abandon-after",
        parse_duration_ms,
        None,
        "TIME",
        "silence after the deadline that makes a task abandoned (default: the deadline again, at least 10m; "
        "24h without a deadline)",
    ),
    Setting(
        "task.silent-after",
        parse_duration_ms,
        None,
        "TIME",
        "silence that counts where a worker promised no next sign of life (default: never)",
    ),
    Setting(
        "task.deadline-ms", _count, None, "MS", "deadline of tasks that name none (default: unknown)", "DEADLINE_MS"
    ),
    Setting("task.budget", _count, None, "TOKENS", "budget of tasks that name none (default: unknown)", "TASK_BUDGET"),
    Setting("lane.default", _lane, "default", "LANE", "the lane of lines that name none"),
    Setting("lane.window", parse_duration_ms, "24h", "TIME", "how old an attempt may be in the lane gauges"),
    Setting(
        "thresholds.queue-age-frac", _number, "0.5", "X", "queue age over deadline that is too old", "QUEUE_AGE_FRAC"
    ),
    Setting(
        "thresholds.restart-frac", _number, "0.2", "X", "restart tokens over budget that are too many", "RESTART_FRAC"
    ),
    Setting("thresholds.max-preempts", _count, "2", "N", "preemptions that are too many", "MAX_PREEMPTS"),
    Setting(
        "thresholds.restart-must-fit",
        _truth,
        "false",
        "true|false",
        "whether a task whose restart cannot finish inside its slack is not admitted",
    ),
    Setting("thresholds.rework-max", _number, "1.5", "X", "attempts per completed job that are too many"),
    Setting("thresholds.interventions-per-100-max", _number, "5", "X", "interventions per 100 jobs that are too many"),
    Setting("thresholds.margin-s", _number, "300", "S", "seconds that required slack keeps in hand"),
    Setting(
        "web.listen-address",
        _text,
        ":9877",
        "ADDRESS",
        "where to serve, as HOST:PORT; no host means every interface, port 0 lets the system choose; repeatable",
        repeatable=True,
    ),
    Setting(
        "web.config.file",
        _text,
        None,
        "FILE",
        "TLS, client certificates and logins, in the format of Prometheus' exporters",
    ),
    Setting(
        "web.page",
        _one_of("loopback", "all"),
        "loopback",
        "WHO",
        "who may see the page and /api/v1 where no login is required: loopback or all",
    ),
    Setting("state.file", _text, None, "FILE", "where read positions and totals are kept over a restart"),
    Setting("watch", _one_of("auto", "poll"), "auto", "HOW", "how changes are noticed: auto or poll"),
    Setting(
        "log.level", _one_of("debug", "info", "warning", "error"), "info", "LEVEL", "debug, info, warning or error"
    ),
)

TASK_NAMES = tuple(s.name for s in SETTINGS if s.name.partition(".")[0] in ("task", "lane", "thresholds"))
"""What every command that folds a ledger can be told."""

SERVE_NAMES = tuple(s.name for s in SETTINGS)

EXPORT_NAMES = tuple(name for name in SERVE_NAMES if not name.startswith("web."))
"""What a command that reads like `serve` but listens nowhere can be told."""

_LANE_KEYS: Mapping[str, Callable[[str], Any]] = {
    "name": _lane,
    "prefill_tokens_per_s": _number,
    "price_in_per_million": _number,
    "price_out_per_million": _number,
}


class Config(Struct, frozen=True):
    """Everything resolved, by setting name; lanes and field mappings as the file lists them."""

    values: Mapping[str, Any]
    lanes: tuple[Mapping[str, Any], ...]
    mappings: tuple[MappingRule, ...] = ()

    def tasks(self) -> TaskSettings:
        """How lives are kept and shown."""
        values = self.values
        return TaskSettings(
            series_of_worst=values["task.series"],
            linger_ms=values["task.linger"],
            limit=values["task.limit"],
            abandon_after_ms=values["task.abandon-after"],
            silent_after_ms=values["task.silent-after"],
            defaults=TaskDefaults(deadline_ms=values["task.deadline-ms"], task_budget=values["task.budget"]),
        )

    def lane_settings(self) -> LaneSettings:
        """How lanes are named and measured."""
        return LaneSettings(
            default=self.values["lane.default"],
            names=tuple(lane["name"] for lane in self.lanes),
            window_ms=self.values["lane.window"],
            prefill_tokens_per_s={
                lane["name"]: lane["prefill_tokens_per_s"] for lane in self.lanes if "prefill_tokens_per_s" in lane
            },
        )

    def thresholds(self) -> Thresholds:
        """Where the policy draws the line."""
        named = {name: self.values[f"thresholds.{name.replace('_', '-')}"] for name in _THRESHOLD_FIELDS}
        return Thresholds(**named)


_THRESHOLD_FIELDS = tuple(
    s.name.partition(".")[2].replace("-", "_") for s in SETTINGS if s.name.startswith("thresholds.")
)


def add_setting_arguments(parser: ArgumentParser, names: Iterable[str]) -> None:
    """Declare the flags of the named settings, and `--config.file`."""
    wanted = set(names)
    for setting in SETTINGS:
        if setting.name not in wanted:
            continue
        notes = [f"default: {setting.default}"] if setting.default is not None else []
        notes += [f"environment: {setting.env}"] if setting.env else []
        note = f" ({'; '.join(notes)})" if notes else ""
        parser.add_argument(
            f"--{setting.name}",
            dest=setting.name,
            metavar=setting.metavar,
            action="append" if setting.repeatable else "store",
            help=(setting.help + note).replace("%", "%%"),
        )
    parser.add_argument("--config.file", dest="config.file", metavar="FILE", help="settings in YAML; flags win over it")


def resolve(args: Namespace, environ: Mapping[str, str] | None = None) -> Config:
    """Flag over environment over file over default. `UsageError` or `ConfigError` names what is wrong and where."""
    environ = os.environ if environ is None else environ
    path = getattr(args, "config.file", None)
    file_values, lanes, mappings = _read_file(path) if path else ({}, (), ())
    values: dict[str, Any] = {}
    for setting in SETTINGS:
        given = getattr(args, setting.name, None)
        if given is not None:
            values[setting.name] = _parsed(setting, given, f"--{setting.name}")
        elif setting.env and environ.get(setting.env):
            values[setting.name] = _parsed(setting, environ[setting.env], setting.env)
        elif setting.name in file_values:
            values[setting.name] = file_values[setting.name]
        elif setting.default is None:
            values[setting.name] = None
        else:
            values[setting.name] = _parsed(setting, setting.default, setting.name)
    return Config(values, lanes, mappings)


def _parsed(setting: Setting, given: str | list[str], origin: str) -> Any:
    try:
        if setting.repeatable:
            return tuple(setting.parse(text) for text in ([given] if isinstance(given, str) else given))
        assert isinstance(given, str)
        return setting.parse(given)
    except ValueError as error:
        raise UsageError(f"{origin}: {error}") from error


def _read_file(path: str) -> tuple[dict[str, Any], tuple[Mapping[str, Any], ...], tuple[MappingRule, ...]]:
    try:
        root = read_section(path)
    except OSError as error:
        raise UnreadableInput(path, error) from error
    values: dict[str, Any] = {}
    by_section: dict[str, dict[str, Setting]] = {}
    for setting in SETTINGS:
        group, _, name = setting.name.partition(".")
        by_section.setdefault(group, {})[name] = setting
    root.refuse_unknown((*by_section, "lanes", "mappings"))
    for section_name, settings in by_section.items():
        if "" in settings:
            _take(values, root, section_name, settings[""])
            continue
        section = root.section(section_name)
        spelt = {key.replace("_", "-"): key for key in section.names()}
        section.refuse_unknown((*settings, *(key for name, key in spelt.items() if name in settings)))
        for name, key in spelt.items():
            if name in settings:
                _take(values, section, key, settings[name])
    lanes: dict[str, Mapping[str, Any]] = {}
    for entry in root.sections("lanes"):
        lane = _lane_entry(entry)
        if lane["name"] in lanes:
            entry.fail("name", f"lane {lane['name']!r} is there twice")
        lanes[lane["name"]] = lane
    return values, tuple(lanes.values()), read_mappings(root)


def _take(values: dict[str, Any], section: Section, key: str, setting: Setting) -> None:
    if not section.has(key):
        return
    try:
        if setting.repeatable:
            values[setting.name] = tuple(setting.parse(text) for text in section.text_or_texts(key))
        else:
            values[setting.name] = setting.parse(section.text(key) or "")
    except ValueError as error:
        section.fail(key, f"{key}: {error}")


def _lane_entry(entry: Section) -> Mapping[str, Any]:
    entry.refuse_unknown(tuple(_LANE_KEYS))
    if not entry.has("name"):
        entry.fail_here("every entry of lanes needs a name")
    lane: dict[str, Any] = {}
    for key, parse in _LANE_KEYS.items():
        if entry.has(key):
            try:
                lane[key] = parse(entry.text(key) or "")
            except ValueError as error:
                entry.fail(key, f"{key}: {error}")
    return lane
