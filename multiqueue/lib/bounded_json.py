"""Reads untrusted JSON within bounds of nesting depth and of memory.

A few bytes of JSON can make a Python object of hundreds of bytes. Deep nesting ends in a
RecursionError when code walks the value. Both are refused; size is checked before decoding.
"""

from __future__ import annotations

from typing import Any

import orjson

MAX_CONTAINERS = 50_000
"""Most lists and mappings in one text: an object of 1.5 MB, etcd's limit, has fewer. This many take
12 MB, and half a second in rules that visit each of them.
"""
MAX_LEVELS = 200
"""Deeper than any object is nested; orjson writes 254 levels, and Python compares more."""


class JsonError(ValueError):
    """A text that is refused."""


def load(text: bytes, *, max_containers: int | None = MAX_CONTAINERS) -> Any:
    """Return the value of a text; it can be written again, and walked by recursion.

    Args:
        text: The JSON.
        max_containers: Lists and mappings; None if the caller bounds what the value takes.

    Raises:
        JsonError: it is not JSON, nested more than 200 levels deep, or too large.
    """
    if max_containers is not None and _count_containers(text) > max_containers:
        raise JsonError(f"it has more than {max_containers:,} lists and mappings")
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise JsonError(f"it is no JSON: {error}") from None
    check_depth(value, text)
    return value


def check_depth(value: Any, text: bytes | None = None) -> None:
    """Refuse a value with too many levels.

    Args:
        value: A decoded value, or one that was made from it.
        text: The value's JSON: with few brackets it cannot be deep, which saves the walk.

    Raises:
        JsonError: the value is nested more than 200 levels deep.
    """
    if text is not None and _count_containers(text) <= MAX_LEVELS:
        return
    if is_deeper(value, MAX_LEVELS):
        raise JsonError(f"it is nested more than {MAX_LEVELS} levels deep")


def is_deeper(value: Any, levels: int) -> bool:
    """Tell whether lists and mappings are nested more than so many levels deep.

    Cost: one pass without recursion; a scalar is a level, too.
    """
    level = [value]
    for _ in range(levels):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return False
    return True


def _inside(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _count_containers(text: bytes) -> int:
    return text.count(b"[") + text.count(b"{")  # those in strings count, too
