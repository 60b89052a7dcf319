"""``fieldPath`` of a rule: ``.spec.name`` or ``.labels['a.b']``, from the place of the rule."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

_STEP = re.compile(r"\.([^.\[\]']+)|\['((?:[^'\\]|\\[abfnrtv'\\])+)'\]")
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def parse_field_path(path: str, schema: Mapping[str, Any]) -> str | None:
    """As field errors write it: ``spec.name`` or ``labels[a.b]``.

    None: it does not name a property, or a key of a map, of values of this schema.
    """
    if "".join(found[0] for found in _STEP.finditer(path)) != path:
        return None
    written = ""
    current: Any = schema
    for name in _steps(path):
        additional = current.get("additionalProperties")
        if name in current.get("properties", {}):
            written += f".{name}" if written else name
            current = current["properties"][name]
        elif "properties" not in current and isinstance(additional, Mapping):
            written += f"[{name}]"
            current = additional
        else:
            return None
    return written


def _steps(path: str) -> Iterator[str]:
    for found in _STEP.finditer(path):
        name, key = found.groups()
        yield name or re.sub(r"\\(.)", lambda it: _ESCAPED.get(it[1], it[1]), key)
