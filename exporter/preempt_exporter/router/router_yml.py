"""`router.yml`: lanes in order of preference, what a cheap lane asks of a job, and the table's thresholds.

    router:
      lanes:
        - name: free
          max_attempts: 2
          checkpoint: required
          idempotency_key: "{{ job_id }}"
          budget_tokens: 5000000
          price_per_million_tokens: {in: 0.10, out: 0.40}
        - name: paid
      admission:
        require_slack_s: 3600
        require_checkpoint: true
      thresholds:
        rework_max: 1.5

The last lane is the paid one. Only `router.lanes` with a `name` each is required.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from preempt_exporter.decide.routing import RoutingPolicy
from preempt_exporter.decide.token_price import TokenPrice
from preempt_exporter.errors import UsageError
from preempt_exporter.ledger.records import MAX_LANE_BYTES
from preempt_exporter.router.placed_yaml import PlacedValue, read_placed_yaml
from preempt_exporter.settings import RoutingThresholds, Thresholds

FREE_LANE = "free"
FREE_LANE_MAX_ATTEMPTS = 2
FREE_LANE_BUDGET_TOKENS = 5_000_000

_LANE_KEYS = (
    "name",
    "max_attempts",
    "checkpoint",
    "idempotency_key",
    "budget_tokens",
    "price_per_million_tokens",
)
_SHARED_THRESHOLDS = ("queue_age_frac", "rework_max", "interventions_per_100_max", "margin_s")
_PLACEHOLDER = re.compile(r"\{\{\s*(.*?)\s*\}\}")
_KEY_FIELDS = ("job_id", "run", "lane")


class LaneConfig(Struct, frozen=True, kw_only=True):
    """One lane of `router.lanes`."""

    name: str
    max_attempts: int | None = None
    """Dispatches of one job in this lane; None: no limit."""
    checkpoint_required: bool = False
    idempotency_key: str | None = None
    """With `{{ job_id }}`, `{{ run }}`, `{{ lane }}` to be filled in; None: jobs must bring idempotency themselves."""
    budget_tokens: int | None = None
    """Tokens that all attempts in the lane may use together; None: no limit."""
    price: TokenPrice | None = None

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


def read_router_yml(path: str | Path, environment: Mapping[str, str]) -> RouterConfig:
    """Read the file and put `FREE_LANE_MAX_ATTEMPTS` and `FREE_LANE_BUDGET_TOKENS` of `environment` over it.

    The two hold for the lane called `free`; where neither file nor environment says, they are 2 and 5,000,000. Raises
    `ConfigError` with line and column for an unknown key or a bad value, `UnreadableInput`, or `UsageError` for a
    variable that is no number.
    """
    top = read_placed_yaml(path)
    sections = top.mapping(("router",))
    if "router" not in sections:
        raise top.error("needs a 'router:' section")
    router = sections["router"]
    parts = router.mapping(("lanes", "admission", "thresholds"))
    if "lanes" not in parts:
        raise router.error("router.lanes is required: a list of lanes, the paid one last")
    return RouterConfig(lanes=_lanes(parts["lanes"], environment), policy=_policy(parts))


def _lanes(value: PlacedValue, environment: Mapping[str, str]) -> tuple[LaneConfig, ...]:
    lanes: list[LaneConfig] = []
    for item in value.sequence():
        lane = _lane(item)
        if any(lane.name == other.name for other in lanes):
            raise item.error(f"lane {lane.name!r} is there twice")
        lanes.append(_with_environment(lane, environment) if lane.name == FREE_LANE else lane)
    if not lanes:
        raise value.error("router.lanes needs at least one lane")
    return tuple(lanes)


def _lane(item: PlacedValue) -> LaneConfig:
    keys = item.mapping(_LANE_KEYS)
    if "name" not in keys:
        raise item.error(f"{item.name}.name is required")
    name = keys["name"].text()
    if len(name.encode()) > MAX_LANE_BYTES:
        raise keys["name"].error(f"{item.name}.name is longer than {MAX_LANE_BYTES} bytes")
    return LaneConfig(
        name=name,
        max_attempts=keys["max_attempts"].whole(least=1) if "max_attempts" in keys else None,
        checkpoint_required="checkpoint" in keys and _checkpoint_required(keys["checkpoint"]),
        idempotency_key=_idempotency_key(keys["idempotency_key"]) if "idempotency_key" in keys else None,
        budget_tokens=keys["budget_tokens"].whole() if "budget_tokens" in keys else None,
        price=_price(keys["price_per_million_tokens"]) if "price_per_million_tokens" in keys else None,
    )


def _checkpoint_required(value: PlacedValue) -> bool:
    word = value.text()
    if word not in ("required", "optional"):
        raise value.error(f"{value.name} must be 'required' or 'optional', not {word!r}")
    return word == "required"


def _idempotency_key(value: PlacedValue) -> str:
    key = value.text()
    fields = _PLACEHOLDER.findall(key)
    for field in fields:
        if field not in _KEY_FIELDS:
            raise value.error(f"{value.name} knows {', '.join(_KEY_FIELDS)}, not {field!r}")
    if "job_id" not in fields:
        raise value.error(f"{value.name} must hold '{{{{ job_id }}}}', or all jobs would share one key")
    return key


def _price(value: PlacedValue) -> TokenPrice:
    keys = value.mapping(("in", "out"))
    for direction in ("in", "out"):
        if direction not in keys:
            raise value.error(f"{value.name}.{direction} is required")
    return TokenPrice(per_million_in=keys["in"].number(), per_million_out=keys["out"].number())


def _policy(parts: Mapping[str, PlacedValue]) -> RoutingPolicy:
    policy = RoutingPolicy()
    if "admission" in parts:
        keys = parts["admission"].mapping(("require_slack_s", "require_checkpoint"))
        if "require_slack_s" in keys:
            policy = replace(policy, require_slack_s=keys["require_slack_s"].number())
        if "require_checkpoint" in keys:
            policy = replace(policy, require_checkpoint=keys["require_checkpoint"].truth())
    if "thresholds" in parts:
        own = RoutingThresholds.__struct_fields__
        keys = parts["thresholds"].mapping((*_SHARED_THRESHOLDS, *own))
        values = {
            name: value.whole(least=1) if name in ("host_preempts_max", "completed_jobs_min") else value.number()
            for name, value in keys.items()
        }
        policy = replace(
            policy,
            thresholds=replace(Thresholds(), **{name: values[name] for name in values if name not in own}),
            routing=replace(RoutingThresholds(), **{name: values[name] for name in values if name in own}),
        )
    return policy


def _with_environment(lane: LaneConfig, environment: Mapping[str, str]) -> LaneConfig:
    attempts = _whole_variable(environment, "FREE_LANE_MAX_ATTEMPTS", least=1)
    tokens = _whole_variable(environment, "FREE_LANE_BUDGET_TOKENS", least=0)
    if attempts is None:
        attempts = FREE_LANE_MAX_ATTEMPTS if lane.max_attempts is None else lane.max_attempts
    if tokens is None:
        tokens = FREE_LANE_BUDGET_TOKENS if lane.budget_tokens is None else lane.budget_tokens
    return replace(lane, max_attempts=attempts, budget_tokens=tokens)


def _whole_variable(environment: Mapping[str, str], name: str, *, least: int) -> int | None:
    text = environment.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise UsageError(f"{name} must be a whole number of {least} or more, not {text!r}")
    return int(text)
