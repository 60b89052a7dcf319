"""Schemas with rules, and what the rules say about values."""

from typing import Any

from multiqueue.embedded.server.causes import FieldCause
from multiqueue.embedded.server.cel.custom_rules import definition_causes, rule_causes
from multiqueue.embedded.server.kinds import KindVersion

INT = {"type": "integer"}
STRING = {"type": "string"}
NUMBER = {"type": "number"}
BOOL = {"type": "boolean"}


def with_rules(schema: dict[str, Any], *rules: str | dict[str, Any]) -> dict[str, Any]:
    """A schema with these rules."""
    entries = [{"rule": rule} if isinstance(rule, str) else rule for rule in rules]
    return {**schema, "x-kubernetes-validations": entries}


def struct(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def list_of(items: dict[str, Any], *keys: str) -> dict[str, Any]:
    """A list; with keys one of type map."""
    kind = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}
    return {"type": "array", "items": items, **(kind if keys else {})}


def map_of(values: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values}


def version_of(spec: dict[str, Any]) -> KindVersion:
    return KindVersion(name="v1", served=True, storage=True, schema=struct(spec=spec))


def check(spec: dict[str, Any], value: Any, old: Any = None) -> list[FieldCause]:
    """What the rules say about ``spec``; ``old`` makes it an update."""
    before = None if old is None else {"spec": old}
    return rule_causes(version_of(spec), {"spec": value}, before, [])


def texts(causes: list[FieldCause]) -> list[str]:
    return [str(cause) for cause in causes]


def definition_texts(spec: dict[str, Any]) -> list[str]:
    """What is wrong with the rules of a definition."""
    return [f"{each.field}: {each.message}" for each in definition_causes(struct(spec=spec), "S")]


def holds(rule: str, value: Any = None, schema: dict[str, Any] | None = None) -> list[str]:
    """The refusals of one rule on ``self``: of a value by its schema, or of no matter what."""
    spec = struct(x=INT) if schema is None else schema
    rules = with_rules(spec, rule)
    return definition_texts(rules) or texts(check(rules, {"x": 1} if value is None else value))
