"""Path elements of field sets: how fields, items of keyed lists and of sets are written.

``f:<name>`` is a field or key of a map, ``k:{...}`` an item of a list by its keys, ``v:<json>`` an
item of a set by its value, ``i:<number>`` an index (kept, never made here).
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

MEMBER = "."
"""Beside path elements: the item itself belongs to the set, not only parts of it."""

_texts: dict[tuple[str, str], str] = {}
MAX_TEXTS = 10_000
"""Remembered elements: items are few kinds of conditions, containers and pod sets, seen often."""


class UnknownElementError(ValueError):
    """An element of a type that only a newer server knows; it is left out."""


def field(name: str) -> str:
    """The element of a field."""
    return f"f:{name}"


def item(keys: Sequence[str], values: Sequence[Any]) -> str:
    """The element of a list item by its keys, given in the order of their names."""
    if len(keys) == 1 and values[0].__class__ is str:
        known = _texts.get((keys[0], values[0]))
        if known is not None:
            return known
        if len(_texts) >= MAX_TEXTS:
            _texts.clear()
        text = _texts[keys[0], values[0]] = "k:" + _dump({keys[0]: values[0]})
        return text
    return "k:" + _dump(dict(zip(keys, values, strict=True)))


def value(content: Any) -> str:
    """The element of an item of a set."""
    return "v:" + _dump(content)


def canonical(element: str) -> str:
    """An element from outside in the one form that is compared.

    Raises:
        UnknownElementError: to be left out.
        ValueError: not an element.
    """
    if element[1:2] != ":":
        raise ValueError(f"missing colon: {element}")
    match element[0]:
        case "f":
            return element
        case "v":
            return value(json.loads(element[2:]))
        case "k":
            keys = json.loads(element[2:])
            if not isinstance(keys, dict):
                raise ValueError(f"keys are not an object: {element}")  # noqa: TRY004 - bad input
            return "k:" + _dump(keys)
        case "i":
            return f"i:{int(element[2:])}"
        case _:
            raise UnknownElementError(element)


def show(element: str) -> str:
    """An element as messages show it: ``.name``, ``[port=80,protocol="TCP"]``, ``[="x"]``."""
    kind, content = element[0], element[2:]
    if kind == "f":
        return f".{content}"
    if kind == "i":
        return f"[{content}]"
    decoded = json.loads(content)
    if kind == "v":
        return f"[={show_value(decoded)}]"
    return f"[{','.join(f'{key}={show_value(each)}' for key, each in sorted(decoded.items()))}]"


def show_value(content: Any) -> str:
    """A value as messages show it."""
    if isinstance(content, Mapping):
        return "".join(f"{key}={show_value(each)}" for key, each in content.items())
    if isinstance(content, list):
        return f"[{','.join(map(show_value, content))}]"
    return _dump(content)


def _dump(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
