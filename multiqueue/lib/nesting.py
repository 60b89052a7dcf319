"""How deep values are nested, found without recursion: decoders and encoders run out of stack."""

from __future__ import annotations

from typing import Any


def is_deeper(value: Any, levels: int) -> bool:
    """Tell whether lists and mappings are nested more than so many levels deep.

    Cost: one pass; a scalar is a level, too.
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
