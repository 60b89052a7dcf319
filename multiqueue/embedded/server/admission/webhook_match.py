"""Matches operations to webhooks, and picks the version that each webhook gets."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import jsonpatch
import orjson

from multiqueue.embedded.server.call import Call
from multiqueue.embedded.server.kinds import JsonObject, Kind, KindVersion
from multiqueue.embedded.server.store import ObjectStore
from multiqueue.embedded.server.target import OperationTarget
from multiqueue.embedded.server.versions import convert
from multiqueue.lib.selectors import LabelSelector, label_selector_from

if TYPE_CHECKING:
    from multiqueue.embedded.server.cel.match_conditions import MatchCondition

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
NAMESPACES = ("", "namespaces")
DEFAULT_TIMEOUT_SECONDS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookReview:
    """One operation as webhooks judge it; objects in the version of the target."""

    operation: Operation
    target: OperationTarget
    obj: JsonObject | None
    old: JsonObject | None
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookRule:
    """One entry of ``rules``."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[str, ...]
    scope: str

    def covers(self, kind: Kind, version: str, subresource: str, operation: str) -> bool:
        """Whether the rule names this operation on this resource."""
        return (
            _names(self.operations, operation)
            and _names(self.groups, kind.group)
            and _names(self.versions, version)
            and self.scope in {"*", "Namespaced" if kind.namespaced else "Cluster"}
            and any(_is_resource(each, kind.plural, subresource) for each in self.resources)
        )


