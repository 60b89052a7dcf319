"""JSON that a stranger wrote: read within bounds of depth and of what it makes in memory.

A few bytes make an object of hundreds; deep nesting ends in a RecursionError wherever something
walks the value. Both are refused, the first before anything is made of the text.
"""

from __future__ import annotations

from typing import Any

import orjson

MAX_CONTAINERS = 50_000
"""Lists and mappings of one text: an object of 1.5 MB, the most that etcd keeps, has fewer. So many
take 12 MB, and rules that look at each of them half a second.
"""
SURE_LEVELS = 100
"""Fewer brackets cannot be nested too deep."""


class JsonError(ValueError):
    """A text that is not read."""


def load(text: bytes, *, max_containers: int = MAX_CONTAINERS) -> Any:
    """Return the value of a text; it can be written again, and walked by recursion.

    Raises:
        JsonError: it is no JSON, nested more than 254 levels deep, or too much.
    """
    containers = text.count(b"[") + text.count(b"{")  # those in strings count, too
    if containers > max_containers:
        raise JsonError(f"it has more than {max_containers:,} lists and mappings")
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise JsonError(f"it is no JSON: {error}") from None
    if containers > SURE_LEVELS:
        try:
            orjson.dumps(value)  # the one walk that costs next to nothing; it ends at 254 levels
        except orjson.JSONEncodeError:
            raise JsonError("it is nested more than 254 levels deep") from None
    return value
