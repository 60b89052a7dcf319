"""``x-kubernetes-validations``: whether there are any, and what keeps one from being compiled."""

from collections.abc import Mapping
from typing import Any

from multiqueue.embedded.server.causes import (
    FieldCause,
    invalid,
    not_supported,
    required,
    type_invalid,
)
from multiqueue.embedded.server.cel.field_path import parse_field_path

KEYWORD = "x-kubernetes-validations"
REASONS = (
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
)
_TEXTS = ("rule", "message", "messageExpression", "reason", "fieldPath")


def has_rules(schema: Any) -> bool:
    """Whether there are rules anywhere in a schema."""
    if isinstance(schema, Mapping):
        return KEYWORD in schema or any(has_rules(value) for value in schema.values())
    return isinstance(schema, list) and any(has_rules(value) for value in schema)


def shape_causes(entry: Any, path: str, schema: Mapping[str, Any]) -> list[FieldCause]:
    """What is wrong with an entry, whatever its expressions say."""
    if not isinstance(entry, Mapping):
        return [type_invalid(path, entry, "must be a rule")]
    wrong = [
        type_invalid(f"{path}.{field}", entry[field], "must be a string")
        for field in _TEXTS
        if not isinstance(entry.get(field, ""), str)
    ]
    if not isinstance(entry.get("optionalOldSelf", False), bool):
        value = entry["optionalOldSelf"]
        wrong.append(type_invalid(f"{path}.optionalOldSelf", value, "must be a boolean"))
    return wrong or [*_rule(entry, path), *_others(entry, path, schema)]


def _rule(entry: Mapping[str, Any], path: str) -> list[FieldCause]:
    rule, message = entry.get("rule", ""), entry.get("message", "")
    if not rule.strip():
        return [required(f"{path}.rule", "rule is not specified")]
    if message and not message.strip():
        return [invalid(f"{path}.message", message, "must be non-empty if specified")]
    if "\n" in message.strip():
        return [invalid(f"{path}.message", message, "must not contain line breaks")]
    if "\n" in rule.strip() and not message.strip():
        text = "message must be specified if rule contains line breaks"
        return [required(f"{path}.message", text)]
    return []


def _others(entry: Mapping[str, Any], path: str, schema: Mapping[str, Any]) -> list[FieldCause]:
    causes = []
    expression, field_path = entry.get("messageExpression", ""), entry.get("fieldPath", "")
    if expression and not expression.strip():
        text = "must be non-empty if specified"
        causes.append(required(f"{path}.messageExpression", f"messageExpression {text}"))
    if entry.get("reason") and entry["reason"] not in REASONS:
        causes.append(not_supported(f"{path}.reason", entry["reason"], REASONS))
    if field_path and not field_path.strip():
        causes.append(invalid(f"{path}.fieldPath", field_path, "must be non-empty if specified"))
    elif field_path and parse_field_path(field_path, schema) is None:
        causes.append(invalid(f"{path}.fieldPath", field_path, "must be a valid path"))
    return causes