class ConditionError(Exception):
    """Conditions of a webhook have no value for a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedWebhook:
    """One webhook of a configuration."""

    name: str
    rules: tuple[WebhookRule, ...]
    exact: bool
    namespace_selector: LabelSelector
    object_selector: LabelSelector
    client_config: Mapping[str, Any]
    timeout_seconds: float
    ignore_failures: bool
    side_effects: str
    reinvoke: bool
    conditions: "tuple[MatchCondition, ...]"

    def is_concerned(self, request: Mapping[str, Any]) -> bool:
        """Whether its conditions hold for the ``request`` of an AdmissionReview.

        Raises:
            ConditionError: none is false, and some cannot be evaluated.
        """
        if not self.conditions:
            return True
        from multiqueue.embedded.server.cel.match_conditions import all_hold
        from multiqueue.lib.cel.expression import EvaluationError

        try:
            return all_hold(self.conditions, request)
        except EvaluationError as error:
            raise ConditionError(str(error)) from error


@dataclass(frozen=True, slots=True)
class Match:
    """A webhook and the version in which it wants to see the object."""

    webhook: MatchedWebhook
    version: KindVersion

    def selects(self, store: ObjectStore, review: WebhookReview) -> bool:
        """Whether namespace and object selectors agree."""
        return self._selects_namespace(store, review) and self._selects_object(review)

    def request(self, call: Call, review: WebhookReview) -> JsonObject:
        """The ``request`` of the AdmissionReview."""
        target, kind = review.target, review.target.kind
        version = self.version.name
        current = review.obj or review.old or {}
        request: JsonObject = {
            "uid": str(uuid.uuid4()),
            "kind": {"group": kind.group, "version": version, "kind": kind.kind},
            "resource": {"group": kind.group, "version": version, "resource": kind.plural},
            "requestKind": {
                "group": kind.group,
                "version": target.version.name,
                "kind": kind.kind,
            },
            "requestResource": {
                "group": kind.group,
                "version": target.version.name,
                "resource": kind.plural,
            },
            "name": target.name or current.get("metadata", {}).get("name", ""),
            "operation": review.operation,
            "userInfo": dict(call.user),
            "object": self._seen(review, review.obj),
            "oldObject": self._seen(review, review.old),
            "dryRun": call.dry_run,
            "options": dict(review.options),
        }
        if target.namespace:
            request["namespace"] = target.namespace
        elif kind.key == NAMESPACES:
            request["namespace"] = request["name"]
        if target.subresource:
            request["subResource"] = request["requestSubResource"] = target.subresource
        return request

    def patched(self, review: WebhookReview, patch: list[Any]) -> JsonObject:
        """The object after the webhook's patch, in the version of the target.

        Raises:
            ValueError: the patch does not fit.
        """
        seen = orjson.loads(orjson.dumps(self._seen(review, review.obj)))
        try:
            changed = jsonpatch.apply_patch(seen, patch, in_place=True)
        except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError) as error:
            raise ValueError(str(error)) from error
        target = review.target
        return convert(target.kind, self.version, target.version, changed)

    def _seen(self, review: WebhookReview, obj: JsonObject | None) -> JsonObject | None:
        target = review.target
        if obj is None or self.version is target.version:
            return obj
        copy = orjson.loads(orjson.dumps(obj))
        return convert(target.kind, target.version, self.version, copy)

    def _selects_namespace(self, store: ObjectStore, review: WebhookReview) -> bool:
        selector, kind = self.webhook.namespace_selector, review.target.kind
        if kind.key == NAMESPACES:
            return selector.matches(_labels(review.obj or review.old))
        if not kind.namespaced:
            return True
        namespace = store.get(NAMESPACES, "", review.target.namespace)
        return selector.matches(namespace.labels if namespace is not None else {})

    def _selects_object(self, review: WebhookReview) -> bool:
        present = [obj for obj in (review.obj, review.old) if obj is not None]
        return any(self.webhook.object_selector.matches(_labels(obj)) for obj in present)


def find_match(webhook: MatchedWebhook, review: WebhookReview) -> Match | None:
    """How a webhook wants to see an operation; None: its rules do not name it.

    With matchPolicy Equivalent a rule for another version of the same kind counts too.
    """
    target = review.target
    versions = [target.version]
    if not webhook.exact:
        versions += [each for each in target.kind.served_versions if each is not target.version]
    for version in versions:
        for rule in webhook.rules:
            if rule.covers(target.kind, version.name, target.subresource, review.operation):
                return Match(webhook, version)
    return None


def compile_webhooks(configurations: Iterable[Mapping[str, Any]]) -> tuple[MatchedWebhook, ...]:
    """The webhooks of all configurations, in the order in which they are asked."""
    ordered = sorted(configurations, key=lambda each: str(each["metadata"]["name"]))
    return tuple(_webhook(hook) for each in ordered for hook in each.get("webhooks") or ())


def _webhook(hook: Mapping[str, Any]) -> MatchedWebhook:
    return MatchedWebhook(
        name=hook["name"],
        rules=tuple(_rule(rule) for rule in hook.get("rules") or ()),
        exact=hook.get("matchPolicy") == "Exact",
        namespace_selector=label_selector_from(hook.get("namespaceSelector") or {}),
        object_selector=label_selector_from(hook.get("objectSelector") or {}),
        client_config=hook["clientConfig"],
        timeout_seconds=float(hook.get("timeoutSeconds") or DEFAULT_TIMEOUT_SECONDS),
        ignore_failures=hook.get("failurePolicy") == "Ignore",
        side_effects=hook.get("sideEffects") or "Unknown",
        reinvoke=hook.get("reinvocationPolicy") == "IfNeeded",
        conditions=_conditions(hook.get("matchConditions") or ()),
    )


def _conditions(conditions: Sequence[Mapping[str, Any]]) -> "tuple[MatchCondition, ...]":
    """CEL is loaded when the first webhook has conditions."""
    if not conditions:
        return ()
    from multiqueue.embedded.server.cel.match_conditions import compile_conditions

    return compile_conditions(conditions)


def _rule(rule: Mapping[str, Any]) -> WebhookRule:
    return WebhookRule(
        operations=frozenset(rule.get("operations") or ()),
        groups=frozenset(rule.get("apiGroups") or ()),
        versions=frozenset(rule.get("apiVersions") or ()),
        resources=tuple(rule.get("resources") or ()),
        scope=rule.get("scope") or "*",
    )


def _names(names: frozenset[str], name: str) -> bool:
    return name in names or "*" in names


def _is_resource(pattern: str, plural: str, subresource: str) -> bool:
    wanted, _, wanted_subresource = pattern.partition("/")
    return wanted in {"*", plural} and (
        wanted_subresource in {"*", subresource} if subresource else wanted_subresource in {"", "*"}
    )


def _labels(obj: Mapping[str, Any] | None) -> Mapping[str, str]:
    return ((obj or {}).get("metadata") or {}).get("labels") or {}
