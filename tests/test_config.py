"""Settings: flag over environment over file over default, and what is refused, by name and place."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import pytest

from preempt_exporter.config import SERVE_NAMES, SETTINGS, Config, Setting, add_setting_arguments, resolve
from preempt_exporter.errors import ConfigError, UnreadableInput, UsageError
from preempt_exporter.settings import LaneSettings, TaskSettings, Thresholds

OTHER_TEXTS: dict[str, tuple[str, str, str]] = {
    "task.series": ("all", "none", "worst:7"),
    "thresholds.restart-must-fit": ("false", "false", "true"),
    "lane.default": ("a", "b", "c"),
    "web.listen-address": ("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"),
    "web.config.file": ("a", "b", "c"),
    "web.page": ("all", "loopback", "all"),
    "state.file": ("a", "b", "c"),
    "watch": ("poll", "auto", "poll"),
    "log.level": ("debug", "error", "warning"),
}
"""For each setting a text for the flag, the environment and the file; numbers and durations have these below."""
NUMBERS = ("11", "12", "13")
TIMES = ("11s", "12s", "13s")


def texts_of(setting: Setting) -> tuple[str, str, str]:
    return OTHER_TEXTS.get(setting.name) or (TIMES if setting.metavar == "TIME" else NUMBERS)


def resolved(*flags: str, environ: dict[str, str] | None = None) -> Config:
    parser = ArgumentParser()
    add_setting_arguments(parser, SERVE_NAMES)
    return resolve(parser.parse_args(list(flags)), environ or {})


def written(folder: Path, text: str) -> str:
    path = folder / "config.yml"
    path.write_text(text, encoding="utf-8")
    return f"--config.file={path}"


def in_yaml(setting: Setting, text: str) -> str:
    section, _, name = setting.name.partition(".")
    return f"{section}:\n  {name}: {text}\n" if name else f"{section}: {text}\n"


def parsed(setting: Setting, text: str) -> Any:
    return (setting.parse(text),) if setting.repeatable else setting.parse(text)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_flag_over_environment_over_file_over_default(setting: Setting, tmp_path: Path) -> None:
    """Each setting takes its value from the strongest place that gives it one."""
    by_flag, by_environment, by_file = texts_of(setting)
    flag = f"--{setting.name}={by_flag}"
    environ = {setting.env: by_environment} if setting.env else {}
    file = written(tmp_path, in_yaml(setting, by_file))
    default = None if setting.default is None else parsed(setting, setting.default)

    def value(*flags: str, environ: dict[str, str] | None = None) -> Any:
        return resolved(*flags, environ=environ).values[setting.name]

    assert value() == default
    assert value(file) == parsed(setting, by_file) != default
    assert value(file, flag, environ=environ) == parsed(setting, by_flag)
    if setting.env:
        assert value(file, environ=environ) == parsed(setting, by_environment)
        assert value(file, environ={setting.env: ""}) == parsed(setting, by_file), "an empty variable sets nothing"


def test_underscores_are_hyphens_in_the_file(tmp_path: Path) -> None:
    """A key may be written either way."""
    file = written(tmp_path, "thresholds: {max_preempts: 5, queue-age-frac: 0.75}\n")
    assert resolved(file).thresholds() == Thresholds(max_preempts=5, queue_age_frac=0.75)


def test_the_defaults_are_those_of_the_records() -> None:
    """Nothing set anywhere gives exactly the records' own defaults, so that commands and library agree."""
    config = resolved()
    assert config.tasks() == TaskSettings()
    assert config.lane_settings() == LaneSettings()
    assert config.thresholds() == Thresholds()
    assert config.values["web.listen-address"] == (":9877",)


def test_what_is_set_arrives_in_the_records(tmp_path: Path) -> None:
    """Every task, lane and threshold setting changes the field it is meant for and no other."""
    config = resolved(
        "--task.series=worst:7",
        "--task.linger=1s",
        "--task.limit=8",
        "--task.abandon-after=2s",
        "--task.silent-after=3s",
        "--lane.default=spot",
        "--lane.window=4s",
        written(tmp_path, "lanes: [{name: a, prefill_tokens_per_s: 50}, {name: b}]\nthresholds: {margin-s: 1.5}\n"),
        environ={"DEADLINE_MS": "5", "TASK_BUDGET": "6", "RESTART_FRAC": "2"},
    )
    tasks = config.tasks()
    assert (tasks.series_of_worst, tasks.linger_ms, tasks.limit) == (7, 1000, 8)
    assert (tasks.abandon_after_ms, tasks.silent_after_ms) == (2000, 3000)
    assert (tasks.defaults.deadline_ms, tasks.defaults.task_budget) == (5, 6)
    lanes = LaneSettings(default="spot", names=("a", "b"), window_ms=4000, prefill_tokens_per_s={"a": 50.0})
    assert config.lane_settings() == lanes
    assert config.thresholds() == Thresholds(margin_s=1.5, restart_frac=2.0)


