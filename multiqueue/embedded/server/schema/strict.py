"""Finds the unknown and duplicate fields for ``fieldValidation=Strict`` and ``Warn``."""

import json
from collections.abc import Mapping
from typing import Any

import orjson

Schema = Mapping[str, Any]

_EMBEDDED = frozenset({"apiVersion", "kind", "metadata"})


def unknown_fields(schema: Schema, value: Any, path: str = "") -> list[str]:
    """Paths of fields that the schema does not have, e.g. ``spec.containers[0].foo``, in order."""
    if isinstance(value, list):
        items = schema.get("items", {})
        return [
            found
            for index, item in enumerate(value)
            for found in unknown_fields(items, item, f"{path}[{index}]")
        ]
    if not isinstance(value, dict):
        return []
    found: list[str] = []
    for name, item in value.items():
        child = f"{path}.{name}" if path else name
        known, inner = _field(schema, name)
        if not known:
            found.append(child)
        elif inner is not None:
            found += unknown_fields(inner, item, child)
    return found


def _field(schema: Schema, name: str) -> tuple[bool, Schema | None]:
    """Whether the field is known, and the schema inside it if there is more to look at."""
    properties = schema.get("properties", {})
    if name in properties:
        return True, properties[name]
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping):
        return True, additional
    if schema.get("x-kubernetes-preserve-unknown-fields") or additional is True:
        return True, None
    if schema.get("x-kubernetes-embedded-resource") and name in _EMBEDDED:
        return True, None
    return not _is_object(schema), None


def _is_object(schema: Schema) -> bool:
    return schema.get("type") == "object" or "properties" in schema


def duplicate_fields(raw: bytes, decoded: Any) -> list[str]:
    """Paths of keys that a JSON text repeats; ``decoded`` is what it decodes to."""
    # Re-encoding drops repeated keys: equal length means that there are none.
    if len(orjson.dumps(decoded)) == len(raw.strip()):
        return []
    try:
        document = json.loads(raw, object_pairs_hook=_Pairs)
    except ValueError:
        return []
    return _duplicates(document, "")


class _Pairs(list[tuple[str, Any]]):
    """An object with all its keys, repeated ones included."""


def _duplicates(value: Any, path: str) -> list[str]:
    found: list[str] = []
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for name, item in value:
            child = f"{path}.{name}" if path else name
            if name in seen:
                found.append(child)
            seen.add(name)
            found += _duplicates(item, child)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += _duplicates(item, f"{path}[{index}]")
    return found
