"""Turns msgspec Structs into structural OpenAPI schemas for CustomResourceDefinitions."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec

from multiqueue.api.crd.pod_template import POD_TEMPLATE
from multiqueue.api.markers import REQUIRED
from multiqueue.api.v1beta2.meta import ObjectMeta, QuantityValue, Struct

Schema = dict[str, Any]

QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
QUANTITY: Schema = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": QUANTITY_PATTERN,
    "x-kubernetes-int-or-string": True,
}
_SHAPES = {"PodTemplateSpec": POD_TEMPLATE}
_API_VERSION: Schema = {
    "type": "string",
    "description": "Version of the schema that this object is written in.",
}
_KIND: Schema = {"type": "string", "description": "Kind of this object."}


def object_schema(kind: type[Struct]) -> Schema:
    """Return the schema of a whole object: type and metadata, then the Struct's fields."""
    schema = _struct(kind)
    schema["properties"] = {
        "apiVersion": dict(_API_VERSION),
        "kind": dict(_KIND),
        **schema["properties"],
    }
    return schema


def _struct(type_: type[Struct]) -> Schema:
    hints = get_type_hints(type_, include_extras=True)
    properties: Schema = {}
    required: list[str] = []
    for field in msgspec.structs.fields(type_):
        schema = _schema(hints[field.name])
        if schema.pop(REQUIRED, False) or field.required:
            required.append(field.encode_name)
        properties[field.encode_name] = schema
    result: Schema = {
        "type": "object",
        "description": " ".join((type_.__doc__ or "").split()),
        "properties": properties,
    }
    if required:
        result["required"] = sorted(required)
    if type_.rules:
        result["x-kubernetes-validations"] = [rule.as_dict() for rule in type_.rules]
    return result


def _schema(hint: Any) -> Schema:
    """Return the schema of a hint; ``Annotated`` overrides the type."""
    if get_origin(hint) is not Annotated:
        return _plain(hint)
    inner, *metas = get_args(hint)
    result = _plain(inner)
    for meta in metas:
        if not isinstance(meta, msgspec.Meta):
            continue
        extra = dict(meta.extra_json_schema or {})
        rules = [
            *result.get("x-kubernetes-validations", ()),
            *extra.pop("x-kubernetes-validations", ()),
        ]
        shape = extra.pop("x-shape", None)
        if shape is not None:
            result = dict(_SHAPES[shape])
        if "properties" in extra:
            result = {"type": "object"}
        result.update(extra)
        if rules:
            result["x-kubernetes-validations"] = rules
        if meta.description:
            result["description"] = meta.description
    return result


def _plain(hint: Any) -> Schema:
    if hint == QuantityValue:
        return dict(QUANTITY)
    origin = get_origin(hint)
    if origin in {Union, types.UnionType}:
        return _union(hint)
    if origin is tuple:
        item = get_args(hint)[0]
        return {"type": "array", "items": _schema(item), "x-kubernetes-list-type": "atomic"}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(get_args(hint)[1])}
    if hint is ObjectMeta:
        return {"type": "object"}
    if isinstance(hint, type) and issubclass(hint, Struct):
        return _struct(hint)
    return dict(_SCALARS[hint])


def _union(hint: Any) -> Schema:
    """Return the schema of X for ``X | None``: absent and null are the same on the wire."""
    alternatives = tuple(
        alternative for alternative in get_args(hint) if alternative is not type(None)
    )
    if set(alternatives) == set(get_args(QuantityValue)):
        return dict(QUANTITY)
    (alternative,) = alternatives
    return _schema(alternative)


_SCALARS: dict[Any, Schema] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int32"},
    float: {"type": "number"},
    Any: {"x-kubernetes-preserve-unknown-fields": True},
}


def walk(schema: Schema) -> Iterator[Schema]:
    """Yield a schema and all schemas inside it."""
    yield schema
    for child in (schema.get("properties") or {}).values():
        yield from walk(child)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from walk(schema[key])
