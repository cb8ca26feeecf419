"""Writes the pack with other values: thresholds, addresses, the job's name, and label matchers.

The committed files are the rendering with every default: rendering replaces the literals that `parameters` lists, and
nothing else, so comments and layout stay. Label matchers go into every selector of a series that is scraped; recorded
series follow from those.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from preempt_exporter.errors import UsageError, why_not_written
from preempt_exporter.rules_pack.kept_labels import labels_of_metrics
from preempt_exporter.rules_pack.matchers import why_no_matchers
from preempt_exporter.rules_pack.pack import rule_files
from preempt_exporter.rules_pack.parameters import EVERY_RULE, PARAMETERS, SELECTOR, Parameter
from preempt_exporter.rules_pack.promql import tokens

_NOT_LONGER = r"(?![\w.])"
"""Where no word follows, the value must end there: 5 is not the beginning of 50."""
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")


def rendered_pack(values: Mapping[str, str]) -> dict[str, str]:
    """The text of every rule file, by file name, with `values` in place of defaults.

    Names are those of `PARAMETERS`, and `selector`. Raises `UsageError` for a name that is none or a value that cannot
    stand there. An address that pages stand below may end in a slash or not.
    """
    values = {name: value.rstrip("/") if name == "runbook_base" else value for name, value in values.items()}
    known = {parameter.name: parameter for parameter in PARAMETERS}
    for name, value in values.items():
        if name == SELECTOR:
            why = why_no_matchers(value)
            if why is not None:
                raise UsageError(f"{name}={value}: {why}")
        elif name not in known:
            raise UsageError(f"{name} is no value of the rules; they are {', '.join([*known, SELECTOR])}")
        else:
            _refuse_unfit(known[name], value)
    return {path.name: _rendered(path.read_text(encoding="utf-8"), values, known) for path in rule_files()}


def one_file(pack: Mapping[str, str]) -> str:
    """The whole pack as one rule file."""
    bodies = [re.sub(r"(?m)^groups:\n", "", text, count=1) for text in pack.values()]
    return "groups:\n" + "\n".join(bodies)


def write_pack(pack: Mapping[str, str], folder: Path) -> None:
    """Write the files into a folder, which is made. Raises `UsageError` if that cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in pack.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--output {folder}: {why_not_written(error)}") from error


def places_of(text: str, parameter: Parameter) -> list[tuple[int, int]]:
    """Where a file's text holds the parameter's default."""
    found = []
    for place in parameter.places:
        before, _, after = (re.escape(part).replace(r"\ ", r"\s+") for part in place.words.partition("{}"))
        pattern = re.compile(f"{before}({re.escape(parameter.default)}){after or _NOT_LONGER}")
        for start, end in _rule_spans(text, place.rule):
            found += [match.span(1) for match in pattern.finditer(text, start, end)]
    return sorted(set(found))


def _rendered(text: str, values: Mapping[str, str], known: Mapping[str, Parameter]) -> str:
    for name, value in values.items():
        if name != SELECTOR:
            text = _with_value(text, known[name], value)
    # Last, whatever the order they were given in: matchers stand between a series' name and the words after it, by
    # which the places of the values are found.
    return _with_matchers(text, values[SELECTOR].strip()) if SELECTOR in values else text


def _with_value(text: str, parameter: Parameter, value: str) -> str:
    for start, end in reversed(places_of(text, parameter)):
        text = text[:start] + value + text[end:]
    return text


def _refuse_unfit(parameter: Parameter, value: str) -> None:
    if parameter.is_number and not _NUMBER.fullmatch(value):
        raise UsageError(f"{parameter.name}={value}: not a number of 0 or more")
    if not parameter.is_number and (not value.isprintable() or not value or re.search(r'["\\\s{}]', value)):
        raise UsageError(f"{parameter.name}={value}: empty, or with a quote, backslash, brace or space in it")
    if parameter.name == "dashboard_url" and re.search("[?#]", value):
        raise UsageError(f"{parameter.name}={value}: ends in a query or fragment; the rules add one of their own")


def _rule_spans(text: str, name: str) -> list[tuple[int, int]]:
    if name == EVERY_RULE:
        return [(0, len(text))]
    return [
        (entry.start_mark.index, entry.end_mark.index)
        for entry in _rule_nodes(text)
        if any(key.value in ("alert", "record") and node.value == name for key, node in entry.value)
    ]


def _with_matchers(text: str, matchers: str) -> str:
    scraped = labels_of_metrics()
    for entry in reversed(list(_rule_nodes(text))):
        expression = next(node for key, node in entry.value if key.value == "expr")
        start, end = expression.start_mark.index, expression.end_mark.index
        if expression.style == "|":
            start = text.index("\n", start)
        for token in reversed(list(tokens(text[start:end]))):
            if token.kind == "name" and token.text in scraped:
                at = start + token.end
                is_open = text.startswith("{", at)
                text = text[:at] + (f"{{{matchers}," if is_open else f"{{{matchers}}}") + text[at + is_open :]
    return text


def _rule_nodes(text: str) -> Iterator[yaml.MappingNode]:
    document = yaml.compose(text)
    assert document is not None, "a rule file of the pack is never empty"
    for _, groups in document.value:
        for group in groups.value:
            for key, rules in group.value:
                if key.value == "rules":
                    yield from rules.value
