"""Where an Alertmanager's configuration sends an alert: its routing tree, matched as Alertmanager matches it.

After Alertmanager's documentation of `route`: depth first, the first child that matches wins unless it says `continue`,
and a node that none of its children matches takes the alert itself. Matchers come in three spellings.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml
from msgspec import Struct

from preempt_exporter.errors import UnreadableInput

_MATCHER = re.compile(r'\s*([a-zA-Z_:][\w:.-]*)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*"|[^",{}]*?)\s*(?:,|$)')


class Reached(Struct, frozen=True):
    """A receiver, and whether a route chose it (`by_route`) or nothing else matched and the root kept the alert."""

    receiver: str
    by_route: bool


def read_routes(text: str, where: str) -> dict[str, Any]:
    """The root route of a configuration. Raises `UnreadableInput`."""
    try:
        route = yaml.safe_load(text)["route"]
    except (yaml.YAMLError, TypeError, KeyError) as error:
        raise UnreadableInput(where, f"not an Alertmanager configuration: {error}") from error
    if not isinstance(route, dict):
        raise UnreadableInput(where, "not an Alertmanager configuration: no route in it")
    return route


def receivers_reached(root: Mapping[str, Any], labels: Mapping[str, str]) -> list[Reached]:
    """The receivers that an alert with these labels reaches, in order."""
    return list(_reached(root, labels, str(root.get("receiver", "")), is_root=True))


def _reached(route: Mapping[str, Any], labels: Mapping[str, str], receiver: str, *, is_root: bool) -> Iterator[Reached]:
    receiver = str(route.get("receiver") or receiver)
    found = False
    for child in route.get("routes") or ():
        if _matches(child, labels):
            found = True
            yield from _reached(child, labels, receiver, is_root=False)
            if not child.get("continue"):
                break
    if not found:
        yield Reached(receiver, not is_root)


def _matches(route: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    conditions = [(name, "=", str(value)) for name, value in (route.get("match") or {}).items()]
    conditions += [(name, "=~", str(value)) for name, value in (route.get("match_re") or {}).items()]
    conditions += [found for text in route.get("matchers") or () for found in _parsed(str(text))]
    return all(_holds(labels.get(name, ""), operator, value) for name, operator, value in conditions)


def _parsed(text: str) -> Iterator[tuple[str, str, str]]:
    inside = text.strip().removeprefix("{").removesuffix("}")
    for found in _MATCHER.finditer(inside):
        value = found.group(3)
        yield found.group(1), found.group(2), re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value


def _holds(actual: str, operator: str, value: str) -> bool:
    if operator in ("=~", "!~"):
        return (re.fullmatch(value, actual) is not None) is (operator == "=~")
    return (actual == value) is (operator == "=")
