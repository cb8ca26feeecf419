"""Label matchers as an operator writes them for every selector of the pack."""

import re

from preempt_exporter.rules_pack.re2 import is_re2

_ESCAPE = r"\\(?:[abfnrtv\\\"]|[0-3][0-7]{2}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4})"
_MATCHER = rf'([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*"((?:[^"\\\s#]|{_ESCAPE})*)"'
_ONE = re.compile(_MATCHER)
_ALL = re.compile(rf"\s*{_MATCHER}(?:\s*,\s*{_MATCHER})*\s*")
_NAMED_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", '"': '"'}


def why_no_matchers(text: str) -> str | None:
    """Why `text` cannot stand between the braces of a selector, and what can; None: it can.

    In a value white space, `#` and what does not print are written as escapes, since they are a rule file's own signs.
    """
    if not _ALL.fullmatch(text) or not text.isprintable():
        return r'not label matchers; write them as in cluster="eu",team!="x", and \\ for \ in a value'
    for label, operator, value in _ONE.findall(text):
        if label == "__name__":
            return "every selector of the rules has its metric's name already; leave out __name__"
        if operator in ("=~", "!~") and not is_re2(_unescaped(value)):
            return f'"{value}" is no regular expression that Prometheus takes (RE2)'
    return None


def _unescaped(value: str) -> str:
    return re.sub(_ESCAPE, lambda found: _character(found[0][1:]), value)


def _character(escape: str) -> str:
    if escape in _NAMED_ESCAPES:
        return _NAMED_ESCAPES[escape]
    return chr(int(escape[1:], 16) if escape[0] in "xuU" else int(escape, 8))
