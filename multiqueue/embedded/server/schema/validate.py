"""Validity of custom resources: jsonschema-rs decides, Kubernetes' words explain.

A valid object costs one call into jsonschema-rs; only of an invalid one are the errors worded.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jsonschema_rs

from multiqueue.embedded.server.causes import FieldCause, duplicate
from multiqueue.embedded.server.schema.structural import item_key
from multiqueue.embedded.server.schema.wording import causes_of
from multiqueue.lib import formats
from multiqueue.lib.words import words

Schema = Mapping[str, Any]

_COPIED = words(
    "enum minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength "
    "maxLength pattern minItems maxItems uniqueItems minProperties maxProperties required"
)
_INT32 = {"minimum": -(2**31), "maximum": 2**31 - 1}
_FORMATS: dict[str, Callable[[str], bool]] = {
    "byte": formats.is_base64,
    "date-time": formats.is_date_time,
    "duration": formats.is_duration,
}


class Validator:
    """Validates one version of a custom kind."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._validator = jsonschema_rs.Draft4Validator(
            json_schema(schema), formats=_FORMATS, validate_formats=True
        )

    def causes(self, obj: Mapping[str, Any], *, duplicates: bool) -> list[FieldCause]:
        """What is wrong with an object; ``duplicates`` says that a list repeats a key somewhere."""
        found: list[FieldCause] = []
        if not self._validator.is_valid(obj):
            found = [
                cause
                for error in self._validator.iter_errors(obj)
                for cause in causes_of(error, self._schema)
            ]
        if duplicates:
            found += duplicate_items(self._schema, obj)
        return list(dict.fromkeys(found))


def json_schema(schema: Schema) -> dict[str, Any]:
    """The JSON Schema (draft 4) that accepts the same values as a structural schema."""
    result: dict[str, Any] = {key: schema[key] for key in _COPIED if key in schema}
    if "type" in schema:
        result["type"] = schema["type"]
    if schema.get("x-kubernetes-int-or-string"):
        result["type"] = ["integer", "string"]
    if schema.get("format") in _FORMATS:
        result["format"] = schema["format"]
    elif schema.get("format") == "int32" and schema.get("type") == "integer":
        result["allOf"] = [_INT32]
    if "properties" in schema:
        result["properties"] = {
            name: json_schema(sub) for name, sub in schema["properties"].items()
        }
    for key in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(key), Mapping):
            result[key] = json_schema(schema[key])
    for key in ("allOf", "anyOf", "oneOf"):
        if key in schema:
            result.setdefault(key, []).extend(json_schema(sub) for sub in schema[key])
    return _nullable(result) if schema.get("nullable") else result


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """Accepts null too. Only types, enumerations and combinations can refuse a null."""
    if "type" in schema:
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        schema["type"] = [*types, "null"]
    if "enum" in schema:
        schema["enum"] = [*schema["enum"], None]
    for key in ("anyOf", "oneOf"):
        if key in schema:
            schema[key] = [*schema[key], {"enum": [None]}]
    if "allOf" in schema:
        schema["allOf"] = [{"anyOf": [sub, {"enum": [None]}]} for sub in schema["allOf"]]
    return schema


def duplicate_items(schema: Schema, value: Any, path: str = "") -> list[FieldCause]:
    """A cause for each item that repeats the key of an earlier one in a list of type set or map."""
    found: list[FieldCause] = []
    if isinstance(value, Mapping):
        properties = schema.get("properties", {})
        additional = schema.get("additionalProperties")
        for name, item in value.items():
            inner = properties.get(name, additional)
            if isinstance(inner, Mapping):
                found += duplicate_items(inner, item, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and "items" in schema:
        found += _repeated(schema, value, path)
        for index, item in enumerate(value):
            found += duplicate_items(schema["items"], item, f"{path}[{index}]")
    return found


def _repeated(schema: Schema, items: Sequence[Any], path: str) -> list[FieldCause]:
    if schema.get("x-kubernetes-list-type") not in {"map", "set"}:
        return []
    keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
    found = []
    seen: set[str] = set()
    for index, item in enumerate(items):
        key = item_key(item, keys)
        if key in seen:
            is_named = keys and isinstance(item, Mapping)
            shown = {name: item.get(name) for name in keys} if is_named else item
            found.append(duplicate(f"{path}[{index}]", shown))
        seen.add(key)
    return found
