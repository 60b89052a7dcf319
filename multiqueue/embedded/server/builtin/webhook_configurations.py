"""admissionregistration.k8s.io/v1 webhook configurations."""

from collections.abc import Mapping, Sequence
from typing import Any

from multiqueue.embedded.server.builtin.pod_defaults import child
from multiqueue.embedded.server.causes import (
    FieldCause,
    duplicate,
    invalid,
    required,
    too_many,
)
from multiqueue.embedded.server.kinds import Hooks, JsonObject
from multiqueue.embedded.server.schema.metadata import check_name
from multiqueue.lib import object_names as names

Json = Mapping[str, Any]

MAX_CONDITIONS = 64


def _default(configuration: JsonObject, *, mutating: bool) -> None:
    for webhook in configuration.get("webhooks", ()):
        webhook.setdefault("failurePolicy", "Fail")
        webhook.setdefault("matchPolicy", "Equivalent")
        webhook.setdefault("timeoutSeconds", 10)
        webhook.setdefault("namespaceSelector", {})
        webhook.setdefault("objectSelector", {})
        if mutating:
            webhook.setdefault("reinvocationPolicy", "Never")
        if service := child(webhook, "clientConfig").get("service"):
            service.setdefault("port", 443)
        for rule in webhook.get("rules", ()):
            rule.setdefault("scope", "*")


def _validate(configuration: JsonObject) -> list[FieldCause]:
    """What keeps webhooks from being told apart, or their conditions from being evaluated."""
    causes = []
    seen: set[str] = set()
    for index, webhook in enumerate(configuration.get("webhooks", ())):
        path = f"webhooks[{index}]"
        name = webhook.get("name", "")
        if not name:
            causes.append(required(f"{path}.name"))
        if name in seen:
            causes.append(duplicate(f"{path}.name", name))
        seen.add(name)
        causes += _conditions(webhook.get("matchConditions", ()), f"{path}.matchConditions")
    return causes


def _conditions(conditions: Sequence[Json], path: str) -> list[FieldCause]:
    if len(conditions) > MAX_CONDITIONS:
        return [too_many(path, len(conditions), MAX_CONDITIONS)]
    causes = []
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        where, name = f"{path}[{index}]", condition.get("name", "")
        expression = condition.get("expression", "").strip()
        if not expression:
            causes.append(required(f"{where}.expression"))
        elif (error := _condition_error(expression)) is not None:
            causes.append(invalid(f"{where}.expression", expression, error))
        causes += (
            check_name(name, f"{where}.name", names.qualified_name)
            if name
            else [required(f"{where}.name")]
        )
        if name in seen:
            causes.append(duplicate(f"{where}.name", name))
        seen.add(name)
    return causes


def _condition_error(expression: str) -> str | None:
    """CEL is loaded when the first webhook has conditions."""
    from multiqueue.embedded.server.cel.match_conditions import condition_error

    return condition_error(expression)


MUTATING_HOOKS = Hooks(
    default=lambda obj: _default(obj, mutating=True),
    validate_create=lambda obj, _context: _validate(obj),
    validate_update=lambda obj, _old, _context: _validate(obj),
)
VALIDATING_HOOKS = Hooks(
    default=lambda obj: _default(obj, mutating=False),
    validate_create=lambda obj, _context: _validate(obj),
    validate_update=lambda obj, _old, _context: _validate(obj),
)
