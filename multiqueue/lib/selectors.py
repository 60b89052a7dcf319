"""Label selectors of Kubernetes: the text of ``labelSelector=`` and the API's ``LabelSelector``.

Both become a :class:`LabelSelector`, whose requirements are compiled to functions once.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Labels = Mapping[str, str]
Requirement = Callable[[Labels], bool]

_TOKEN = re.compile(r"\s*(?:(==|!=|=|!|>|<|\(|\)|,)|([^\s=!<>(),]+))")
_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = re.compile(rf"(?:[a-z0-9](?:[-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_NAME}")
_VALUE = re.compile(rf"(?:{_NAME})?")


class SelectorError(ValueError):
    """A selector that cannot be read; the message says where it is wrong."""


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Requirements that must all hold. An empty selector matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Whether labels meet every requirement."""
        return all(requirement(labels) for requirement in self.requirements)


EVERYTHING = LabelSelector()
NOTHING = LabelSelector((lambda _labels: False,))


MAX_TEXT = 64 * 1024
"""Most characters of a selector: parsing this many takes half a second."""


def parse_label_selector(text: str) -> LabelSelector:
    """Parse a selector as in kubectl's ``-l``: ``a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1``.

    Raises:
        SelectorError: the text is malformed.
    """
    if not text.strip():
        return EVERYTHING
    if len(text) > MAX_TEXT:
        raise SelectorError(f"the selector has {len(text):,} characters; at most {MAX_TEXT:,}")
    return LabelSelector(tuple(_Parser(text).requirements()))


def label_selector_from(selector: Mapping[str, Any] | None) -> LabelSelector:
    """Compile a LabelSelector object; ``{}`` matches everything and None matches nothing.

    Raises:
        SelectorError: an operator is unknown or a key or value malformed.
    """
    if selector is None:
        return NOTHING
    requirements = [
        _equals(_key(key), _value(value))
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    requirements += map(_expression, selector.get("matchExpressions") or ())
    return LabelSelector(tuple(requirements))


def _expression(expression: Mapping[str, Any]) -> Requirement:
    key, operator = _key(expression.get("key", "")), expression.get("operator", "")
    values: Sequence[str] = expression.get("values") or ()
    match operator:
        case "In" | "NotIn":
            if not values:
                raise SelectorError("for 'in', 'notin' operators, values set can't be empty")
            wanted = frozenset(_value(value) for value in values)
            return _in(key, wanted) if operator == "In" else _not_in(key, wanted)
        case "Exists":
            return _exists(key)
        case "DoesNotExist":
            return _absent(key)
    raise SelectorError(f'"{operator}" is not a valid label selector operator')


class _Parser:
    """A cursor over the tokens of one selector text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[str] = []
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                raise SelectorError(
                    f"unable to parse requirement: unexpected text at {text[position:]!r}"
                )
            self.tokens.append(match[1] or match[2])
            position = match.end()
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def requirements(self) -> list[Requirement]:
        found = [self.requirement()]
        while self.peek():
            if (token := self.take()) != ",":
                raise SelectorError(
                    f"unable to parse requirement: found '{token}', expected: ',' or 'end of "
                    "string'"
                )
            if not self.peek():
                raise SelectorError(
                    "unable to parse requirement: found '', expected: identifier after ','"
                )
            found.append(self.requirement())
        return found

    def requirement(self) -> Requirement:
        if self.peek() == "!":
            self.take()
            return _absent(_key(self.take()))
        key = _key(self.take())
        operator = self.peek()
        if operator in {"", ","}:
            return _exists(key)
        self.take()
        match operator:
            case "=" | "==":
                return _equals(key, self.value())
            case "!=":
                return _not_in(key, frozenset({self.value()}))
            case "in":
                return _in(key, self.values())
            case "notin":
                return _not_in(key, self.values())
            case ">" | "<":
                return self.compare(key, operator)
        expected = "in, notin, =, ==, !=, gt, lt"
        raise SelectorError(
            f"unable to parse requirement: found '{operator}', expected: {expected}"
        )

    def value(self) -> str:
        return "" if self.peek() in {"", ","} else _value(self.take())

    def values(self) -> frozenset[str]:
        if self.peek() != "(":
            found = self.peek()
            raise SelectorError(f"unable to parse requirement: found '{found}', expected: '('")
        self.take()
        values = {self.value() if self.peek() != ")" else ""}
        while (separator := self.take()) != ")":
            if separator != ",":
                raise SelectorError(
                    f"unable to parse requirement: found '{separator}', expected: ',' or ')'"
                )
            values.add(self.value() if self.peek() != ")" else "")
        return frozenset(values)

    def compare(self, key: str, operator: str) -> Requirement:
        text = self.take()
        try:
            bound = int(text)
        except ValueError as error:
            raise SelectorError("for 'Gt', 'Lt' operators, the value must be an integer") from error
        return _compare(key, bound, greater=operator == ">")


def _key(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise SelectorError(
            f'unable to parse requirement: <nil>: Invalid value: "{key}": not a qualified name'
        )
    return key


def _value(value: str) -> str:
    if not _VALUE.fullmatch(value):
        raise SelectorError(
            f'unable to parse requirement: values[0]: Invalid value: "{value}": not a label value'
        )
    return value


def _equals(key: str, value: str) -> Requirement:
    return lambda labels: labels.get(key) == value


def _in(key: str, values: frozenset[str]) -> Requirement:
    return lambda labels: labels.get(key) in values


def _not_in(key: str, values: frozenset[str]) -> Requirement:
    return lambda labels: labels.get(key) not in values


def _exists(key: str) -> Requirement:
    return lambda labels: key in labels


def _absent(key: str) -> Requirement:
    return lambda labels: key not in labels


def _compare(key: str, bound: int, *, greater: bool) -> Requirement:
    def holds(labels: Labels) -> bool:
        try:
            number = int(labels.get(key, ""))
        except ValueError:
            return False
        return number > bound if greater else number < bound

    return holds