def test_addresses_may_be_several(tmp_path: Path) -> None:
    """`--web.listen-address` is repeatable, and a list in the file; flags replace the file's list."""
    file = written(tmp_path, "web:\n  listen-address: ['127.0.0.1:1', '[::1]:2']\n")
    assert resolved(file).values["web.listen-address"] == ("127.0.0.1:1", "[::1]:2")
    assert resolved(file, "--web.listen-address=:3", "--web.listen-address=:4").values["web.listen-address"] == (
        ":3",
        ":4",
    )


@pytest.mark.parametrize(
    "text", ["-1", "nan", "NaN", "inf", "many", "1e999", "0x10", "1_000", " 5", "٥", "1.2.3", "", " "]
)
@pytest.mark.parametrize("setting", [s for s in SETTINGS if s.env], ids=lambda setting: setting.name)
def test_what_is_no_number_is_refused_by_name(setting: Setting, text: str) -> None:
    """Negative, NaN, infinite or no number: the message names the flag or the variable it came from."""
    with pytest.raises(UsageError, match=f"^--{setting.name}: "):
        resolved(f"--{setting.name}={text}")
    if text:
        with pytest.raises(UsageError, match=f"^{setting.env}: "):
            resolved(environ={setting.env or "": text})


@pytest.mark.parametrize("text", ["0", "7", "1000000"])
@pytest.mark.parametrize("setting", [s for s in SETTINGS if s.env], ids=lambda setting: setting.name)
def test_0_and_more_than_1_are_legal(setting: Setting, text: str) -> None:
    """Fractions and counts of 0 and above, more than 1 too."""
    assert resolved(environ={setting.env or "": text}).values[setting.name] == float(text)


@pytest.mark.parametrize(
    ("content", "line", "column", "words"),
    [
        ("tasks: {}\n", 1, 1, "unknown key 'tasks' in the file; did you mean 'task'?"),
        ("task:\n  linger: 5m\n  limt: 3\n", 3, 3, "unknown key 'limt' in task; did you mean 'limit'?"),
        ("task:\n  linger: 5m\n  colour: 3\n", 3, 3, "known here: series, linger, limit"),
        ("task:\n  linger: soon\n", 2, 11, "linger: 'soon' is not a duration"),
        ("thresholds: {queue-age-frac: .nan}\n", 1, 30, "queue-age-frac: '.nan' is not a number"),
        ("thresholds: {max-preempts: -1}\n", 1, 28, "max-preempts: '-1' is not a whole number"),
        ("task:\n  limit: [1, 2]\n", 2, 10, "limit must be a single value"),
        ("task:\n  limit: 1\n  limit: 2\n", 3, 3, "'limit' stands twice"),
        ("task: 5\n", 1, 7, "task must be a mapping"),
        ("lanes: {name: a}\n", 1, 8, "lanes must be a list"),
        ("lanes:\n  - name: a\n    prefil_tokens_per_s: 5\n", 3, 5, "did you mean 'prefill_tokens_per_s'?"),
        ("lanes:\n  - name: a\n    prefill_tokens_per_s: fast\n", 3, 27, "prefill_tokens_per_s: 'fast' is not"),
        (f"lanes:\n  - name: {'x' * 65}\n", 2, 11, "name: a lane's name has 1 to 64 bytes"),
        ("lanes:\n  - prefill_tokens_per_s: 5\n", 2, 5, "every entry of lanes needs a name"),
        ("task: {limit: 1\n", 2, 1, "no valid YAML"),
        ('state:\n  file: "a\\0b"\n', 2, 9, "no valid YAML: a NUL or half of a surrogate pair"),
        ('mappings:\n  - files: a\n    when: {"\\ud83d": b}\n', 3, 12, "a NUL or half of a surrogate pair"),
    ],
)
def test_a_mistake_in_the_file_is_told_by_its_place(
    content: str, line: int, column: int, words: str, tmp_path: Path
) -> None:
    """Unknown keys, wrong values and broken YAML: file, line, column, what is wrong and what was meant."""
    with pytest.raises(ConfigError) as caught:
        resolved(written(tmp_path, content))
    assert (caught.value.line, caught.value.column) == (line, column)
    assert words in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path / 'config.yml'}:{line}:{column}: ")


def test_a_file_that_is_not_there_is_unreadable(tmp_path: Path) -> None:
    """A named configuration file must exist; an empty one sets nothing."""
    with pytest.raises(UnreadableInput, match="No such file"):
        resolved(f"--config.file={tmp_path / 'none.yml'}")
    assert resolved(written(tmp_path, "")).tasks() == TaskSettings()
