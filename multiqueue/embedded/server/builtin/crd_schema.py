"""Whether a schema of a CustomResourceDefinition is structural, and can be used by this server."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import orjson

from multiqueue.embedded.server.causes import (
    FieldCause,
    forbidden,
    invalid,
    not_supported,
    required,
    type_invalid,
)
from multiqueue.embedded.server.cel.custom_rules import definition_causes
from multiqueue.embedded.server.schema.validate import Validator

Json = Mapping[str, Any]

TYPES = ("array", "boolean", "integer", "number", "object", "string")
LIST_TYPES = ("atomic", "set", "map")

_KEYWORDS = frozenset({
    "$ref", "$schema", "additionalItems", "additionalProperties", "allOf", "anyOf", "default",
    "definitions", "dependencies", "description", "enum", "example", "exclusiveMaximum",
    "exclusiveMinimum", "externalDocs", "format", "id", "items", "maxItems", "maxLength",
    "maxProperties", "maximum", "minItems", "minLength", "minProperties", "minimum", "multipleOf",
    "not", "nullable", "oneOf", "pattern", "patternProperties", "properties", "required", "title",
    "type", "uniqueItems", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations",
})  # fmt: skip
_NOT_ALLOWED = ("$ref", "definitions", "dependencies", "patternProperties", "additionalItems", "id")


_NUMBER, _TEXTS = (int, float), ("type", "pattern", "format", "description", "title", "$ref", "id")
_COUNTS = ("maxItems", "minItems", "maxLength", "minLength", "maxProperties", "minProperties")
_FLAGS = (
    "nullable",
    "uniqueItems",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
)
_SHAPES: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(_TEXTS, (str,)),
    **dict.fromkeys(_COUNTS, (int,)),
    **dict.fromkeys(_FLAGS, (bool,)),
    **dict.fromkeys(("maximum", "minimum", "multipleOf"), _NUMBER),
    **dict.fromkeys(("enum", "required", "allOf", "anyOf", "oneOf"), (list,)),
    **dict.fromkeys(("x-kubernetes-list-map-keys", "x-kubernetes-validations"), (list,)),
    **dict.fromkeys(("properties", "items", "not"), (dict,)),
    "additionalProperties": (dict, bool),
    "x-kubernetes-list-type": (str,),
}


def validate_schema(schema: Json, path: str) -> list[FieldCause]:
    """What keeps a version's schema from being used."""
    return list(_found(orjson.dumps(schema), path))


@lru_cache(maxsize=64)
def _found(raw: bytes, path: str) -> tuple[FieldCause, ...]:
    """Definitions are written again and again, to every server of a process; schemas stay."""
    return tuple(_causes(orjson.loads(raw), path))


def _causes(schema: Any, path: str) -> list[FieldCause]:
    if malformed := _malformed(schema, path):
        return malformed
    causes = []
    if schema.get("type") != "object":
        text = "must be object at the root"
        causes.append(invalid(f"{path}.type", schema.get("type", ""), text))
    causes += _structural(schema, path)
    return causes or _usable(schema, path) or definition_causes(schema, path)


def _malformed(schema: Any, path: str) -> list[FieldCause]:
    """Keywords with values of the wrong type; the other checks rely on there being none."""
    if not isinstance(schema, dict):
        return [type_invalid(path, schema, "must be a schema")]
    causes = [
        type_invalid(f"{path}.{keyword}", value, f"must be {_named(_SHAPES[keyword])}")
        for keyword, value in schema.items()
        if keyword in _SHAPES and not _has_type(value, _SHAPES[keyword])
    ]
    return causes or [
        cause for where, inner in _inner_schemas(schema, path) for cause in _malformed(inner, where)
    ]


def _has_type(value: Any, types: tuple[type, ...]) -> bool:
    return isinstance(value, types) and (bool in types or not isinstance(value, bool))


def _named(types: tuple[type, ...]) -> str:
    words = {str: "a string", bool: "a boolean", list: "a list", dict: "an object"}
    return " or ".join(dict.fromkeys(words.get(found, "a number") for found in types))


