"""Count the objects that a dispatcher keeps between calls; it should keep nothing."""

from __future__ import annotations

import sys
from collections import deque
from dataclasses import fields, is_dataclass
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from multiqueue.plugins.dispatcher import Dispatcher

MOST_KEPT = 20_000
"""Objects that a dispatcher may keep between calls; small tables of its own are not a leak.
Counting stops at this number, which takes some milliseconds."""
_CODE = (type, ModuleType, FunctionType, BuiltinFunctionType)
_PLAIN = (str, int, float, bool, bytes, type(None))


def count_kept(dispatcher: Dispatcher, most: int = MOST_KEPT) -> int:
    """Count the objects in a dispatcher's attributes and module variables, up to a limit."""
    module = sys.modules.get(type(dispatcher).__module__)
    roots = [
        value
        for name, value in vars(module or object).items()
        if not name.startswith("__") and isinstance(value, dict | list | set | deque)
    ]
    todo: deque[Any] = deque([*_inside(dispatcher), *roots])
    seen: set[int] = set()
    count = 0
    while todo and count < most:
        value = todo.popleft()
        if isinstance(value, _CODE) or id(value) in seen:
            continue
        count += 1
        if isinstance(value, _PLAIN):
            continue
        seen.add(id(value))
        todo.extend(_inside(value))
        if len(todo) >= most:
            return most
    return count


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*dict.keys(value), *dict.values(value)]
    if isinstance(value, list | tuple | set | frozenset | deque):
        return list(value)
    if is_dataclass(value) and not isinstance(value, type) and not hasattr(value, "__dict__"):
        return [getattr(value, field.name, None) for field in fields(value)]
    return list(getattr(value, "__dict__", {}).values())
