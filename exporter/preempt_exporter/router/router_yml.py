"""`router.yml`: lanes in order of preference, what a cheap lane asks of a job, and the table's thresholds.

    router:
      lanes:
        - name: free
          max_attempts: 2
          checkpoint: required
          idempotency_key: "{{ job_id }}"
          budget_tokens: 5000000
        - name: paid
      admission:
        require_slack_s: 3600
        require_checkpoint: true
      thresholds:
        completed_jobs_min: 20

The last lane is the paid one. Only `router.lanes` with a `name` each is required. `router.thresholds` are those of the
table alone (`RoutingThresholds`); the ones that it shares with policy and alerts are settings of the program.
"""

import math
import re
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from preempt_exporter.decide.routing import RoutingPolicy
from preempt_exporter.errors import UnreadableInput, UsageError
from preempt_exporter.ledger.records import MAX_EXACT_INTEGER, MAX_LANE_BYTES
from preempt_exporter.settings import RoutingThresholds, Thresholds
from preempt_exporter.yaml_section import Section, read_section

FREE_LANE = "free"
FREE_LANE_MAX_ATTEMPTS = 2
FREE_LANE_BUDGET_TOKENS = 5_000_000

DEFAULT_THRESHOLDS = Thresholds()

_COUNTS = ("host_preempts_max", "completed_jobs_min")
_PLACEHOLDER = re.compile(r"\{\{\s*(.*?)\s*\}\}")
_KEY_FIELDS = ("job_id", "run", "lane")


class LaneConfig(Struct, frozen=True, kw_only=True):
    """One lane of `router.lanes`."""

    name: str
    max_attempts: int | None = None
    """Dispatches of one job in this lane; None: no limit."""
    checkpoint_required: bool = False
    idempotency_key: str | None = None
    """With `{{ job_id }}`, `{{ run }}`, `{{ lane }}` to be filled in; None: as in the first lane that has one."""
    budget_tokens: int | None = None
    """Tokens that all attempts in the lane may use together; None: no limit."""

    def idempotency_key_for(self, job_id: str, run: str | None) -> str | None:
        """The key under which a side effect of the job happens once; the same for each of its attempts."""
        if self.idempotency_key is None:
            return None
        fields = {"job_id": job_id, "run": run or "", "lane": self.name}
        return _PLACEHOLDER.sub(lambda found: fields[found.group(1)], self.idempotency_key)


class RouterConfig(Struct, frozen=True, kw_only=True):
    """All of `router.yml`."""

    lanes: tuple[LaneConfig, ...]
    policy: RoutingPolicy

    def idempotency_key_for(self, job_id: str, run: str | None) -> str | None:
        """The job's key by the first lane that gives one; None: jobs must bring idempotency themselves.

        It goes along to lanes that give none. A job that published in one lane and lost its slot before it could say
        so would otherwise publish again in the next.
        """
        keys = (lane.idempotency_key_for(job_id, run) for lane in self.lanes)
        return next((key for key in keys if key is not None), None)


def read_router_yml(
    path: str, environment: Mapping[str, str], *, thresholds: Thresholds = DEFAULT_THRESHOLDS
) -> RouterConfig:
    """Read the file and put `FREE_LANE_MAX_ATTEMPTS` and `FREE_LANE_BUDGET_TOKENS` of `environment` over it.

    The two hold for the lane called `free`; where neither file nor environment says, they are 2 and 5,000,000.
    `thresholds` are those shared with the policy. Raises `ConfigError` with line and column for an unknown key or a
    bad value, `UnreadableInput`, or `UsageError` for a variable that is no number.
    """
    try:
        file = read_section(path)
    except OSError as error:
        raise UnreadableInput(path, error) from error
    file.refuse_unknown(("router",))
    if not file.has("router"):
        file.fail_here("needs a 'router:' section with its lanes")
    router = file.section("router")
    router.refuse_unknown(("lanes", "admission", "thresholds"))
    entries = router.sections("lanes")
    if not entries:
        router.fail_here("router.lanes is required: a list of lanes, the paid one last")
    lanes: list[LaneConfig] = []
    for entry in entries:
        lane = _lane(entry)
        if any(lane.name == other.name for other in lanes):
            entry.fail("name", f"lane {lane.name!r} is there twice")
        lanes.append(with_free_lane_limits(lane, environment))
    return RouterConfig(lanes=tuple(lanes), policy=_policy(router, thresholds))


