"""YAML in which every value knows its line and column, so that a mistake is pointed at and not searched for."""

import math
from collections.abc import Collection
from pathlib import Path

import yaml

from preempt_exporter.errors import ConfigError, UnreadableInput


class PlacedValue:
    """One node of a YAML document."""

    def __init__(self, node: yaml.Node, path: str, name: str) -> None:
        """`name` is the dotted way from the top, for messages."""
        self._node = node
        self._path = path
        self.name = name

    def error(self, message: str) -> ConfigError:
        """A `ConfigError` at this value's place."""
        mark = self._node.start_mark
        return ConfigError(message, path=self._path, line=mark.line + 1, column=mark.column + 1)

    def mapping(self, known: Collection[str]) -> dict[str, "PlacedValue"]:
        """The keys of a mapping; one that is not `known`, or stands twice, is refused where it stands."""
        node = self._node
        if not isinstance(node, yaml.MappingNode):
            raise self.error(f"{self.name} must be a mapping of {', '.join(known)}")
        values: dict[str, PlacedValue] = {}
        for key_node, value_node in node.value:
            key = PlacedValue(key_node, self._path, self.name)
            name = key_node.value if isinstance(key_node, yaml.ScalarNode) else "this"
            if name not in known:
                raise key.error(f"unknown key {name!r} in {self.name}; known are {', '.join(known)}")
            if name in values:
                raise key.error(f"{name} stands twice in {self.name}")
            values[name] = PlacedValue(value_node, self._path, f"{self.name}.{name}".removeprefix("the file."))
        return values

    def sequence(self) -> list["PlacedValue"]:
        """The items of a list."""
        node = self._node
        if not isinstance(node, yaml.SequenceNode):
            raise self.error(f"{self.name} must be a list")
        return [PlacedValue(item, self._path, f"{self.name}[{index}]") for index, item in enumerate(node.value)]

    def text(self) -> str:
        """A text that is not empty; a number is read as its text."""
        value = self._scalar()
        if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
            raise self.error(f"{self.name} must be a text that is not empty")
        return str(value)

    def truth(self) -> bool:
        """`true` or `false`."""
        value = self._scalar()
        if not isinstance(value, bool):
            raise self.error(f"{self.name} must be true or false, not {self._shown()}")
        return value

    def whole(self, *, least: int = 0) -> int:
        """A whole number of `least` and above."""
        value = self._scalar()
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.error(f"{self.name} must be a whole number of {least} or more, not {self._shown()}")
        return value

    def number(self) -> float:
        """A finite number of 0 and above."""
        value = self._scalar()
        if isinstance(value, bool) or not isinstance(value, int | float) or not (math.isfinite(value) and value >= 0):
            raise self.error(f"{self.name} must be a number of 0 or more, not {self._shown()}")
        return float(value)

    def _scalar(self) -> object:
        if not isinstance(self._node, yaml.ScalarNode):
            return None
        try:
            return yaml.SafeLoader("").construct_object(self._node)
        except (yaml.YAMLError, ValueError) as error:
            raise self.error(f"{self.name} cannot be read: {' '.join(str(error).split())}") from error

    def _shown(self) -> str:
        return repr(self._node.value) if isinstance(self._node, yaml.ScalarNode) else "a collection"


def read_placed_yaml(path: str | Path) -> PlacedValue:
    """The document in a file. Raises `UnreadableInput`, or `ConfigError` at the place where it is no YAML."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UnreadableInput(str(path), error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise ConfigError("not UTF-8", path=str(path)) from error
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        raise ConfigError(f"not YAML: {error.problem}", path=str(path), line=line, column=column) from error
    except yaml.YAMLError as error:
        raise ConfigError(f"not YAML: {' '.join(str(error).split())}", path=str(path)) from error
    except RecursionError as error:
        raise ConfigError("nested too deep", path=str(path)) from error
    if node is None:
        raise ConfigError("is empty; it needs a 'router:' section", path=str(path))
    return PlacedValue(node, str(path), "the file")
