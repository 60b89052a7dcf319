"""Reads untyped objects that may have wrong types; absent or wrong values read as empty.

The schema of the CRD refuses wrong types; rules only must not fail on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from multiqueue.lib.quantity import Quantity, QuantityError, parse_quantity

Object = Mapping[str, Any]
_NOTHING: Object = {}
_BOOLEANS: Mapping[Any, bool] = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


def mapping(value: Any, *path: str) -> Object:
    """Return the mapping at a path below a value, or an empty one."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else _NOTHING


def items(value: Any) -> Iterator[tuple[int, Object]]:
    """Yield the mappings of a list with their positions."""
    for i, item in enumerate(value if isinstance(value, list | tuple) else ()):
        if isinstance(item, Mapping):
            yield i, item


def strings(value: Any) -> Iterator[str]:
    """Yield the texts of a list."""
    for item in value if isinstance(value, list | tuple) else ():
        if isinstance(item, str):
            yield item


def text(value: Any) -> str:
    """Return a text; empty if the value is not one."""
    return value if isinstance(value, str) else ""


def number(value: Any, default: int = 0) -> int:
    """Return an integer, or the default if the value is not one."""
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def boolean(value: Any) -> bool | None:
    """Read a boolean in any spelling that Go accepts; None if the text is not one."""
    return _BOOLEANS.get(value) if isinstance(value, str) else None


def quantity(value: Any) -> Quantity | None:
    """Return a quantity; None if it is absent or malformed."""
    try:
        return parse_quantity(value)
    except QuantityError:
        return None


def has_condition(obj: Object, type_: str) -> bool:
    """Whether a condition of the object's status is True."""
    conditions = items(mapping(obj, "status").get("conditions"))
    return any(c.get("type") == type_ and c.get("status") == "True" for _, c in conditions)
