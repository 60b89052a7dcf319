"""authorization.k8s.io/v1: access reviews, which are answered and never stored."""

from collections.abc import Mapping
from typing import Any

from multiqueue.embedded.server.auth import ApiUser
from multiqueue.embedded.server.authz.attributes import Attributes
from multiqueue.embedded.server.authz.authorizer import RoleAuthorizer, join_errors
from multiqueue.embedded.server.causes import FieldCause, invalid, invalid_message
from multiqueue.embedded.server.kinds import JsonObject, RequestContext
from multiqueue.embedded.server.status import StatusError, bad_request

GROUP = "authorization.k8s.io"


def self_access(
    authorizer: RoleAuthorizer, review: JsonObject, context: RequestContext
) -> JsonObject:
    """Answer a SelfSubjectAccessReview."""
    spec = review.get("spec") or {}
    _refuse([*_request_causes(spec), *_metadata_causes(review)])
    return _judged(authorizer, review, context.user_info, _wanted(spec))


def access(authorizer: RoleAuthorizer, review: JsonObject, _context: RequestContext) -> JsonObject:
    """Answer a SubjectAccessReview."""
    spec = review.get("spec") or {}
    _refuse([*_request_causes(spec), *_subject_causes(spec), *_metadata_causes(review)])
    return _judged(authorizer, review, _subject(spec), _wanted(spec))


def self_rules(
    authorizer: RoleAuthorizer, review: JsonObject, context: RequestContext
) -> JsonObject:
    """Answer a SelfSubjectRulesReview."""
    namespace = (review.get("spec") or {}).get("namespace", "")
    if not namespace:
        raise bad_request("no namespace on request")
    grants = authorizer.grants(context.user_info, namespace)
    rules = [grant.rule for grant in grants.rules]
    status: JsonObject = {
        "resourceRules": [rule.as_dict() for rule in rules if rule.resources],
        "nonResourceRules": [rule.as_dict() for rule in rules if rule.paths],
        "incomplete": False,
    }
    if grants.missing:
        status["evaluationError"] = join_errors(list(grants.missing))
    return {**review, "spec": {}, "status": status}


def _judged(
    authorizer: RoleAuthorizer, review: JsonObject, user: ApiUser, wanted: Attributes
) -> JsonObject:
    decision = authorizer.decide(user, wanted)
    status: JsonObject = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    return {**review, "status": status}


def _wanted(spec: Mapping[str, Any]) -> Attributes:
    resource = spec.get("resourceAttributes")
    if resource is None:
        path = spec["nonResourceAttributes"]
        return Attributes(verb=path.get("verb", ""), path=path.get("path", "") or "/")
    names = ("verb", "group", "resource", "subresource", "namespace", "name")
    return Attributes(*(resource.get(name) or "" for name in names))


def _subject(spec: Mapping[str, Any]) -> ApiUser:
    """Return the user as described in the review, without implied groups."""
    extra = spec.get("extra") or {}
    return ApiUser(
        name=spec.get("user", ""),
        groups=tuple(spec.get("groups") or ()),
        uid=spec.get("uid", ""),
        extra=tuple((key, tuple(values)) for key, values in sorted(extra.items())),
    )


def _request_causes(spec: Mapping[str, Any]) -> list[FieldCause]:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        text = "cannot be specified in combination with resourceAttributes"
        return [invalid("spec.nonResourceAttributes", _shown(path), text)]
    if resource is None and path is None:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [
            FieldCause(
                "FieldValueInvalid", "spec.resourceAttributes", f"Invalid value: null: {text}"
            )
        ]
    return []


def _subject_causes(spec: Mapping[str, Any]) -> list[FieldCause]:
    if spec.get("user") or spec.get("groups"):
        return []
    return [invalid("spec.user", "", "at least one of user or group must be specified")]


def _metadata_causes(review: JsonObject) -> list[FieldCause]:
    """Check the metadata of a review: it may have a namespace, but no name."""
    rest = {key: value for key, value in review["metadata"].items() if key != "namespace"}
    return [invalid("metadata", rest, "must be empty")] if rest else []


def _shown(path: Mapping[str, Any]) -> JsonObject:
    return {"Path": path.get("path", ""), "Verb": path.get("verb", "")}


def _refuse(causes: list[FieldCause]) -> None:
    """Kubernetes names no kind where it refuses a review.

    Raises:
        StatusError: 422, if anything is wrong.
    """
    if causes:
        details = {"group": GROUP, "causes": [cause.as_dict() for cause in causes]}
        message = invalid_message("", GROUP, "", causes)
        raise StatusError(422, "Invalid", message, details=details)
