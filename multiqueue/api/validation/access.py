"""Reading untyped objects without tripping over wrong types: what is not there is empty.

The schema of the CRD refuses wrong types; rules only have to survive them.
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
    """The mapping at a path below a value, or an empty one."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else _NOTHING


def items(value: Any) -> Iterator[tuple[int, Object]]:
    """The mappings of a list with their positions."""
    for i, item in enumerate(value if isinstance(value, list | tuple) else ()):
        if isinstance(item, Mapping):
            yield i, item


def strings(value: Any) -> Iterator[str]:
    """The texts of a list."""
    for item in value if isinstance(value, list | tuple) else ():
        if isinstance(item, str):
            yield item


def text(value: Any) -> str:
    """A text, or an empty one."""
    return value if isinstance(value, str) else ""


def number(value: Any, default: int = 0) -> int:
    """An integer, or the default."""
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def boolean(value: Any) -> bool | None:
    """What a text in an annotation says, in any spelling that Go reads; None: nothing."""
    return _BOOLEANS.get(value) if isinstance(value, str) else None


def quantity(value: Any) -> Quantity | None:
    """A quantity, or None where there is none or it is malformed."""
    try:
        return parse_quantity(value)
    except QuantityError:
        return None


def has_condition(obj: Object, type_: str) -> bool:
    """Whether a condition of the object's status is True."""
    conditions = items(mapping(obj, "status").get("conditions"))
    return any(c.get("type") == type_ and c.get("status") == "True" for _, c in conditions)