def _lane(entry: Section) -> LaneConfig:
    entry.refuse_unknown(("name", "max_attempts", "checkpoint", "idempotency_key", "budget_tokens"))
    name = entry.text("name")
    if not name:
        entry.fail_here("every entry of lanes needs a name")
    if len(name.encode(errors="surrogatepass")) > MAX_LANE_BYTES:
        entry.fail("name", f"a lane's name has at most {MAX_LANE_BYTES} bytes")
    return LaneConfig(
        name=name,
        max_attempts=_whole(entry, "max_attempts", least=1),
        checkpoint_required=entry.choice("checkpoint", ("required", "optional")) == "required",
        idempotency_key=_idempotency_key(entry),
        budget_tokens=_whole(entry, "budget_tokens", least=0),
    )


def _idempotency_key(entry: Section) -> str | None:
    key = entry.text("idempotency_key")
    if key is None:
        return None
    fields = _PLACEHOLDER.findall(key)
    for field in fields:
        if field not in _KEY_FIELDS:
            entry.fail("idempotency_key", f"idempotency_key knows {', '.join(_KEY_FIELDS)}, not {field!r}")
    if "job_id" not in fields:
        entry.fail("idempotency_key", "idempotency_key must hold '{{ job_id }}', or all jobs would share one key")
    return key


def _policy(router: Section, thresholds: Thresholds) -> RoutingPolicy:
    admission = router.section("admission")
    admission.refuse_unknown(("require_slack_s", "require_checkpoint"))
    section = router.section("thresholds")
    section.refuse_unknown(RoutingThresholds.__struct_fields__)
    own: dict[str, float | int] = {}
    for name in section.names():
        value = _whole(section, name, least=1) if name in _COUNTS else _number(section, name)
        if value is not None:
            own[name] = value
    return RoutingPolicy(
        thresholds=thresholds,
        routing=replace(RoutingThresholds(), **own),
        require_slack_s=_number(admission, "require_slack_s"),
        require_checkpoint=admission.flag("require_checkpoint", default=True),
    )


def _number(section: Section, key: str) -> float | None:
    text = section.text(key)
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        section.fail(key, f"{key} must be a number of 0 or more, not {text!r}")
    return value


def _whole(section: Section, key: str, *, least: int) -> int | None:
    text = section.text(key)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or not least <= int(text) <= MAX_EXACT_INTEGER:
        section.fail(key, f"{key} must be a whole number of {least} or more, not {text!r}")
    return int(text)


def with_free_lane_limits(lane: LaneConfig, environment: Mapping[str, str]) -> LaneConfig:
    """The lane under `FREE_LANE_MAX_ATTEMPTS` and `FREE_LANE_BUDGET_TOKENS`, or their defaults, if it is `free`.

    0 closes the lane to every job. Raises `UsageError` for a variable that is no number.
    """
    if lane.name != FREE_LANE:
        return lane
    attempts = _whole_variable(environment, "FREE_LANE_MAX_ATTEMPTS")
    tokens = _whole_variable(environment, "FREE_LANE_BUDGET_TOKENS")
    if attempts is None:
        attempts = FREE_LANE_MAX_ATTEMPTS if lane.max_attempts is None else lane.max_attempts
    if tokens is None:
        tokens = FREE_LANE_BUDGET_TOKENS if lane.budget_tokens is None else lane.budget_tokens
    return replace(lane, max_attempts=attempts, budget_tokens=tokens)


def _whole_variable(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 100 or int(text) > MAX_EXACT_INTEGER:
        raise UsageError(f"{name} must be a whole number of 0 or more, at most 2^53, not {text!r}")
    return int(text)
