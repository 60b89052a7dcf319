r"""The subset of JSONPath that printer columns and ``-o jsonpath`` use, compiled to functions.

``.spec.a``, ``['a.b']``, ``\.`` in names, ``[0]``, ``[-1]``, ``[1:3]``, ``[*]``, ``..name``, and
filters such as ``[?(@.type=="Ready")]``, ``[?(@.count>3)]``, ``[?(@.name)]``. Missing keys give
nothing; they are no error.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

Find = Callable[[Any], list[Any]]
Step = Callable[[Any], Iterable[Any]]


class JsonPathError(ValueError):
    """The text is not a JSONPath that this program understands."""


_TOKEN = re.compile(
    r"""
    (?P<descend>\.\.)
  | \.(?P<all>\*)
  | \.?(?P<name>(?:\\.|[^.\[\]\\'"?(){}*@=!<>\s])+)
  | \[\s*(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\s*\]
  | \[(?P<every>\*)\]
  | \[(?P<index>-?\d+)\]
  | \[(?P<slice>-?\d*:-?\d*(?::\d+)?)\]
  | \[\?\(\s*@(?P<left>[^=!<>]*?)\s*(?:(?P<operator>==|!=|<=|>=|<|>)\s*(?P<right>[^)]*?))?\s*\)\]
  | (?P<self>\.)$
    """,
    re.VERBOSE,
)

_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@lru_cache(maxsize=1024)
def compile_path(text: str) -> Find:
    """Return a function that finds all values of a path in an object.

    Raises:
        JsonPathError: the text is not understood.
    """
    steps = _steps(text.strip().removeprefix("{").removesuffix("}").strip().removeprefix("$"))

    def find(value: Any) -> list[Any]:
        found: list[Any] = [value]
        for step in steps:
            found = [inner for item in found for inner in step(item)]
        return found

    return find


def _steps(path: str) -> tuple[Step, ...]:
    steps: list[Step] = []
    position = 0
    while position < len(path):
        match = _TOKEN.match(path, position)
        if match is None or match.end() == position:
            raise JsonPathError(f'"{path}" is not a JSONPath: unexpected "{path[position:]}"')
        if not match["self"]:
            steps.append(_step(match))
        position = match.end()
    return tuple(steps)


def _step(match: re.Match[str]) -> Step:
    if match["descend"]:
        return _descend
    if match["all"] or match["every"]:
        return _children
    if match["name"] or match["quote"]:
        return _child(re.sub(r"\\(.)", r"\1", match["name"] or match["quoted"]))
    if match["index"]:
        return _item(int(match["index"]))
    if match["slice"]:
        bounds = [int(part) if part else None for part in match["slice"].split(":")]
        return lambda value: value[slice(*bounds)] if _is_list(value) else ()
    return _filter(match["left"], match["operator"], match["right"])


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _child(name: str) -> Step:
    return lambda value: (value[name],) if isinstance(value, Mapping) and name in value else ()


def _item(index: int) -> Step:
    def step(value: Any) -> Iterable[Any]:
        if _is_list(value) and -len(value) <= index < len(value):
            return (value[index],)
        return ()

    return step


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return tuple(value.values())
    return value if _is_list(value) else ()


def _descend(value: Any) -> Iterator[Any]:
    yield value
    for child in _children(value):
        yield from _descend(child)


def _filter(left: str, name: str | None, right: str | None) -> Step:
    find = compile_path(left)
    if name is None:
        return lambda value: [item for item in _children(value) if find(item)]
    compare, wanted = _OPERATORS[name], _literal(right or "")

    def holds(item: Any) -> bool:
        return any(_compares(compare, found, wanted) for found in find(item))

    return lambda value: [item for item in _children(value) if holds(item)]


def _compares(compare: Callable[[Any, Any], Any], found: Any, wanted: Any) -> bool:
    try:
        return bool(compare(found, wanted))
    except TypeError:
        return False


def _literal(text: str) -> Any:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if text in {"true", "false"}:
        return text == "true"
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise JsonPathError(f'"{text}" is not a string in quotes, a number or a boolean') from None
