"""`router.yml`: what it says is what holds, and every mistake is pointed at."""

from pathlib import Path

import pytest

from preempt_exporter.errors import ConfigError, UnreadableInput, UsageError
from preempt_exporter.router.router_yml import RouterConfig, read_router_yml

GOOD = """\
router:
  lanes:
    - name: free
      max_attempts: 3
      checkpoint: required
      idempotency_key: "{{ run }}/{{job_id}}"
      budget_tokens: 1000
    - name: paid
  admission:
    require_slack_s: 3600
    require_checkpoint: false
  thresholds:
    completed_jobs_min: 5
    prompt_to_output_max: 2.5
"""


def read(tmp_path: Path, text: str, **environment: str) -> RouterConfig:
    """The configuration that `text` says."""
    path = tmp_path / "router.yml"
    path.write_text(text)
    return read_router_yml(str(path), environment)


def test_every_key_is_read(tmp_path: Path) -> None:
    """Lanes in order, admission and thresholds."""
    config = read(tmp_path, GOOD)
    free, paid = config.lanes
    assert (free.name, free.max_attempts, free.checkpoint_required, free.budget_tokens) == ("free", 3, True, 1000)
    assert (paid.max_attempts, paid.checkpoint_required, paid.budget_tokens) == (None, False, None)
    assert (config.policy.require_slack_s, config.policy.require_checkpoint) == (3600.0, False)
    routing = config.policy.routing
    assert (routing.completed_jobs_min, routing.prompt_to_output_max, routing.host_preempts_max) == (5, 2.5, 2)


def test_the_key_is_filled_in_by_plain_substitution(tmp_path: Path) -> None:
    """Every attempt of a job gets the same key; braces of another kind stay as they are."""
    free = read(tmp_path, GOOD).lanes[0]
    assert free.idempotency_key_for("b-1", "r7") == "r7/b-1"
    assert free.idempotency_key_for("{{ run }}", None) == "/{{ run }}"


def test_the_free_lane_has_limits_by_default_and_by_environment(tmp_path: Path) -> None:
    """Environment over file over 2 attempts and 5,000,000 tokens; other lanes have none."""
    bare = "router: {lanes: [{name: free}, {name: paid}]}"
    free, paid = read(tmp_path, bare).lanes
    assert (free.max_attempts, free.budget_tokens, paid.max_attempts) == (2, 5_000_000, None)
    free, paid = read(tmp_path, GOOD, FREE_LANE_MAX_ATTEMPTS="7", FREE_LANE_BUDGET_TOKENS="9").lanes
    assert (free.max_attempts, free.budget_tokens, paid.max_attempts) == (7, 9, None)
    free, _ = read(tmp_path, GOOD, FREE_LANE_MAX_ATTEMPTS="0", FREE_LANE_BUDGET_TOKENS="0").lanes
    assert (free.max_attempts, free.budget_tokens) == (0, 0), "counts of 0 are legal: the lane is closed"


@pytest.mark.parametrize(
    "environment",
    [
        {"FREE_LANE_MAX_ATTEMPTS": "-1"},
        {"FREE_LANE_MAX_ATTEMPTS": "two"},
        {"FREE_LANE_BUDGET_TOKENS": "1.5"},
        {"FREE_LANE_BUDGET_TOKENS": "9" * 5000},
    ],
)
def test_a_variable_that_is_no_number_is_refused_by_name(tmp_path: Path, environment: dict[str, str]) -> None:
    """The message names the variable."""
    with pytest.raises(UsageError, match=next(iter(environment))):
        read(tmp_path, GOOD, **environment)


@pytest.mark.parametrize(
    ("old", "new", "line", "column", "words"),
    [
        ("max_attempts: 3", "max_atempts: 3", 4, 7, "max_atempts"),
        ("max_attempts: 3", "max_attempts: 0", 4, 21, "1 or more"),
        ("max_attempts: 3", "max_attempts: 1.5", 4, 21, "whole number"),
        ("max_attempts: 3", "max_attempts: true", 4, 21, "whole number"),
        ("checkpoint: required", "checkpoint: maybe", 5, 19, "'maybe'"),
        ("{{job_id}}", "{{ user }}", 6, 24, "'user'"),
        ("{{job_id}}", "x", 6, 24, "must hold"),
        ("budget_tokens: 1000", "budget_tokens: -1", 7, 22, "0 or more"),
        ("name: paid", "name: free", 8, 13, "twice"),
        ("name: paid", "checkpoint: optional", 8, 7, "needs a name"),
        ("name: paid", "name: ''", 8, 7, "needs a name"),
        ("name: paid", "name: " + "x" * 65, 8, 13, "at most 64"),
        ("require_slack_s: 3600", "require_slack_s: 1h", 10, 22, "require_slack_s"),
        ("require_slack_s: 3600", "require_slack_s: .nan", 10, 22, "0 or more"),
        ("require_checkpoint: false", "require_checkpoint: 0", 11, 25, "true or false"),
        ("completed_jobs_min: 5", "completed_jobs: 5", 13, 5, "'completed_jobs'"),
        ("completed_jobs_min: 5", "prompt_to_output_max: 5", 14, 5, "twice"),
        ("router:\n", "router: [\n", 3, 5, "no valid YAML"),
    ],
)
def test_a_mistake_is_refused_with_line_and_column(
    tmp_path: Path, old: str, new: str, line: int, column: int, words: str
) -> None:
    """Unknown keys at the key, bad values at the value."""
    assert old in GOOD
    with pytest.raises(ConfigError, match=words) as refused:
        read(tmp_path, GOOD.replace(old, new))
    assert (refused.value.line, refused.value.column) == (line, column)


def test_a_file_nested_without_end_is_refused(tmp_path: Path) -> None:
    """It says what is wrong instead of running out of stack."""
    with pytest.raises(ConfigError, match="nested too deeply"):
        read(tmp_path, "router: " + "[" * 3000 + "]" * 3000)


@pytest.mark.parametrize(
    "text", ["", "router:", "router: {}", "router: {lanes: []}", "router: {lanes: 3}", "- 1", "a: 1"]
)
def test_a_file_without_lanes_is_refused(tmp_path: Path, text: str) -> None:
    """Nothing, or something else, is no router."""
    with pytest.raises(ConfigError):
        read(tmp_path, text)


def test_a_file_that_is_not_there_is_unreadable(tmp_path: Path) -> None:
    """The path is named."""
    with pytest.raises(UnreadableInput, match=r"none\.yml"):
        read_router_yml(str(tmp_path / "none.yml"), {})


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    """A binary file gives one sentence, not a traceback."""
    path = tmp_path / "router.yml"
    path.write_bytes(b"\xff\xfe\x00router")
    with pytest.raises(ConfigError):
        read_router_yml(str(path), {})
    path.write_text("router: \x07")
    with pytest.raises(ConfigError):
        read_router_yml(str(path), {})
