"""``fieldPath`` of a rule: ``.spec.name`` or ``.labels['a.b']``, from the place of the rule."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

_STEP = re.compile(r"\.([^.\[\]']+)|\['((?:[^'\\]|\\[abfnrtv'\\])+)'\]")
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def parse_field_path(path: str) -> str:
    """As field errors write it: ``spec.name`` or ``labels[a.b]``; see :func:`is_field_path`."""
    return "".join(f".{name}" for name in _steps(path)).removeprefix(".")


def is_field_path(path: str, schema: Mapping[str, Any]) -> bool:
    """Whether it names a property, or a key of a map, of values of this schema."""
    if "".join(found[0] for found in _STEP.finditer(path)) != path:
        return False
    current: Any = schema
    for name in _steps(path):
        additional = current.get("additionalProperties")
        if name in current.get("properties", {}):
            current = current["properties"][name]
        elif "properties" not in current and isinstance(additional, Mapping):
            current = additional
        else:
            return False
    return True


def _steps(path: str) -> Iterator[str]:
    for found in _STEP.finditer(path):
        name, key = found.groups()
        yield name or re.sub(r"\\(.)", lambda it: _ESCAPED.get(it[1], it[1]), key)