def _inner_schemas(schema: Json, path: str) -> Iterator[tuple[str, Any]]:
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}.properties[{name}]", inner
    for keyword in ("items", "not", "additionalProperties"):
        if keyword in schema and not isinstance(schema[keyword], bool):
            yield f"{path}.{keyword}", schema[keyword]
    for keyword in ("allOf", "anyOf", "oneOf"):
        for index, inner in enumerate(schema.get(keyword, ())):
            yield f"{path}.{keyword}[{index}]", inner


def _usable(schema: Json, path: str) -> list[FieldCause]:
    """The last word has the validator: patterns that do not compile, bounds of the wrong type."""
    try:
        Validator(schema)
    except ValueError as error:
        return [invalid(path, "", str(error).splitlines()[0])]
    return []


def _structural(schema: Json, path: str) -> list[FieldCause]:
    causes = [
        invalid(f"{path}.{keyword}", "", "is not a keyword of schemas")
        for keyword in schema
        if keyword not in _KEYWORDS
    ]
    causes += [
        forbidden(f"{path}.{keyword}", f"{keyword} is not supported")
        for keyword in _NOT_ALLOWED
        if keyword in schema
    ]
    causes += [*_type(schema, path), *_lists(schema, path), *_objects(schema, path)]
    for name, inner in schema.get("properties", {}).items():
        causes += _structural(inner, f"{path}.properties[{name}]")
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), Mapping):
            causes += _structural(schema[keyword], f"{path}.{keyword}")
    return causes


def _type(schema: Json, path: str) -> list[FieldCause]:
    given = schema.get("type", "")
    free = schema.get("x-kubernetes-int-or-string") or schema.get(
        "x-kubernetes-preserve-unknown-fields"
    )
    if not given:
        return (
            []
            if free
            else [required(f"{path}.type", "must not be empty for specified object fields")]
        )
    if given not in TYPES:
        return [not_supported(f"{path}.type", given, TYPES)]
    if schema.get("x-kubernetes-int-or-string"):
        text = "must be empty if x-kubernetes-int-or-string is true"
        return [invalid(f"{path}.type", given, text)]
    return []


def _lists(schema: Json, path: str) -> list[FieldCause]:
    causes = []
    if schema.get("type") == "array" and not isinstance(schema.get("items"), Mapping):
        causes.append(required(f"{path}.items", "must be specified"))
    list_type = schema.get("x-kubernetes-list-type")
    keys = schema.get("x-kubernetes-list-map-keys")
    if list_type is not None and list_type not in LIST_TYPES:
        causes.append(not_supported(f"{path}.x-kubernetes-list-type", list_type, LIST_TYPES))
    if list_type == "map" and not keys:
        text = "must not be empty if x-kubernetes-list-type is map"
        causes.append(required(f"{path}.x-kubernetes-list-map-keys", text))
    if keys and list_type != "map":
        text = "must be map if x-kubernetes-list-map-keys is non-empty"
        causes.append(invalid(f"{path}.x-kubernetes-list-type", list_type or "", text))
    if list_type == "map" and isinstance(schema.get("items"), Mapping):
        causes += _map_keys(schema["items"], keys or (), path)
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        causes.append(forbidden(f"{path}.uniqueItems", text))
    return causes


def _map_keys(items: Json, keys: Any, path: str) -> list[FieldCause]:
    properties = items.get("properties", {})
    causes = []
    for index, key in enumerate(keys):
        where = f"{path}.x-kubernetes-list-map-keys[{index}]"
        if key not in properties:
            causes.append(invalid(where, key, "must be a property of the items"))
        elif key not in items.get("required", ()) and "default" not in properties[key]:
            text = "this property must either have a default or be a required property"
            causes.append(required(f"{path}.items.properties[{key}].default", text))
    return causes


def _objects(schema: Json, path: str) -> list[FieldCause]:
    causes = []
    if "properties" in schema and schema.get("additionalProperties"):
        text = "additionalProperties and properties are mutual exclusive"
        causes.append(forbidden(f"{path}.additionalProperties", text))
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        text = "must be true or undefined"
        causes.append(invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, text))
    return causes
