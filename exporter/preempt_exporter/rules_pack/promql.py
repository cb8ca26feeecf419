"""Reads the part of PromQL that rules are written in, into a tree with positions.

Enough for the lint to know which metrics and labels an expression uses and keeps, and for the mutation run to change
one thing at a time. promtool stays the judge of what is valid; what this reader does not know it refuses by place.
Grammar: Prometheus' own documentation of operators and their precedence.
"""

import re
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

AGGREGATIONS = frozenset(
    (
        *("sum", "min", "max", "avg", "group", "stddev", "stdvar", "count"),
        *("count_values", "bottomk", "topk", "quantile", "limitk", "limit_ratio"),
    )
)
SET_OPERATORS = frozenset(("and", "or", "unless"))
COMPARISONS = frozenset(("==", "!=", "<=", "<", ">=", ">"))
_PRECEDENCE = {
    "or": 1,
    "and": 2,
    "unless": 2,
    **dict.fromkeys(COMPARISONS, 3),
    "+": 4,
    "-": 4,
    "*": 5,
    "/": 5,
    "%": 5,
    "atan2": 5,
    "^": 6,
}
_TOKEN = re.compile(
    r"""(?P<space>\s+|\#[^\n]*)
    |(?P<duration>(?:\d+(?:ms|[smhdwy]))+)(?![\w.])
    |(?P<number>0x[0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)
    |(?P<operator>=~|!~|!=|==|<=|>=|[-+*/%^<>=(){}\[\],@])""",
    re.VERBOSE,
)


class PromqlError(ValueError):
    """The expression is not one this reader knows; `at` is the offset in it."""

    def __init__(self, message: str, at: int) -> None:
        """Keep the place."""
        super().__init__(f"{message} at {at}")
        self.at = at


class Token(Struct, frozen=True):
    """A word of an expression, from `start` to `end`."""

    kind: str
    text: str
    start: int
    end: int


class Matcher(Struct, frozen=True):
    """One `label="value"` of a selector."""

    label: str
    operator: str
    value: str
    start: int
    end: int


class Node(Struct, frozen=True):
    """Part of an expression, from `start` to `end`."""

    start: int
    end: int


class Number(Node, frozen=True):
    """A literal number."""

    text: str


class Selector(Node, frozen=True):
    """A metric with matchers, and a window or an offset where there is one."""

    metric: str
    matchers: tuple[Matcher, ...]
    window: Token | None = None
    offset: Token | None = None


class Call(Node, frozen=True):
    """A function."""

    function: str
    arguments: tuple[Node, ...]


class Labels(Struct, frozen=True):
    """A list of labels after a keyword (`by`, `without`, `on`, `ignoring`)."""

    keyword: str
    names: tuple[Token, ...]
    start: int
    end: int

    @property
    def texts(self) -> tuple[str, ...]:
        """The names alone."""
        return tuple(token.text for token in self.names)


class Aggregation(Node, frozen=True):
    """`sum by (...) (...)` and its kind."""

    operation: str
    grouping: Labels | None
    argument: Node


class Binary(Node, frozen=True):
    """Two sides and what is between them."""

    left: Node
    operator: Token
    right: Node
    matching: Labels | None = None
    group: Literal["", "group_left", "group_right"] = ""
    included: tuple[str, ...] = ()


class Negative(Node, frozen=True):
    """A sign before an expression."""

    argument: Node


class Parenthesis(Node, frozen=True):
    """An expression in parentheses; its span has them, so that a span always is a whole expression."""

    argument: Node


