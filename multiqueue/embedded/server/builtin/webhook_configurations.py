"""admissionregistration.k8s.io/v1 webhook configurations."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from multiqueue.embedded.server.builtin.pod_defaults import child
from multiqueue.embedded.server.causes import (
    FieldCause,
    duplicate,
    invalid,
    not_supported,
    required,
    too_many,
)
from multiqueue.embedded.server.kinds import Hooks, JsonObject
from multiqueue.embedded.server.schema.metadata import check_name
from multiqueue.lib import object_names as names

Json = Mapping[str, Any]

MAX_CONDITIONS = 64
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_ENUMS = (
    ("failurePolicy", ("Ignore", "Fail")),
    ("matchPolicy", ("Exact", "Equivalent")),
    ("reinvocationPolicy", ("Never", "IfNeeded")),
)


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
    causes = []
    seen: set[str] = set()
    for index, webhook in enumerate(configuration.get("webhooks", ())):
        path = f"webhooks[{index}]"
        name = webhook.get("name", "")
        causes += _name(name, f"{path}.name")
        if name in seen:
            causes.append(duplicate(f"{path}.name", name))
        seen.add(name)
        causes += _webhook(webhook, path)
    return causes


def _name(name: str, path: str) -> list[FieldCause]:
    if not name:
        return [required(path)]
    if messages := names.subdomain(name):
        return [invalid(path, name, text) for text in messages]
    if name.count(".") < 2:
        return [
            invalid(path, name, "should be a domain with at least three segments separated by dots")
        ]
    return []


def _webhook(webhook: Json, path: str) -> list[FieldCause]:
    causes = []
    if webhook.get("sideEffects") not in _SIDE_EFFECTS:
        causes.append(
            required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun")
            if not webhook.get("sideEffects")
            else not_supported(f"{path}.sideEffects", webhook["sideEffects"], _SIDE_EFFECTS)
        )
    if "v1" not in webhook.get("admissionReviewVersions", ()):
        text = "must include v1, the version that this server speaks"
        given = webhook.get("admissionReviewVersions", [])
        where = f"{path}.admissionReviewVersions"
        causes.append(invalid(where, given, text) if given else required(where, text))
    if not 1 <= webhook["timeoutSeconds"] <= 30:
        text = "the timeout value must be between 1 and 30 seconds"
        causes.append(invalid(f"{path}.timeoutSeconds", webhook["timeoutSeconds"], text))
    causes += [
        not_supported(f"{path}.{field}", webhook[field], supported)
        for field, supported in _ENUMS
        if field in webhook and webhook[field] not in supported
    ]
    causes += _client(webhook["clientConfig"], f"{path}.clientConfig")
    for index, rule in enumerate(webhook.get("rules", ())):
        causes += _rule(rule, f"{path}.rules[{index}]")
    return causes + _conditions(webhook.get("matchConditions", ()), f"{path}.matchConditions")


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


def _client(client: Json, path: str) -> list[FieldCause]:
    if ("url" in client) == ("service" in client):
        return [required(path, "exactly one of url or service is required")]
    if "service" in client:
        return [
            required(f"{path}.service.{field}")
            for field in ("name", "namespace")
            if not client["service"].get(field)
        ]
    url = urlsplit(client["url"])
    causes = []
    if url.scheme != "https":
        text = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
        causes.append(invalid(f"{path}.url", client["url"], text))
    if not url.hostname:
        text = "host must be specified; desired format: https://host[/path]"
        causes.append(invalid(f"{path}.url", client["url"], text))
    if url.query or url.fragment or url.username:
        text = "query, fragment and user information are not permitted in the URL"
        causes.append(invalid(f"{path}.url", client["url"], text))
    return causes


def _rule(rule: Json, path: str) -> list[FieldCause]:
    causes = [
        required(f"{path}.{field}")
        for field in ("apiGroups", "apiVersions", "operations", "resources")
        if not rule.get(field)
    ]
    causes += [
        not_supported(f"{path}.operations[{index}]", operation, _OPERATIONS)
        for index, operation in enumerate(rule.get("operations", ()))
        if operation not in _OPERATIONS
    ]
    if rule["scope"] not in {"*", "Cluster", "Namespaced"}:
        supported = ("*", "Cluster", "Namespaced")
        causes.append(not_supported(f"{path}.scope", rule["scope"], supported))
    return causes


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
