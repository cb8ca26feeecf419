"""YAML read with the place of every key at hand, so that a mistake is told by line and column."""

import difflib
import re
from pathlib import Path
from typing import Any, NoReturn

import yaml
from yaml import MarkedYAMLError

from preempt_exporter.errors import ConfigError

_NULL = "tag:yaml.org,2002:null"
_BOOL = "tag:yaml.org,2002:bool"
_NO_TEXT = re.compile(r"[\x00\ud800-\udfff]")
_TRUE_WORDS = frozenset({"true", "yes", "on"})


class _Loader(yaml.SafeLoader):
    """Refuses what escapes can write and no file name, header or key can be."""

    def compose_scalar_node(self, anchor: Any) -> yaml.ScalarNode:
        node: yaml.ScalarNode = super().compose_scalar_node(anchor)
        if _NO_TEXT.search(node.value):
            raise MarkedYAMLError(problem="a NUL or half of a surrogate pair is no text", problem_mark=node.start_mark)
        return node


class Scalar:
    """A single value of a YAML file and its place."""

    def __init__(self, node: yaml.ScalarNode, *, path: str) -> None:
        """`text` is the value as it is written; None for null."""
        self.text = None if node.tag == _NULL else str(node.value)
        self._node = node
        self._path = path

    def fail(self, message: str) -> NoReturn:
        """Raise `ConfigError` where the value stands."""
        _fail(self._path, self._node, message)


class Section:
    """A mapping of a YAML file: its keys are taken one by one, and what is left over is refused."""

    def __init__(self, node: yaml.Node | None, *, path: str, name: str) -> None:
        """`node` None or null is an empty mapping; `name` is how the section is called in messages."""
        self.path = path
        self.name = name
        self._node = node
        self._keys: dict[str, yaml.Node] = {}
        self._values: dict[str, yaml.Node] = {}
        if node is None or node.tag == _NULL:
            return
        if not isinstance(node, yaml.MappingNode):
            _fail(path, node, f"{name} must be a mapping of keys to values")
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                _fail(path, key, f"a key of {name} must be a plain word")
            if key.value in self._keys:
                _fail(path, key, f"{key.value!r} stands twice in {name}")
            self._keys[key.value] = key
            self._values[key.value] = value

    def names(self) -> list[str]:
        """The keys, in the file's order."""
        return list(self._keys)

    def has(self, key: str) -> bool:
        """Whether `key` is given and not null."""
        return key in self._values and self._values[key].tag != _NULL

    def section(self, key: str) -> "Section":
        """The mapping at `key`; empty where it is absent or null."""
        return Section(self._values.get(key), path=self.path, name=key)

    def text(self, key: str) -> str | None:
        """The scalar at `key` as it is written; None where it is absent or null."""
        if not self.has(key):
            return None
        node = self._values[key]
        if not isinstance(node, yaml.ScalarNode):
            _fail(self.path, node, f"{key} must be a single value")
        return str(node.value)

    def texts(self, key: str) -> list[str]:
        """The list of scalars at `key`."""
        if not self.has(key):
            return []
        node = self._values[key]
        if not isinstance(node, yaml.SequenceNode) or not all(isinstance(item, yaml.ScalarNode) for item in node.value):
            _fail(self.path, node, f"{key} must be a list of single values")
        return [str(item.value) for item in node.value]

    def text_or_texts(self, key: str) -> list[str]:
        """The list of scalars at `key`; a scalar alone is a list of one."""
        node = self._values.get(key)
        return self.texts(key) if isinstance(node, yaml.SequenceNode) else [self.text(key) or ""]

    def sections(self, key: str) -> "list[Section]":
        """The list of mappings at `key`."""
        if not self.has(key):
            return []
        node = self._values[key]
        if not isinstance(node, yaml.SequenceNode):
            _fail(self.path, node, f"{key} must be a list")
        return [Section(item, path=self.path, name=f"an entry of {key}") for item in node.value]

    def parts(self, key: str) -> "list[Scalar | Section]":
        """The single values and mappings that are listed at `key`; one alone is a list of one."""
        node = self._values.get(key)
        if node is None:
            return []
        return [self._part(key, part) for part in (node.value if isinstance(node, yaml.SequenceNode) else [node])]

    def _part(self, key: str, node: yaml.Node) -> "Scalar | Section":
        if isinstance(node, yaml.ScalarNode):
            return Scalar(node, path=self.path)
        return Section(node, path=self.path, name=key)

    def flag(self, key: str, *, default: bool) -> bool:
        """The boolean at `key`."""
        if not self.has(key):
            return default
        node = self._values[key]
        if node.tag != _BOOL:
            _fail(self.path, node, f"{key} must be true or false")
        return str(node.value).lower() in _TRUE_WORDS

    def choice(self, key: str, choices: tuple[str, ...]) -> str | None:
        """The scalar at `key`, one of `choices`."""
        text = self.text(key)
        if text is not None and text not in choices:
            self.fail(key, f"{key} {text!r} is none of {', '.join(choices)}")
        return text

    def refuse_unknown(self, known: tuple[str, ...]) -> None:
        """`ConfigError` for the first key that is none of `known`."""
        for key in self._keys:
            if key not in known:
                close = difflib.get_close_matches(key, known, n=1)
                hint = f"did you mean {close[0]!r}?" if close else f"known here: {', '.join(known)}"
                self.fail(key, f"unknown key {key!r} in {self.name}; {hint}", at_key=True)

    def fail(self, key: str, message: str, *, at_key: bool = False) -> NoReturn:
        """Raise `ConfigError` at the value of `key`, or at the key itself."""
        _fail(self.path, (self._keys if at_key else self._values)[key], message)

    def fail_here(self, message: str) -> NoReturn:
        """Raise `ConfigError` where the section begins; an empty one has no place."""
        if self._node is None:
            raise ConfigError(message, path=self.path)
        _fail(self.path, self._node, message)

    def place(self, key: str) -> tuple[int, int]:
        """Line and column of the value at `key`, from 1; (0, 0) where it is absent."""
        node = self._values.get(key)
        return (node.start_mark.line + 1, node.start_mark.column + 1) if node else (0, 0)

    def span(self, key: str) -> tuple[int, int]:
        """Where the value at `key` begins and ends in the file's text, in characters."""
        node = self._values[key]
        return node.start_mark.index, node.end_mark.index


def read_section(path: str) -> Section:
    """The file's one document as a section; `ConfigError` where it is no YAML mapping, `OSError` where unreadable."""
    content = Path(path).read_bytes()
    try:
        root = yaml.compose(content, Loader=_Loader)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        raise ConfigError(
            f"no valid YAML: {error.problem or error.context}", path=path, line=line, column=column
        ) from error
    except RecursionError as error:
        raise ConfigError("no valid YAML here: it is nested too deeply", path=path) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError("no valid YAML: it holds characters that YAML does not allow", path=path) from error
    return Section(root, path=path, name="the file")


def _fail(path: str, node: yaml.Node, message: str) -> NoReturn:
    mark = node.start_mark
    raise ConfigError(message, path=path, line=mark.line + 1, column=mark.column + 1)