def parse(expression: str) -> Node:
    """The tree of an expression. Raises `PromqlError`."""
    reader = _Reader(list(tokens(expression)), len(expression))
    node = reader.expression(1)
    if reader.peek() is not None:
        raise PromqlError(f"unexpected {reader.peek()!r}", reader.place())
    return node


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it."""
    yield node
    for child in children(node):
        yield from walk(child)


def children(node: Node) -> tuple[Node, ...]:
    """What an expression is made of."""
    if isinstance(node, Binary):
        return (node.left, node.right)
    if isinstance(node, Call):
        return node.arguments
    if isinstance(node, Aggregation | Negative | Parenthesis):
        return (node.argument,)
    return ()


def selectors(node: Node) -> list[Selector]:
    """Every selector of the expression."""
    return [found for found in walk(node) if isinstance(found, Selector)]


def tokens(expression: str) -> Iterator[Token]:
    """The words of an expression, without white space and comments. Raises `PromqlError`."""
    at = 0
    while at < len(expression):
        found = _TOKEN.match(expression, at)
        if found is None:
            raise PromqlError(f"cannot read {expression[at]!r}", at)
        if found.lastgroup != "space":
            yield Token(str(found.lastgroup), found.group(), found.start(), found.end())
        at = found.end()


class _Reader:
    def __init__(self, tokens: list[Token], length: int) -> None:
        self.tokens = tokens
        self.next = 0
        self.length = length

    def peek(self) -> str | None:
        return self.tokens[self.next].text if self.next < len(self.tokens) else None

    def place(self) -> int:
        return self.tokens[self.next].start if self.next < len(self.tokens) else self.length

    def take(self, *wanted: str) -> Token:
        if self.next >= len(self.tokens) or (wanted and self.tokens[self.next].text not in wanted):
            raise PromqlError(f"expected {' or '.join(wanted) or 'more'}", self.place())
        self.next += 1
        return self.tokens[self.next - 1]

    def expression(self, at_least: int) -> Node:
        left = self.unary()
        while (operator := self.peek()) is not None and _PRECEDENCE.get(operator, 0) >= at_least:
            token = self.take()
            if self.peek() == "bool":
                self.take()
            matching = self.labels() if self.peek() in ("on", "ignoring") else None
            group: Literal["", "group_left", "group_right"] = ""
            included: tuple[str, ...] = ()
            if self.peek() in ("group_left", "group_right"):
                group = "group_left" if self.take().text == "group_left" else "group_right"
                self.next -= 1
                included = self.labels().texts
            right = self.expression(_PRECEDENCE[operator] + (operator != "^"))
            left = Binary(left.start, right.end, left, token, right, matching, group, included)
        return left

    def unary(self) -> Node:
        if self.peek() in ("-", "+"):
            sign = self.take()
            argument = self.expression(_PRECEDENCE["*"] + 1)
            return Negative(sign.start, argument.end, argument)
        return self.primary()

    def primary(self) -> Node:
        token = self.take()
        if token.text == "(":
            argument = self.expression(1)
            return Parenthesis(token.start, self.take(")").end, argument)
        if token.kind == "number":
            return Number(token.start, token.end, token.text)
        if token.text == "{":
            self.next -= 1
            return self.selector(Token("name", "", token.start, token.start))
        if token.kind != "name":
            raise PromqlError(f"unexpected {token.text!r}", token.start)
        if token.text in AGGREGATIONS and self.peek() in ("(", "by", "without"):
            return self.aggregation(token)
        if self.peek() == "(":
            return self.call(token)
        return self.selector(token)

    def aggregation(self, operation: Token) -> Node:
        grouping = self.labels() if self.peek() in ("by", "without") else None
        self.take("(")
        argument = self.expression(1)
        if self.peek() == ",":
            self.take()
            argument = self.expression(1)
        end = self.take(")").end
        if grouping is None and self.peek() in ("by", "without"):
            grouping = self.labels()
            end = grouping.end
        return Aggregation(operation.start, end, operation.text, grouping, argument)

    def call(self, function: Token) -> Node:
        self.take("(")
        arguments = []
        while self.peek() != ")":
            arguments.append(self.expression(1))
            if self.peek() != ")":
                self.take(",")
        return Call(function.start, self.take(")").end, function.text, tuple(arguments))

    def labels(self) -> Labels:
        keyword = self.take()
        self.take("(")
        names = []
        while self.peek() != ")":
            names.append(self.take())
            if self.peek() != ")":
                self.take(",")
        return Labels(keyword.text, tuple(names), keyword.start, self.take(")").end)

    def selector(self, metric: Token) -> Node:
        matchers = []
        end = metric.end
        if self.peek() == "{":
            self.take()
            while self.peek() != "}":
                label, operator, value = self.take(), self.take("=", "!=", "=~", "!~"), self.take()
                matchers.append(Matcher(label.text, operator.text, value.text[1:-1], label.start, value.end))
                if self.peek() != "}":
                    self.take(",")
            end = self.take("}").end
        window = offset = None
        if self.peek() == "[":
            self.take()
            window = self.take()
            end = self.take("]").end
        if self.peek() == "offset":
            self.take()
            offset = self.take()
            end = offset.end
        return Selector(metric.start, end, metric.text, tuple(matchers), window, offset)
