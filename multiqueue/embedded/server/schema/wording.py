"""Turns jsonschema-rs errors into the field errors that Kubernetes reports."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jsonschema_rs import ValidationError

from multiqueue.embedded.server.causes import (
    FieldCause,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
    type_invalid,
)

Schema = Mapping[str, Any]


def causes_of(error: ValidationError, schema: Schema) -> list[FieldCause]:
    """The causes of one error; more than one where a combination (anyOf, oneOf) explains itself."""
    path = field_path(error.instance_path)
    kind = error.kind
    if kind.name == "required":
        missing = str(kind.property)  # type: ignore[attr-defined]
        return [required(f"{path}.{missing}" if path else missing)]
    word = _WORDS.get(kind.name)
    if word is None:
        return [invalid(path, error.instance, f"{path} in body is not valid: {error.message}")]
    node = _node(schema, error.instance_path)
    width = node.get("format")
    if kind.name == "type" and isinstance(error.instance, float) and width in {"int32", "int64"}:
        return [_wrong_type(path, width, "float64"), _too_wide(path, width)]
    return [word(path, error, node), *_inner_causes(error, schema)]


def field_path(parts: Sequence[str | int]) -> str:
    """``spec.list[0].name``."""
    path = ""
    for part in parts:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            path += f".{part}" if path else part
    return path


def _node(schema: Schema, parts: Sequence[str | int]) -> Schema:
    """The schema of a value, as far as properties, items and additionalProperties lead there."""
    node: Any = schema
    for part in parts:
        if isinstance(part, int):
            node = node.get("items")
        else:
            node = node.get("properties", {}).get(part, node.get("additionalProperties"))
        if not isinstance(node, Mapping):
            return {}
    return node if isinstance(node, Mapping) else {}


def _inner_causes(error: ValidationError, schema: Schema) -> list[FieldCause]:
    """Of the alternatives of an anyOf or oneOf, the one that came closest speaks too."""
    alternatives: list[list[ValidationError]] = getattr(error.kind, "context", None) or []
    failed = [alternative for alternative in alternatives if alternative]
    if not failed:
        return []
    closest = min(failed, key=len)
    return [cause for inner in closest for cause in causes_of(inner, schema)]


def _type(path: str, error: ValidationError, _schema: Schema) -> FieldCause:
    expected = [name for name in error.kind.types if name != "null"]  # type: ignore[attr-defined]
    return _wrong_type(path, ",".join(expected), json_type(error.instance))


def _wrong_type(path: str, expected: str, given: str) -> FieldCause:
    return type_invalid(path, given, f'{path} in body must be of type {expected}: "{given}"')


def _too_wide(path: str, expected: str) -> FieldCause:
    """A number that Kubernetes cannot even read; it does not say at which field."""
    text = f"Checked value must be of type integer with format {expected} in {path}"
    return invalid("<nil>", "", text)


def json_type(value: Any) -> str:
    """The name of a JSON value's type."""
    if value is None:
        return "null"
    names = {
        bool: "boolean",
        int: "integer",
        float: "number",
        str: "string",
        list: "array",
        dict: "object",
    }
    return names[type(value)]


def _format(path: str, error: ValidationError, _schema: Schema) -> FieldCause:
    name = error.kind.format  # type: ignore[attr-defined]
    text = f"{path} in body must be of type {name}: {json.dumps(error.instance)}"
    return type_invalid(path, error.instance, text)


def _enum(path: str, error: ValidationError, _schema: Schema) -> FieldCause:
    options: list[Any] = error.kind.options  # type: ignore[attr-defined]
    shown = [option if isinstance(option, str) else json.dumps(option) for option in options]
    return not_supported(path, error.instance, shown)


def _max_length(path: str, error: ValidationError, _schema: Schema) -> FieldCause:
    return too_long(path, error.kind.limit)  # type: ignore[attr-defined]


def _max_items(path: str, error: ValidationError, _schema: Schema) -> FieldCause:
    """Too many items or properties."""
    items: Any = error.instance
    return too_many(path, len(items), error.kind.limit)  # type: ignore[attr-defined]


def _min_size(path: str, error: ValidationError, _schema: Schema) -> FieldCause:
    """Too few items or properties; Kubernetes shows how many there are."""
    size, noun = len(error.instance), _NOUNS[error.kind.name]  # type: ignore[arg-type]
    limit = error.kind.limit  # type: ignore[attr-defined]
    return invalid(path, size, f"{path} in body should have at least {limit} {noun}")


_NOUNS = {"minItems": "items", "minProperties": "properties"}


def _bound(path: str, error: ValidationError, schema: Schema) -> FieldCause:
    limit = error.kind.limit  # type: ignore[attr-defined]
    if limit in {2**31 - 1, -(2**31)} and schema.get("format") == "int32":
        return _too_wide(path, "int32")
    return invalid(
        path, error.instance, f"{path} in body should be {_COMPARISONS[error.kind.name]} {limit}"
    )


_COMPARISONS = {
    "minimum": "greater than or equal to",
    "maximum": "less than or equal to",
    "exclusiveMinimum": "greater than",
    "exclusiveMaximum": "less than",
}


def _min_length(path: str, error: ValidationError, _schema: Schema) -> FieldCause:
    limit = error.kind.limit  # type: ignore[attr-defined]
    return invalid(path, error.instance, f"{path} in body should be at least {limit} chars long")


def _pattern(path: str, error: ValidationError, _schema: Schema) -> FieldCause:
    pattern = error.kind.pattern  # type: ignore[attr-defined]
    return invalid(path, error.instance, f"{path} in body should match '{pattern}'")


def _multiple_of(path: str, error: ValidationError, _schema: Schema) -> FieldCause:
    factor = error.kind.multiple_of  # type: ignore[attr-defined]
    return invalid(path, error.instance, f"{path} in body should be a multiple of {factor}")


def _combination(template: str) -> Callable[[str, ValidationError, Schema], FieldCause]:
    def word(path: str, error: ValidationError, _schema: Schema) -> FieldCause:
        return invalid(path, error.instance, template.format(path=path))

    return word


_WORDS: Mapping[str, Callable[[str, ValidationError, Schema], FieldCause]] = {
    "type": _type,
    "format": _format,
    "enum": _enum,
    "maxLength": _max_length,
    "maxItems": _max_items,
    "minimum": _bound,
    "maximum": _bound,
    "exclusiveMinimum": _bound,
    "exclusiveMaximum": _bound,
    "minLength": _min_length,
    "minItems": _min_size,
    "minProperties": _min_size,
    "maxProperties": _max_items,
    "uniqueItems": _combination("{path} in body shouldn't contain duplicates"),
    "pattern": _pattern,
    "multipleOf": _multiple_of,
    "anyOf": _combination('"{path}" must validate at least one schema (anyOf)'),
    "oneOf": _combination('"{path}" must validate one and only one schema (oneOf)'),
    "not": _combination('"{path}" must not validate the schema (not)'),
}
